"""Task tables: CSV files with one row per task."""

from __future__ import annotations

from weft.formats.parsing.limits import RECORD_CELLS, check_cells, split_lines
from weft.formats.parsing.quantity import quantity
from weft.model import Workflow
from weft.model.builder import columns_of_csv, workflow_from_table

TABLE_CELLS = 12
"""Cells that one cell of a table counts for: it is copied to columns, rows and tasks."""


def read_task_table(text: str, *, name: str) -> Workflow:
    r"""Return the workflow of a table (see `Problem.from_table`) of numbers with units.

    Examples
    --------
    >>> w = read_task_table("task,after,seconds,bytes\na,,2,1 kB\nb,a,3 min,\n", name="etl")
    >>> w.work.tolist(), w.data.tolist()
    ([2.0, 180.0], [1000.0])
    """
    parts = sum(map(text.count, ",;\t"))
    check_cells(TABLE_CELLS * parts, f"a table of {parts} cells")
    split_lines(text, cells=RECORD_CELLS)
    return workflow_from_table(columns_of_csv(text), name=name, number=quantity)
