"""`weft evaluate`: policies and rules on the same draws of a stream."""

from __future__ import annotations

import argparse
from math import inf
from typing import TYPE_CHECKING, Any

from weft.cli.arguments import add_flag, add_names, add_option, add_stream, refuse_given
from weft.cli.values import names, number, several, whole

if TYPE_CHECKING:
    from weft.experiments.conditional.published import PublishedOptions
    from weft.model.columns import FloatArray
    from weft.model.conditional_stream import ConditionalStream

    PolicyFigures = dict[str, FloatArray]
    """Mean, p95, p99 and share in time, each with one number per draw."""

SUMMARY = "job completion times of policies and rules for streams of conditional jobs"
EXAMPLE = """  weft evaluate conditional-pi4 unit-fifo unit-mru unit-depth-first
  weft evaluate trained/pi4 conditional-best --probabilities 0.8,0.9,1 --seeds 10
  weft evaluate fifo --stream mine.toml --jobs 2000 --json
  weft evaluate edf conditional-any --stream two_streams.toml"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    text = "a policy by name (see: weft list policies) or file"
    add_names(parser, "policy", text, many="+")
    add_stream(parser)
    text = (
        "evaluate once per value: probability of the first branch of the choice that has estimate "
        "= true in the stream file (default: 0, 0.1, ..., 1; without such a choice, as the stream "
        "has them)"
    )
    which = parser.add_mutually_exclusive_group()
    add_option(which, "--probabilities", several(number(least=0, most=1)), "P,P", text)
    add_flag(which, "--own", "leave the probabilities as the stream has them")
    add_option(
        parser, "--seeds", whole(1), "N", "draws of the stream, with seeds 1 to N", default=10
    )
    add_option(parser, "--jobs", whole(1), "N", "jobs in each draw (default: as the stream says)")
    parser.add_argument(
        "--idle",
        choices=("event", "block", "published"),
        help="how long an idle unit waits before the policy decides again: event: until the next "
        "event; block: 10 ms; published: as in the authors' program, with its habits (see "
        "--without); default: as the policy was trained, event for rules",
    )
    text = (
        "with --idle published: habits of the authors' program to leave out: single-event, expiry, "
        "heap-order (default: none)"
    )
    add_option(parser, "--without", names, "HABIT,HABIT", text, default=[])


def run(args: argparse.Namespace) -> None:
    """Simulate the policies on the draws; print their figures."""
    from dataclasses import replace

    import numpy as np

    from weft.cli.output import emit, track
    from weft.formats.native.stream_toml import load_stream, load_streams
    from weft.generators.generators import refuse_huge

    shared = load_streams(args.stream)
    from weft.learn.conditional.scores import completions, service_figures, shared_completions
    from weft.policies.conditional.evaluate import variants
    from weft.policies.load import load_policy

    if args.jobs is not None:
        most = max(stream.problem.n for stream in shared.streams)
        refuse_huge(args.jobs * most, f"--jobs {args.jobs}: a draw")
    points, together = None, len(shared.streams) > 1
    if together:
        refuse_given(args, "--probabilities --own --idle", "for several streams on the same units")
        streams = [s if args.jobs is None else s.with_jobs(args.jobs) for s in shared.streams]
        shared = replace(shared, streams=tuple(streams))
        title, labels = shared.name, [s.name for s in streams]
    else:
        stream = load_stream(args.stream)
        stream = stream if args.jobs is None else stream.with_jobs(args.jobs)
        points = args.probabilities
        if points is None and stream.watched and not args.own:
            points = [i / 10 for i in range(11)]
        title, streams = stream.name, variants(stream, points)
        labels = ["own"] if points is None else [f"{p:g}" for p in points]
    policies = list(dict.fromkeys(args.policy))
    who = {name: load_policy(name) for name in policies}
    habits = _habits(args)
    authors = title == "conditional-paper"  # their draws, so that the figures stand beside theirs
    seeds = range(1, args.seeds + 1)
    parts: dict[str, list[PolicyFigures]] = {name: [] for name in policies}
    work = [(name, i) for name in policies for i in range(1 if together else len(streams))]
    for name, i in track(work, total=len(work), what="evaluate"):
        if together:
            times = shared_completions(who[name], shared, seeds)
        elif args.idle == "published":
            from weft.experiments.conditional.published_network import published_completions

            times = [[published_completions(name, streams[i], seed, habits) for seed in seeds]]
        else:
            one = streams[i : i + 1]
            times = completions(who[name], one, seeds, idle=args.idle, authors=authors)
        for k, draws in enumerate(times):
            found = [service_figures(jobs, streams[i + k].deadline) for jobs in draws]
            parts[name].append({key: np.array([f[key] for f in found]) for key in found[0]})
    if args.json:
        emit(_document(title, points, streams, seeds, parts))
        return
    shown = {"mean": "mean", "p95": "95th percentile of", "p99": "99th percentile of"}
    blocks = [
        _text(f"{what} job completion time in ms", title, labels, seeds, _column(parts, key))
        for key, what in shown.items()
    ]
    if any(s.deadline < inf for s in streams):
        share = {name: [100 * f["in_time"] for f in found] for name, found in parts.items()}
        blocks.append(_text("% of jobs in time", title, labels, seeds, share))
    print("\n\n".join(blocks))


def _habits(args: argparse.Namespace) -> PublishedOptions | None:
    """Return the habits of the published environment that are asked for."""
    from weft.errors import InvalidInput
    from weft.registry import closest

    if args.idle != "published":
        if args.without:
            raise InvalidInput("--without is for the published environment; add --idle published")
        return None
    from weft.experiments.conditional.published import PLAIN, PublishedOptions

    known = {"single-event": "single_event", "expiry": "expiry", "heap-order": "heap_order"}
    for habit in args.without:
        if habit not in known:
            raise InvalidInput(f"--without: unknown habit '{habit}'{closest(habit, known)}")
    off = {known[habit]: getattr(PLAIN, known[habit]) for habit in args.without}
    return PublishedOptions(**off)


def _column(parts: dict[str, list[PolicyFigures]], key: str) -> dict[str, list[FloatArray]]:
    """Return one figure by policy, in milliseconds."""
    return {name: [1000 * f[key] for f in found] for name, found in parts.items()}


def _document(
    title: str,
    points: list[float] | None,
    streams: list[ConditionalStream],
    seeds: range,
    parts: dict[str, list[PolicyFigures]],
) -> dict[str, Any]:
    from weft.report.statistics import half_width

    rows = [
        {
            "policy": name,
            "stream": streams[i].name,
            "probability": None if points is None else points[i],
            "mean": f["mean"].mean(),
            "half_width": half_width(f["mean"]),
            "p95": f["p95"].mean(),
            "p99": f["p99"].mean(),
            "in_time": f["in_time"].mean() if streams[i].deadline < inf else None,
            "seeds": f["mean"],
        }
        for name, found in parts.items()
        for i, f in enumerate(found)
    ]
    return {"stream": title, "unit": "s", "seeds": list(seeds), "rows": rows}


def _text(
    what: str, title: str, labels: list[str], seeds: range, parts: dict[str, list[FloatArray]]
) -> str:
    width = max(len(name) for name in parts) + 2
    first = max(6, *(len(label) for label in labels))
    draws = f"{len(seeds)} draw{'s' * (len(seeds) > 1)}"
    lines = [f"{title}: {what} over {draws}, with half the 95 % interval"]
    lines.append("p".rjust(first) + "".join(name.rjust(max(width, 16)) for name in parts))
    for i, label in enumerate(labels):
        cells = [_cell(found[i]) for found in parts.values()]
        lines.append(label.rjust(first) + "".join(cell.rjust(max(width, 16)) for cell in cells))
    return "\n".join(lines)


def _cell(times: FloatArray) -> str:
    from weft.report.statistics import half_width

    width = f" ± {half_width(times):.2f}" if len(times) > 1 else ""
    return f"{times.mean():.2f}{width}"
