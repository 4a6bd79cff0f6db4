"""`weft evaluate`: policies and rules on the same draws of a stream."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from weft.cli.arguments import whole

if TYPE_CHECKING:
    from weft.model.columns import FloatArray

SUMMARY = "mean job completion time of policies and rules for streams of conditional jobs"
EXAMPLE = """  weft evaluate conditional-pi4 fifo mru depth-first
  weft evaluate trained/pi4 conditional --probabilities 0.8,0.9,1 --seeds 10
  weft evaluate fifo --stream mine.toml --jobs 2000 --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say the arguments of the verb."""
    parser.add_argument(
        "policy",
        nargs="+",
        metavar="POLICY",
        help="a policy by name (see: weft list policies) or file",
    )
    parser.add_argument(
        "--stream",
        default="conditional-paper",
        metavar="TOML",
        help="a file, or a name (default: conditional-paper)",
    )
    parser.add_argument(
        "--probabilities",
        type=_probabilities,
        metavar="P,P",
        help="of the first branch of the watched choice (default: 0, 0.1, ..., 1)",
    )
    parser.add_argument(
        "--own", action="store_true", help="leave the probabilities as the stream has them"
    )
    parser.add_argument(
        "--seeds",
        type=whole(1),
        default=10,
        metavar="N",
        help="draws, by the seeds 1 to N (default: 10)",
    )
    parser.add_argument(
        "--jobs", type=whole(1), metavar="N", help="jobs in each draw (default: as the stream says)"
    )
    parser.add_argument(
        "--idle",
        choices=("event", "block"),
        help="default: as the policy was trained; event for rules",
    )


def run(args: argparse.Namespace) -> None:
    """Play, and print."""
    from weft.cli.output import emit, progress
    from weft.formats.native.stream_toml import load_stream

    stream = load_stream(args.stream)
    stream = stream if args.jobs is None else stream.with_jobs(args.jobs)
    from weft.learn.conditional.scores import completion_times, variants
    from weft.policies.load import load_policy

    points = None if args.own else (args.probabilities or [i / 10 for i in range(11)])
    names = list(dict.fromkeys(args.policy))
    who = {name: load_policy(name) for name in names}
    authors = (
        stream.name == "conditional-paper"
    )  # their draws, so that the figures stand beside theirs
    streams, seeds = variants(stream, points), range(1, args.seeds + 1)
    work = [(name, i) for name in names for i in range(len(streams))]
    parts: dict[str, list[FloatArray]] = {name: [] for name in names}
    for name, i in progress(work, total=len(work), what="evaluate"):
        parts[name].append(
            completion_times(who[name], streams[i : i + 1], seeds, idle=args.idle, authors=authors)[
                0
            ]
        )
    if args.json:
        emit(_document(stream.name, points, seeds, parts))
    else:
        print(_text(stream.name, points, seeds, parts))


def _document(
    stream: str, points: list[float] | None, seeds: range, parts: dict[str, list[FloatArray]]
) -> dict[str, Any]:
    from weft.report.statistics import half_width

    rows = [
        {
            "policy": name,
            "probability": None if points is None else points[i],
            "mean": times.mean(),
            "half_width": half_width(times),
            "seeds": times,
        }
        for name, found in parts.items()
        for i, times in enumerate(found)
    ]
    return {"stream": stream, "unit": "s", "seeds": list(seeds), "rows": rows}


def _text(
    stream: str, points: list[float] | None, seeds: range, parts: dict[str, list[FloatArray]]
) -> str:
    width = max(len(name) for name in parts) + 2
    draws = f"{len(seeds)} draw{'s' * (len(seeds) > 1)}"
    lines = [f"{stream}: mean job completion time in ms over {draws}, with half the 95 % interval"]
    lines.append("p".rjust(6) + "".join(name.rjust(max(width, 16)) for name in parts))
    for i in range(len(next(iter(parts.values())))):
        cells = [_cell(found[i]) for found in parts.values()]
        lines.append(
            ("own" if points is None else f"{points[i]:g}").rjust(6)
            + "".join(cell.rjust(max(width, 16)) for cell in cells)
        )
    return "\n".join(lines)


def _cell(times: FloatArray) -> str:
    from weft.report.statistics import half_width

    width = f" ± {half_width(times) * 1000:.2f}" if len(times) > 1 else ""
    return f"{times.mean() * 1000:.2f}{width}"


def _probabilities(text: str) -> list[float]:
    from weft.cli.arguments import number

    read = number(least=0, most=1)
    return [read(part) for part in text.split(",") if part.strip()]
