"""`weft view`: a page about a plan, a run, a comparison or an experiment."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli.arguments import (
    PROBLEM_OPTIONS,
    add_file,
    add_option,
    add_problem,
    read_results,
    refuse_given,
)
from weft.cli.values import page

if TYPE_CHECKING:
    from weft.model import Problem, Schedule, Trace

SUMMARY = "write one offline page about plans, traces, runs, a comparison or an experiment"
EXAMPLE = """\
  weft plan montage.json --gpus 4xV100+2xT4 --planner heft --out heft.json
  weft plan montage.json --gpus 4xV100+2xT4 --planner peft --out peft.json
  weft view heft.json peft.json --problem montage.json --gpus 4xV100+2xT4 --out page.html

  weft compare montage.json --gpus 4xV100+2xT4 --json > comparison.json
  weft view comparison.json

  weft reproduce conditional --quick
  weft view reproduce/conditional/page.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    text = "schedules and traces saved by weft, or the JSON of one comparison or experiment"
    add_file(parser, text, many="+")
    add_problem(parser)
    add_option(parser, "--out", page, "HTML", "the page (default: NAME.view.html for NAME.json)")


def run(args: argparse.Namespace) -> None:
    """Read the files and write the page."""
    from weft.cli.output import notice, show

    out = args.out or page_beside(args.file[0])
    with notice(f"reading {args.file[0].name}"):
        from weft.formats.parsing.source import write_file
        from weft.report.pages.results import comparison_page, experiment_page, results_page

        document, title = _document(args.file), args.file[0].stem
        if document is not None:
            refuse_given(args, PROBLEM_OPTIONS, f"for {args.file[0]}, which holds no schedule")
        if document is None:
            page = results_page(_results(args))
        elif "answers" in document:
            page = comparison_page(document, title=title)
        else:
            page = experiment_page(document, title=title)
        write_file(out, page)
    show(args, {"page": str(out)}, f"wrote {out}")


def page_beside(path: Path) -> Path:
    """Return the page of a file, under a name that no chart of the user has.

    Examples
    --------
    >>> page_beside(Path("a/plan.json")).name, page_beside(Path("b.npz.gz")).name
    ('plan.view.html', 'b.view.html')
    """
    return path.with_name(f"{Path(path.name.removesuffix('.gz')).stem}.view.html")


def _document(files: list[Path]) -> dict[str, Any] | None:
    """Return the document of a comparison or experiment, if one JSON file holds it."""
    from weft.errors import InvalidInput
    from weft.formats.parsing.source import decode_text, parse_json, read_bytes

    if len(files) != 1 or files[0].suffix != ".json":
        return None
    try:
        found = parse_json(decode_text(read_bytes(files[0])))
    except InvalidInput:
        return None  # the readers of weft say what is wrong with it
    if not isinstance(found, dict):
        return None
    if "experiment" in found and "tables" not in found:
        raise InvalidInput(
            f"{files[0]}: holds the results of an experiment, its page is report.html beside it; "
            "its tables are in page.json"
        )
    return found if "answers" in found or "measured_with" in found else None


def _results(args: argparse.Namespace) -> dict[str, tuple[Schedule | Trace, Problem | None]]:
    """Return the results by name of their file; by path where names are the same."""
    found: dict[str, tuple[Schedule | Trace, Problem | None]] = {}
    for path, result in zip(args.file, read_results(args.file, args), strict=True):
        found[path.stem if path.stem not in found else str(path)] = result
    return found
