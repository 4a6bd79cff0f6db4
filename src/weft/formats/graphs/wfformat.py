"""WfFormat 1.5 and 1.6 of WfCommons: recorded executions of workflows.

The format is described at wfcommons.org/format. Both versions have the same keys; 1.6 adds
summaries, which are not read. In files of other systems, a task's identifier is its name here, and
its name is its kind. Files that weft wrote have two more keys, which the schema allows: ``kind`` of
a task, whose ``name`` is then its real name, and ``cluster``, the name of the machines.
"""

from __future__ import annotations

import json
import math
import re
import sys
from typing import Any

import numpy as np

from weft import __version__
from weft.arguments import refuse_negative, unique_names
from weft.errors import InvalidInput, UnknownName
from weft.formats.graphs.taskgraph import number_kinds, whole_cores
from weft.formats.holding import REMEDY, refuse_empty_names, refuse_lost_machines
from weft.formats.native.costs import encode_costs
from weft.formats.parsing.limits import check_cells, check_devices, check_graph
from weft.formats.parsing.quantity import quantity
from weft.formats.parsing.record import Record
from weft.formats.traces.recording import distinct
from weft.model import Cluster, Device, Problem, Workflow
from weft.registry import closest

FORMAT = "wfformat"
SYSTEM = "weft"
"""The runtime system of files that weft wrote."""

_NUMBERING = re.compile(r"_ID\d+$")


def is_wfformat(record: Record) -> bool:
    """Return whether a record looks like WfFormat of any version."""
    return isinstance(record.content.get("workflow"), dict) and (
        "schemaVersion" in record or "specification" in record.raw("workflow")
    )


def read_wfformat(record: Record, *, name: str) -> Workflow:
    """Return the workflow that was executed.

    Recorded seconds -> work at speed 1, name without number -> kind. An edge joins a parent and a
    child and carries the files that the parent writes and the child reads. A task without a record
    of its execution counts as 0 seconds, because traces leave out tasks that took no time.
    """
    workflow = record.child("workflow")
    if "specification" not in workflow:
        version = record.text("schemaVersion", "unknown")
        raise InvalidInput(
            f"is WfFormat {version}; only 1.5 and 1.6 with workflow.specification are read "
            "(wfcommons converts older files)"
        )
    specification = workflow.child("specification")
    tasks = specification.children("tasks")
    ids = [task.text("id") for task in tasks]
    index = unique_names(ids, "task")
    ours = _is_ours(record)
    labels, names = _labels(tasks, ids, ours=ours)
    kinds, kind = number_kinds(labels)
    work, memory, cores = _executions(workflow, index)
    pairs = _edges(tasks, index)
    check_graph(len(ids), len(pairs))
    return Workflow(
        name=record.text("name", name) if ours else name,
        names=names,
        kinds=kinds,
        kind=kind,
        work=work,
        memory=memory,
        cores=whole_cores(cores, ids),
        src=np.array([s for s, _ in pairs], np.int64),
        dst=np.array([d for _, d in pairs], np.int64),
        data=_shared_bytes(tasks, pairs, _sizes(specification)),
    )


def _is_ours(record: Record) -> bool:
    """Return whether weft wrote a record: its names are then those of weft's objects."""
    system = record.content.get("runtimeSystem")
    return isinstance(system, dict) and system.get("name") == SYSTEM


def _labels(
    tasks: list[Record], ids: list[str], *, ours: bool
) -> tuple[list[str], tuple[str, ...]]:
    """Return the kinds and the names of tasks."""
    labels, names = [], []
    for task, identifier in zip(tasks, ids, strict=True):
        exact = ours and "kind" in task
        label = task.text("kind") if exact else task.text("name", identifier)
        labels.append(label if exact else _NUMBERING.sub("", label))
        names.append(task.text("name") if exact else identifier)
    return labels, tuple(names)


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
        cores[t] = quantity(r.raw("coreCount", 1), "number", f"coreCount of task '{name}'")
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
    return shared_bytes(pairs, written, [_files(t, "inputFiles", sizes) for t in tasks], sizes)


def shared_bytes(
    pairs: list[tuple[int, int]],
    written: list[list[str]],
    read: list[list[str]],
    sizes: dict[str, float],
) -> np.ndarray:
    """Return the bytes of each edge: of files its source writes and its target reads."""
    needed = [set(files) for files in read]
    steps = sum(len(written[s]) for s, _ in pairs)
    check_cells(steps, f"the output files of {len(pairs)} edges, {steps} in all,")
    return np.array([sum(sizes[f] for f in written[s] if f in needed[d]) for s, d in pairs], float)


def _files(task: Record, key: str, sizes: dict[str, float]) -> list[str]:
    files = list(dict.fromkeys(task.strings(key, ())))
    for file in files:
        if file not in sizes:
            raise UnknownName(
                f"{key} of task '{task.text('id')}' name the unknown file "
                f"'{file}'{closest(file, sizes)}"
            )
    return files


def recorded_commands(record: Record) -> dict[str, list[str]]:
    """Return the program and the arguments of each task that has a command."""
    found: dict[str, list[str]] = {}
    workflow = record.child("workflow")
    tasks = workflow.child("specification").children("tasks") if _is_ours(record) else []
    true_name = {task.text("id"): task.text("name") for task in tasks if "kind" in task}
    for r in workflow.child("execution").children("tasks"):
        if "command" in r:
            command, task = r.child("command"), r.text("id")
            argv = [command.text("program"), *command.strings("arguments", ())]
            found[true_name.get(task, task)] = argv
    return found


def machines_of(record: Record, workflow: Workflow) -> Cluster | None:
    """Return the machines of the record as nodes, or None.

    A machine has a device per core. Where tasks need several cores, or so much memory that they
    cannot all run at once, they share the cores and the memory of their machine. All have speed 1:
    run times were measured on these machines, and the recorded clock rates are momentary values. A
    task may use all the memory of its machine.
    """
    execution = record.child("workflow").child("execution")
    if "machines" not in execution:
        return None
    rows = execution.children("machines")
    wanted = max(1, int(workflow.cores.max(initial=1)))
    largest = float(workflow.memory.max(initial=0.0))
    devices: list[Device] = []
    shared: dict[str, dict[str, float]] = {"cores": {}, "memory": {}}
    for row in rows:
        node = row.text("nodeName")
        cores = _cores(row) if "cpu" in row else wanted
        slots = cores if "cpu" in row else 1
        check_devices(len(devices) + slots)
        memory = row.quantity("memoryInBytes", "bytes", np.inf)
        own = 1 if "cpu" in row else cores
        devices += [
            Device(f"{node}/{i}", node=node, kind="cpu", cores=own, memory=memory)
            for i in range(slots)
        ]
        if wanted > 1 and "cpu" in row:
            shared["cores"][node] = shared["cores"].get(node, 0.0) + cores
        if largest * slots > memory:
            shared["memory"][node] = shared["memory"].get(node, 0.0) + memory
    noun = "machine" if len(rows) == 1 else "machines"
    name = f"{len(rows)} {noun} of the file"
    if _is_ours(record):
        name = execution.text("cluster", name)
    return Cluster.of(devices, capacity=shared, name=name) if devices else None


def _cores(machine: Record) -> int:
    cores = machine.child("cpu").integers("coreCount", 1)
    if cores.shape or int(cores) < 1:
        raise InvalidInput(f"{machine.path('cpu.coreCount')} must be a whole number, 1 or more")
    return int(cores)


_ID = re.compile(r"[^0-9a-zA-Z_.#:/-]")


def write_wfformat(thing: Workflow | Problem, *, version: str = "1.5") -> bytes:
    """Return the text of a workflow, with the machines of its problem.

    Characters that WfFormat does not allow in identifiers become ``_`` there; the name of the task
    has them. Every edge with data is a file. WfFormat counts whole bytes: fractions are rounded up.
    """
    workflow = thing if isinstance(thing, Workflow) else thing.workflow
    refuse_empty_names(workflow, FORMAT)
    ids = distinct(_ID.sub("_", name) for name in workflow.task_names)
    specified, files = _specification(workflow, ids)
    columns = (workflow.work.tolist(), workflow.memory.tolist(), workflow.cores.tolist())
    executed = [
        {"id": i, "runtimeInSeconds": work, "memoryInBytes": math.ceil(memory), "coreCount": cores}
        for i, work, memory, cores in zip(ids, *columns, strict=True)
    ]
    with np.errstate(over="ignore"):
        total = float(workflow.work.sum())  # the makespan if tasks ran one after the other
    execution: dict[str, Any] = {
        "makespanInSeconds": min(total, sys.float_info.max),
        "executedAt": "1970-01-01T00:00:00+00:00",
        "tasks": executed,
    }
    if isinstance(thing, Problem):
        execution |= {"machines": _machines(thing.cluster), "cluster": thing.cluster.name}
    document = {
        "name": workflow.name,
        "schemaVersion": version,
        "runtimeSystem": {"name": SYSTEM, "version": __version__},
        "workflow": {"specification": {"tasks": specified, "files": files}, "execution": execution},
    }
    if isinstance(thing, Problem):
        _refuse_lost(thing, Record(document))
    return json.dumps(document, indent=1, allow_nan=False).encode("ascii")


def _specification(
    workflow: Workflow, ids: list[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the tasks and the files of a workflow."""
    ends = list(zip(workflow.src.tolist(), workflow.dst.tolist(), strict=True))
    lists: list[list[list[str]]] = [[[] for _ in ids] for _ in range(4)]
    parents, children, inputs, outputs = lists
    names = distinct(f"{ids[s]}.to.{ids[d]}" for s, d in ends)
    files = []
    for (s, d), file, data in zip(ends, names, workflow.data.tolist(), strict=True):
        children[s].append(ids[d])
        parents[d].append(ids[s])
        if data > 0:
            outputs[s].append(file)
            inputs[d].append(file)
            files.append({"id": file, "sizeInBytes": math.ceil(data)})
    kinds = [workflow.kinds[k] for k in workflow.kind.tolist()]
    plain = tuple(ids) == workflow.task_names and all(
        kind and not _NUMBERING.search(kind) for kind in kinds
    )
    specified = [
        {
            **({"name": kind} if plain else {"name": name, "kind": kind}),
            "id": i,
            "parents": parents[t],
            "children": children[t],
            "inputFiles": inputs[t],
            "outputFiles": outputs[t],
        }
        for t, (i, name, kind) in enumerate(zip(ids, workflow.task_names, kinds, strict=True))
    ]
    return specified, files


def _refuse_lost(problem: Problem, document: Record) -> None:
    refuse_lost_machines(problem.cluster, machines_of(document, problem.workflow), FORMAT)
    if encode_costs(problem):
        raise InvalidInput(
            f"problem '{problem.name}' has measured costs, which {FORMAT} cannot hold; {REMEDY}"
        )


def _machines(cluster: Cluster) -> list[dict[str, Any]]:
    """Return a machine per node.

    A node of one device with several cores is a machine without `cpu`, whose reader makes a device
    per core.
    """
    made = []
    for node in cluster.node_names:
        own = [d for d in range(cluster.p) if cluster.nodes[d] == node]
        cores = int(_amount(cluster, "cores", node, cluster.cores[own].sum()))
        machine: dict[str, Any] = {"nodeName": node}
        if len(own) > 1 or cores == 1:
            machine["cpu"] = {"coreCount": cores}
        memory = float(cluster.memory[own].max())
        if math.isfinite(memory):
            machine["memoryInBytes"] = int(memory)
        made.append(machine)
    return made


def _amount(cluster: Cluster, capacity: str, node: str, otherwise: float) -> float:
    """Return the amount of a capacity that tasks of a node share, or `otherwise`."""
    if capacity not in cluster.capacity:
        return otherwise
    shared = float(cluster.capacity[capacity][cluster.node_names.index(node)])
    return shared if math.isfinite(shared) else otherwise
