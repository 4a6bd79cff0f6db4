"""weft's own schema, in JSON and NPZ: nested dicts of named columns.

Every object is one nested dict. The key ``format`` is one of ``weft-problem-1``,
``weft-workflow-1``, ``weft-cluster-1``, ``weft-workload-1``, ``weft-schedule-1`` and
``weft-trace-1``. Columns have the names and meaning of the fields of the classes in `weft.model`. A
column whose entries are all equal may be a single number. In JSON, null stands for NaN and "inf"
for infinity; in NPZ, a nested key is a path (``workflow/work``). Round trips are exact to the last
bit.

- workflow: name, names, work, kinds, kind, memory, cores, variants (`variants.py`), need_names +
  needs (one row per capacity), src, dst, data, duration_devices + durations (one row per device or
  device kind), choices (task, first, probability, labels, edge_choice, edge_branch)
- cluster: name, names, kinds, nodes, speed, memory, cores, batch, power, idle_power, price,
  bandwidth, latency (a number, or one row per device), throughput_kinds + throughput (one row per
  task kind), curve_kinds + curves (one row per task kind: the batch curve of each device in turn),
  capacity_names + capacity (one row per capacity: the amount of each node), network (sharing;
  nodes, up, down, latency and switch of ports; one, other, trunk_bandwidth, trunk_latency)
- weft-problem-1: workflow, cluster
- weft-workload-1: name, clusters, workflows, cluster_of (one entry per workflow), template,
  arrival, deadline, priority
- weft-schedule-1: task, device, start, finish, copy; task_name and device_name are for people and
  skipped by the reader
- weft-trace-1: workload, scenario, the columns of `Trace`, job_finish, eager, policy, measured,
  transfers (on a network: the columns of `Transfers`)
"""

from __future__ import annotations

from typing import Any

from weft.errors import InvalidInput
from weft.formats.native.weft_decoding import (
    decode_cluster,
    decode_problem,
    decode_schedule,
    decode_trace,
    decode_workflow,
    decode_workload,
)
from weft.formats.native.weft_encoding import (
    encode_cluster,
    encode_problem,
    encode_schedule,
    encode_trace,
    encode_workflow,
    encode_workload,
)
from weft.formats.parsing.record import Record
from weft.model import Cluster, Problem, Schedule, Trace, Workflow, Workload

CODECS: dict[type, tuple[str, Any, Any]] = {
    Problem: ("problem", encode_problem, decode_problem),
    Workflow: ("workflow", encode_workflow, decode_workflow),
    Cluster: ("cluster", encode_cluster, decode_cluster),
    Workload: ("workload", encode_workload, decode_workload),
    Schedule: ("schedule", encode_schedule, decode_schedule),
    Trace: ("trace", encode_trace, decode_trace),
}


def encode(thing: object) -> dict[str, Any]:
    """Return the nested dict of any object weft can save."""
    for kind, (word, encoder, _) in CODECS.items():
        if isinstance(thing, kind):
            return {"format": f"weft-{word}-1", **encoder(thing)}
    raise InvalidInput(
        f"a {type(thing).__name__} cannot be saved; known: {', '.join(k.__name__ for k in CODECS)}"
    )


def decode(record: Record) -> object:
    """Return the object a record describes."""
    wanted = record.text("format")
    for word, _, decoder in CODECS.values():
        if wanted == f"weft-{word}-1":
            return decoder(Record({k: v for k, v in record.content.items() if k != "format"}))
    known = ", ".join(f"weft-{word}-1" for word, _, _ in CODECS.values())
    raise InvalidInput(f"format '{wanted}' is unknown; known: {known}")
