"""Runs that go on from their journals, with a warning for tasks that run again."""

from __future__ import annotations

import warnings

from weft.errors import InvalidInput
from weft.runtime.engine.driver import Driver
from weft.runtime.journal import Journal

CALLER = 4
"""Frames from a warning to the caller of `weft.run`."""


def resume(driver: Driver, journal: Journal) -> None:
    """Enter the finished tasks of a journal; warn of those that run again."""
    if journal.changed:
        warnings.warn(
            f"run '{journal.run_id}': {journal.changed} of its finished tasks, or their inputs, "
            "changed since; these tasks run again",
            stacklevel=CALLER,
        )
    if journal.damaged:
        warnings.warn(
            f"run '{journal.run_id}': {journal.damaged} lines of {journal.path} are damaged; a "
            "task whose line is damaged runs again",
            stacklevel=CALLER,
        )
    if not journal.records:
        return
    lost = len(journal.records)
    if not journal.keep or all(record.result is None for record in journal.records):
        warnings.warn(
            f"run '{journal.run_id}' kept no results: {lost} finished tasks run again",
            stacklevel=CALLER,
        )
        return
    entries, reasons = journal.usable(driver.instances.wanted)
    if reasons:
        warnings.warn(
            f"run '{journal.run_id}': {len(reasons)} kept results cannot be used; "
            f"{lost - len(entries)} finished tasks run again: those and all that depend on them. "
            f"The first: {reasons[0]}",
            stacklevel=CALLER,
        )
    if driver.life.planned:
        raise InvalidInput(
            f"run '{journal.run_id}' cannot be resumed with a schedule; give the planner's name"
        )
    if journal.complete and len(entries) == len(journal.records):
        warnings.warn(
            f"run '{journal.run_id}' is finished: its stored results are returned, no task runs; "
            f"to run it again, choose another run id, or remove {journal.folder}",
            stacklevel=CALLER,
        )
    paths = {entry.instance: journal.folder / str(entry.result) for entry in entries}
    driver.resume(entries, paths.__getitem__)
