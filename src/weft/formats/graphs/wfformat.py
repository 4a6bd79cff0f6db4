"""WfFormat 1.5 of WfCommons: recorded executions of scientific workflows (wfcommons.org/format)."""

from __future__ import annotations

import re

import numpy as np

from weft.errors import InvalidInput, UnknownName
from weft.formats.graphs.taskgraph import number_kinds, whole_cores
from weft.formats.parsing.limits import check_cells, check_graph
from weft.formats.parsing.quantity import quantity
from weft.formats.parsing.record import Record
from weft.model import Workflow
from weft.model.columns import refuse_negative, unique_names
from weft.registry import closest

_NUMBERING = re.compile(r"_ID\d+$")


def is_wfformat(record: Record) -> bool:
    """Tell whether a record looks like WfFormat of any version."""
    return isinstance(record.content.get("workflow"), dict) and (
        "schemaVersion" in record or "specification" in record.raw("workflow")
    )


def read_wfformat(record: Record, *, name: str) -> Workflow:
    """Return the workflow: recorded seconds -> work at speed 1, name without number -> kind.

    An edge joins a parent and a child and carries the files the one writes and the other reads. A
    task without a record of its execution counts as 0 seconds, because traces leave out what took
    no time of its own.
    """
    workflow = record.child("workflow")
    if "specification" not in workflow:
        version = record.text("schemaVersion", "unknown")
        raise InvalidInput(
            f"is WfFormat {version}; only 1.5 with workflow.specification is read (wfcommons "
            "converts older files)"
        )
    specification = workflow.child("specification")
    tasks = specification.children("tasks")
    ids = [task.text("id") for task in tasks]
    index = unique_names(ids, "task")
    labels = [_NUMBERING.sub("", task.text("name", i)) for task, i in zip(tasks, ids, strict=True)]
    kinds, kind = number_kinds(labels)
    work, memory, cores = _executions(workflow, index)
    pairs = _edges(tasks, index)
    check_graph(len(ids), len(pairs))
    return Workflow(
        name=name,
        names=tuple(ids),
        kinds=kinds,
        kind=kind,
        work=work,
        memory=memory,
        cores=whole_cores(cores, ids),
        src=np.array([s for s, _ in pairs], np.int64),
        dst=np.array([d for _, d in pairs], np.int64),
        data=_shared_bytes(tasks, pairs, _sizes(specification)),
    )


def _executions(
    workflow: Record, index: dict[str, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    work, memory, cores = np.zeros(len(index)), np.zeros(len(index)), np.ones(len(index))
    if "execution" not in workflow:
        raise InvalidInput("workflow.execution is missing, so the tasks have no run times")
    seen: set[str] = set()
    for r in workflow.child("execution").children("tasks"):
        name = r.text("id")
        if name not in index:
            raise UnknownName(
                f"{r.path('id')} names the unknown task '{name}'{closest(name, index)}"
            )
        if name in seen:
            raise InvalidInput(f"{r.path('id')} gives task '{name}' twice")
        seen.add(name)
        t = index[name]
        work[t] = quantity(
            r.raw("runtimeInSeconds", 0.0), "seconds", f"runtimeInSeconds of task '{name}'"
        )
        memory[t] = quantity(
            r.raw("memoryInBytes", 0.0), "bytes", f"memoryInBytes of task '{name}'"
        )
        cores[t] = quantity(r.raw("coreCount", 1), "work per second", f"coreCount of task '{name}'")
    return work, memory, cores


def _edges(tasks: list[Record], index: dict[str, int]) -> list[tuple[int, int]]:
    pairs: dict[tuple[int, int], None] = {}
    for t, task in enumerate(tasks):
        for key in ("parents", "children"):
            for other in task.strings(key, ()):
                if other not in index:
                    raise UnknownName(
                        f"{key} of task '{task.text('id')}' name the unknown task "
                        f"'{other}'{closest(other, index)}"
                    )
                pairs[(index[other], t) if key == "parents" else (t, index[other])] = None
    return sorted(pairs)


def _sizes(specification: Record) -> dict[str, float] | None:
    if "files" not in specification:
        return None
    files = specification.children("files")
    names = [r.text("id") for r in files]
    unique_names(names, "file")
    size = np.array(
        [
            quantity(r.raw("sizeInBytes", 0.0), "bytes", f"size of file '{n}'")
            for n, r in zip(names, files, strict=True)
        ],
        float,
    )
    refuse_negative(size, "size", lambda i: f"file '{names[i]}'")
    return dict(zip(names, size.tolist(), strict=True))


def _shared_bytes(
    tasks: list[Record], pairs: list[tuple[int, int]], sizes: dict[str, float] | None
) -> np.ndarray:
    if sizes is None:
        return np.zeros(len(pairs))
    written = [_files(task, "outputFiles", sizes) for task in tasks]
    read = [set(_files(task, "inputFiles", sizes)) for task in tasks]
    steps = sum(len(written[s]) for s, _ in pairs)
    check_cells(steps, f"the output files of {len(pairs)} edges, {steps} in all,")
    return np.array([sum(sizes[f] for f in written[s] if f in read[d]) for s, d in pairs], float)


def _files(task: Record, key: str, sizes: dict[str, float]) -> list[str]:
    files = list(dict.fromkeys(task.strings(key, ())))
    for file in files:
        if file not in sizes:
            raise UnknownName(
                f"{key} of task '{task.text('id')}' name the unknown file "
                f"'{file}'{closest(file, sizes)}"
            )
    return files
