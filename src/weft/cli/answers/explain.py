"""`weft explain`: why a plan or a run takes as long as it does."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.arguments import add_file, add_option, add_problem, read_results

if TYPE_CHECKING:
    from weft.model.explain import Explanation

SUMMARY = "explain why a plan or a run takes as long as it does"
EXAMPLE = (
    "  weft plan montage.json --gpus 4xV100+2xT4 --out plan.json\n"
    "  weft explain plan.json --problem montage.json --gpus 4xV100+2xT4"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_file(parser, "a schedule or a trace, saved by weft")
    add_problem(parser)
    add_option(parser, "--task", str, "T", "explain only this task, by name")
    add_option(parser, "--against", Path, "FILE", "compare with another schedule or trace")


def run(args: argparse.Namespace) -> None:
    """Explain and print."""
    from weft.cli.output import emit, notice, show, wrapped
    from weft.errors import InvalidInput

    if args.task is not None and args.against is not None:
        raise InvalidInput("give either --task or --against; see: weft explain --help")
    with notice(f"reading {args.file.name}"):
        from weft.model.explain import compare_explanations

        paths = [args.file] if args.against is None else [args.file, args.against]
        found, *others = _explained(paths, args)
    if args.task is not None:
        rows = found.rows_of(args.task)
        details = {"task": args.task, "executions": [_details(found, r) for r in rows]}
        show(args, details, _task_text(found, args.task, rows))
        return
    difference = compare_explanations(others[0], found) if others else None
    if args.json:
        against = None if difference is None else vars(difference)
        emit(found.as_dict() if against is None else {**found.as_dict(), "against": against})
    else:
        print(_text(found))
        if difference is not None:
            print("\n" + wrapped(f"against {args.against}: {difference}"))


def _explained(paths: list[Path], args: argparse.Namespace) -> list[Explanation]:
    """Explain each file."""
    from dataclasses import replace

    from weft.model.explain import explain

    explained = []
    for path, (result, problem) in zip(paths, read_results(paths, args), strict=True):
        found = explain(result, problem)
        explained.append(replace(found, name=found.name or path.name))
    return explained


def _text(found: Explanation) -> str:
    from weft.cli.output import WIDTH, wrapped
    from weft.model.explain.quantities import format_seconds
    from weft.report.labels import shortened
    from weft.report.tables import Column, table_text

    span = found.makespan
    parts = [
        f"  {part:<24}{format_seconds(s):>12}{100 * s / span if span else 0:>8.1f} %"
        for part, s in found.parts.items()
        if s > 0
    ]
    if not found.chain:
        return wrapped(found.sentence)
    columns: list[str | Column] = [
        "task",
        "device",
        Column("start", unit="s"),
        Column("finish", unit="s"),
        Column("because", title="starts because"),
    ]
    rows = [found.row_dict(r) for r in found.chain]
    chain = table_text(rows, columns)
    over = max(map(len, chain.splitlines())) - WIDTH
    if over > 0:  # reasons with long names lose their middle
        room = max(24, max(len(str(row["because"])) for row in rows) - over)
        shorter = [{**row, "because": shortened(str(row["because"]), room)} for row in rows]
        chain = table_text(shorter, columns)
    return "\n".join([wrapped(found.sentence), "", *parts, "", chain])


def _details(found: Explanation, row: int) -> dict[str, object]:
    return {
        **found.row_dict(row),
        "sentence": found.task_sentence(row),
        "alternatives": found.alternatives(row),
    }


def _task_text(found: Explanation, task: str, rows: list[int]) -> str:
    from weft.cli.output import wrapped
    from weft.model.explain.quantities import format_seconds

    if not rows:
        return f"{task} never runs."
    lines = []
    for row in rows:
        lines.append(wrapped(found.task_sentence(row)))
        if found.slack is not None:
            lines.append(f"  it could end {format_seconds(float(found.slack[row]))} later")
        others = found.alternatives(row)
        lines += [
            f"  on {name} it would end at {format_seconds(finish)}"
            for name, finish in others.items()
            if finish < float("inf") and name != found.device_name(row)
        ]
    return "\n".join(lines)
