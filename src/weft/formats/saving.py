"""Save any object; the suffix chooses the format."""

from __future__ import annotations

import os
from pathlib import Path

from weft.errors import InvalidInput
from weft.formats.chrome_trace import write_chrome_trace
from weft.formats.holding import refuse_lost_fields, refuse_text
from weft.formats.loading import PathLike
from weft.formats.native.weft_json import write_json
from weft.formats.native.weft_schema import encode
from weft.formats.parsing.source import naming, suffix_of, write_bytes
from weft.formats.table import FORMATS, Savable
from weft.model import Problem, Schedule, Trace, Workflow
from weft.model.schedule import Planned
from weft.typed import typed


@typed
def save(thing: Savable | Planned, path: PathLike, *, problem: Problem | None = None) -> None:
    """Save an object.

    Equal objects give equal bytes, and loading returns the same object. What a format cannot hold
    is refused, and the error names it.

    ``.json`` and ``.npz`` hold any object, ``.toml`` a cluster, ``.dot``, ``.gv`` and ``.dax`` a
    workflow, ``.wfformat.json`` a workflow with its machines; add ``.gz`` to compress the file.
    ``.chrome.json`` draws a trace, or a schedule of `problem`, for Perfetto; it is read as a
    recording. With `problem`, a schedule is saved with the names of its tasks and devices; a plan
    is saved as its schedule, with its problem.
    """
    if isinstance(thing, Planned):
        problem = problem or thing.problem
        thing = thing.schedule
    target = Path(path)
    with naming(os.fspath(path)):
        write_bytes(target, _encoded(thing, target, problem))


@typed
def to_text(thing: Savable) -> str:
    """Return the text that `save` writes to a ``.json`` file."""
    refuse_text(thing)
    return write_json(encode(thing)).decode("ascii")


@typed
def save_chrome_trace(
    source: Schedule | Trace, path: PathLike, *, problem: Problem | None = None
) -> None:
    """Save a trace, or a schedule of a problem, for Perfetto and chrome://tracing."""
    with naming(os.fspath(path)):
        write_bytes(Path(path), write_chrome_trace(source, problem))


def _encoded(thing: Savable, path: Path, problem: Problem | None) -> bytes:
    name = path.name.removesuffix(".gz").lower()
    rows = [row for row in FORMATS.values() if row.write and isinstance(thing, row.holds)]
    matches = [(s, row) for row in rows for s in row.suffixes if name.endswith(s)]
    if not matches:
        known = ", ".join(suffix for row in rows for suffix in row.suffixes)
        raise InvalidInput(
            f"a {type(thing).__name__} cannot be saved as '{suffix_of(path)}'; known: {known}"
            + _hint(thing, name)
        )
    _, row = max(matches, key=lambda match: len(match[0]))  # .chrome.json before .json
    assert row.write is not None
    refuse_text(thing)
    if row.keeps is not None and isinstance(thing, Workflow | Problem):
        workflow = thing.workflow if isinstance(thing, Problem) else thing
        refuse_lost_fields(workflow, row.keeps, row.name)
    return row.write(thing, problem)


def _hint(thing: Savable, name: str) -> str:
    """Return the remedy for a problem in a file that holds a workflow alone."""
    rows = [row for row in FORMATS.values() if row.write and Workflow in row.holds]
    alone = any(name.endswith(suffix) for row in rows for suffix in row.suffixes)
    return "; this file holds its workflow alone" if isinstance(thing, Problem) and alone else ""
