"""WfFormat 1.5 and 1.6 of WfCommons: recorded executions of workflows.

The format is described at wfcommons.org/format. Both versions have the same keys; 1.6 adds
summaries, which are not read.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np

from weft.errors import InvalidInput, UnknownName
from weft.formats.graphs.taskgraph import number_kinds, whole_cores
from weft.formats.parsing.limits import check_cells, check_devices, check_graph
from weft.formats.parsing.quantity import quantity
from weft.formats.parsing.record import Record
from weft.formats.traces.recording import distinct
from weft.model import Cluster, Device, Problem, Workflow
from weft.model.validation import refuse_negative, unique_names
from weft.registry import closest

_NUMBERING = re.compile(r"_ID\d+$")


def is_wfformat(record: Record) -> bool:
    """Return whether a record looks like WfFormat of any version."""
    return isinstance(record.content.get("workflow"), dict) and (
        "schemaVersion" in record or "specification" in record.raw("workflow")
    )


def read_wfformat(record: Record, *, name: str) -> Workflow:
    """Return the workflow that was executed.

    Recorded seconds -> work at speed 1, name without number -> kind. An edge joins a parent and a
    child and carries the files the one writes and the other reads. A task without a record of its
    execution counts as 0 seconds, because traces leave out what took no time of its own.
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
    """Return the bytes of each edge.

    They are those of files that its source writes and its target reads.
    """
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
    for r in record.child("workflow").child("execution").children("tasks"):
        if "command" in r:
            command = r.child("command")
            found[r.text("id")] = [command.text("program"), *command.strings("arguments", ())]
    return found


def machines_of(record: Record, workflow: Workflow) -> Cluster | None:
    """Return the machines of the record as nodes, or None.

    A machine has a device per core. Where tasks need several cores, or so much memory that they
    cannot all run at once, they share the cores and the memory of their machine. All have speed 1:
    run times were measured on these machines, and the recorded clock rates are readings of a
    moment. A task may use all the memory of its machine.
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
    return Cluster.of(devices, capacity=shared, name=name) if devices else None


def _cores(machine: Record) -> int:
    cores = machine.child("cpu").integers("coreCount", 1)
    if cores.shape or int(cores) < 1:
        raise InvalidInput(f"{machine.path('cpu.coreCount')} must be a whole number, 1 or more")
    return int(cores)


_ID = re.compile(r"[^0-9a-zA-Z_.#:/-]")


def write_wfformat(thing: Workflow | Problem, *, version: str = "1.5") -> bytes:
    """Return the text of a workflow, with the machines of its problem.

    Characters that WfFormat does not allow in names become ``_``. Every edge with data is a file.
    """
    workflow = thing if isinstance(thing, Workflow) else thing.workflow
    if workflow.durations or workflow.conditional:
        what = "durations by device" if workflow.durations else "choices"
        raise InvalidInput(f"workflow '{workflow.name}' has {what}, which WfFormat cannot hold")
    ids = distinct(_ID.sub("_", name) or "task" for name in workflow.task_names)
    edges = [
        (ids[s], ids[d], data)
        for s, d, data in zip(
            workflow.src.tolist(), workflow.dst.tolist(), workflow.data.tolist(), strict=True
        )
    ]
    lists: list[dict[str, list[str]]] = [{i: [] for i in ids} for _ in range(4)]
    parents, children, inputs, outputs = lists
    files = []
    for source, target, data in edges:
        children[source].append(target)
        parents[target].append(source)
        if data > 0:
            file = f"{source}.to.{target}"
            outputs[source].append(file)
            inputs[target].append(file)
            files.append({"id": file, "sizeInBytes": math.ceil(data)})
    kinds = [workflow.kinds[k] for k in workflow.kind.tolist()]
    specified = [
        {
            "name": kind,
            "id": i,
            "parents": parents[i],
            "children": children[i],
            "inputFiles": inputs[i],
            "outputFiles": outputs[i],
        }
        for i, kind in zip(ids, kinds, strict=True)
    ]
    columns = (workflow.work.tolist(), workflow.memory.tolist(), workflow.cores.tolist())
    executed = [
        {"id": i, "runtimeInSeconds": work, "memoryInBytes": math.ceil(memory), "coreCount": cores}
        for i, work, memory, cores in zip(ids, *columns, strict=True)
    ]
    execution: dict[str, Any] = {
        "makespanInSeconds": float(workflow.work.sum()),  # as if one task ran after the other
        "executedAt": "1970-01-01T00:00:00+00:00",
        "tasks": executed,
    }
    if isinstance(thing, Problem):
        execution["machines"] = _machines(thing.cluster)
    document = {
        "name": workflow.name,
        "schemaVersion": version,
        "workflow": {"specification": {"tasks": specified, "files": files}, "execution": execution},
    }
    return json.dumps(document, indent=1, allow_nan=False).encode("ascii")


def _machines(cluster: Cluster) -> list[dict[str, Any]]:
    made = []
    for node in dict.fromkeys(cluster.nodes):
        own = [d for d in range(cluster.p) if cluster.nodes[d] == node]
        machine: dict[str, Any] = {
            "nodeName": node,
            "cpu": {"coreCount": int(_amount(cluster, "cores", node, cluster.cores[own].sum()))},
        }
        memory = _amount(cluster, "memory", node, float(cluster.memory[own].max()))
        if math.isfinite(memory):
            machine["memoryInBytes"] = int(memory)
        made.append(machine)
    return made


def _amount(cluster: Cluster, capacity: str, node: str, otherwise: float) -> float:
    """Return the amount of a capacity that tasks of a node share.

    Without one, return the amount that its devices have.
    """
    if capacity not in cluster.capacity:
        return otherwise
    shared = float(cluster.capacity[capacity][cluster.node_names.index(node)])
    return shared if math.isfinite(shared) else otherwise
