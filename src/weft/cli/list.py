"""`weft list`: the names to choose from, each with a sentence."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.registry import Entry

SUMMARY = "list planners, policies, streams, backends, generators, devices and formats"
EXAMPLE = "  weft list planners\n  weft list policies\n  weft list devices --json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "topic",
        nargs="?",
        choices=TOPICS,
        metavar="TOPIC",
        help=f"one of: {', '.join(TOPICS)} (default: all)",
    )


def run(args: argparse.Namespace) -> None:
    """Print the names, each with its sentence."""
    from weft.cli.output import emit, notice

    topics = list(TOPICS) if args.topic is None else [args.topic]
    with notice("reading the tables"):
        found = {topic: TOPICS[topic]() for topic in topics}
    if args.json:
        emit(found)
        return
    for number, topic in enumerate(topics):
        print(f"{'' if number == 0 else chr(10)}{topic}:")
        width = max((len(name) for name in found[topic]), default=0)
        for name, text in found[topic].items():
            print(_entry(name, text, width))
        if topic in NOTES:
            print(_entry("", NOTES[topic], 0))


def _entry(name: str, text: str, width: int) -> str:
    """Return a name and its sentence, wrapped beside it."""
    import textwrap

    from weft.cli.output import WIDTH

    lines = textwrap.wrap(text, max(30, WIDTH - width - 4)) or [""]
    beside = f"\n{'':<{width + 4}}".join(lines)
    return f"  {name:<{width}}  {beside}".rstrip()


def _described(entries: Iterable[Entry]) -> dict[str, str]:
    return {str(entry): entry.summary for entry in entries}


def _planners() -> dict[str, str]:
    from weft.planners import PLANNERS

    return {
        str(entry): f"{entry.summary} [{', '.join(sorted(PLANNERS.create(entry).supports))}]"
        for entry in PLANNERS.entries()
    }


def _policies() -> dict[str, str]:
    from weft.policies.load import list_policies

    entries = sorted(list_policies(), key=lambda entry: (entry.family, entry))
    return {str(entry): f"{entry.family}: {entry.summary}" for entry in entries}


def _streams() -> dict[str, str]:
    from weft.formats.native.stream_toml import load_stream, stream_names

    found = {}
    for name in stream_names():
        stream = load_stream(name)
        problem = stream.problem
        found[name] = (
            f"Jobs of up to {problem.n} tasks on {problem.p} units; {stream.jobs:,} jobs per draw."
        )
    return found


def _backends() -> dict[str, str]:
    from weft.runtime.backends.named import BACKENDS

    return {name: (make.__doc__ or "").split("\n")[0] for name, make in BACKENDS.items()}


def _generators() -> dict[str, str]:
    from weft.generators import GENERATORS

    return _described(GENERATORS.entries())


def _devices() -> dict[str, str]:
    from weft.generators import catalogue
    from weft.model.explain.quantities import format_bytes

    return {
        name: f"{model.peak('fp32'):g} TFLOP/s fp32, {format_bytes(model.memory)}, {model.tdp:g} W"
        for name, model in catalogue().items()
    }


def _formats() -> dict[str, str]:
    from weft.formats.loading import list_formats

    return _described(list_formats())


NOTES = {
    "planners": "In brackets: capacities of nodes, copies of tasks, limits of devices (memory, "
    "cores), links that differ, objectives beside the makespan, a proof of the optimum, a time "
    "limit in seconds, set-ups."
}
"""What the entries of a topic have in common."""

TOPICS: dict[str, Callable[[], dict[str, str]]] = {
    "planners": _planners,
    "policies": _policies,
    "streams": _streams,
    "backends": _backends,
    "generators": _generators,
    "devices": _devices,
    "formats": _formats,
}
