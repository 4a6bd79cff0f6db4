"""`weft list`: what there is to choose from."""

from __future__ import annotations

import argparse
import inspect
from typing import Any

SUMMARY = "list planners, policies, generators, devices and formats"
EXAMPLE = "  weft list planners\n  weft list devices --json"

FORMATS = {
    "weft JSON (.json)": "problems, workflows, clusters, workloads, schedules, traces; read and written",
    "weft NPZ (.npz)": "the same in binary columns; read and written",
    "TOML (.toml)": "clusters; read and written",
    "WfFormat 1.5 (.json)": "workflows of WfCommons; read",
    "taskgraph-v1 (.json)": "workflows in columns; read",
    "static graphs (.json)": "cost matrices of the scheduling literature; read",
    "STG (.stg)": "the Standard Task Graph Set; read",
    "DOT (.dot, .gv)": "Graphviz; read and written",
    "Chrome trace (.json)": "schedules and traces for ui.perfetto.dev; written",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say the arguments of the verb."""
    parser.add_argument(
        "topic",
        nargs="?",
        choices=TOPICS,
        metavar="TOPIC",
        help=f"one of: {', '.join(TOPICS)} (default: all)",
    )


def run(args: argparse.Namespace) -> None:
    """Print the names, each with a line about it."""
    from weft.cli.output import emit

    topics = list(TOPICS) if args.topic is None else [args.topic]
    found = {topic: TOPICS[topic]() for topic in topics}
    if args.json:
        emit(found)
        return
    for topic in topics:
        if len(topics) > 1:
            print(f"{topic}:")
        width = max((len(name) for name in found[topic]), default=0)
        for name, text in found[topic].items():
            print(f"  {name:<{width}}  {text}".rstrip())


def _planners() -> dict[str, str]:
    from weft.planners import PLANNERS

    return {
        name: f"{PLANNERS.summary(name)} Supports {', '.join(sorted(planner.supports))}."
        for name, planner in ((name, PLANNERS.create(name)) for name in PLANNERS.names())
    }


def _policies() -> dict[str, str]:
    from weft.policies import POLICIES

    return {name: _about_policy(POLICIES.create(name)) for name in POLICIES.names()}


def _generators() -> dict[str, str]:
    from weft.generators import GENERATORS

    return {name: _about(GENERATORS.factory(name)) for name in GENERATORS.names()}


def _devices() -> dict[str, str]:
    from weft.generators import catalogue
    from weft.report.quantities import format_bytes

    return {
        name: f"{model.peak('fp32'):g} TFLOP/s fp32, {format_bytes(model.memory)}, {model.tdp:g} W"
        for name, model in catalogue().items()
    }


def _formats() -> dict[str, str]:
    return FORMATS


def _about_policy(policy: Any) -> str:
    """A rule is its order and its placement; others speak for themselves."""
    if not hasattr(policy, "key") or not hasattr(policy, "placement"):
        return _about(policy)
    order = _about(policy.key) or f"Order '{policy.key.__name__.strip('_')}'."
    return f"{order} Placement '{policy.placement}', inside the kernel."


def _about(factory: Any) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(factory) or "").split("\n", maxsplit=1)[0]


TOPICS = {
    "planners": _planners,
    "policies": _policies,
    "generators": _generators,
    "devices": _devices,
    "formats": _formats,
}
