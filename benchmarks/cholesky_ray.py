"""A tiled Cholesky on two different Ray nodes: Ray's own scheduling beside weft's.

The nodes are on this machine, with one processor each; tasks do the kernels their node is bad at
several times over. Ray's own way: one remote task for each kernel, given references to what it
reads, placed by Ray on whichever node has its processor free.

python benchmarks/cholesky_ray.py --rounds 3
python benchmarks/cholesky_ray.py --devices uniform
python benchmarks/cholesky_ray.py --size 320
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.report.tables import Column, table_text
from weft.runtime import Application, History, RayBackend, RayDevice
from weft.runtime.backends.local.worker import at_device, fill
from weft.runtime.backends.ray.session import QUIET
from weft.runtime.inputs.functions import application_of

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))


def start_nodes(names: list[str]) -> tuple[Any, Any]:
    """A Ray of two nodes on the loopback interface; each has a resource of its own name."""
    os.environ.update(
        QUIET,
        OMP_NUM_THREADS="1",
        OPENBLAS_NUM_THREADS="1",
        PYTHONPATH=os.pathsep.join(p for p in sys.path if p),
    )
    ray = importlib.import_module("ray")
    nodes = importlib.import_module("ray.cluster_utils").Cluster()
    for k, name in enumerate(names):
        options = {"include_dashboard": False} if k == 0 else {}
        nodes.add_node(num_cpus=1, resources={name: 1}, object_store_memory=256 << 20, **options)
    ray.init(address=nodes.address, logging_level="ERROR", log_to_driver=False)
    return ray, nodes


def as_remote_tasks(ray: Any, app: Application) -> tuple[float, dict[str, Any]]:
    """Seconds Ray takes for the whole graph by itself, and the results."""
    names = {
        node["NodeID"]: next(r for r in node["Resources"] if r in ("left", "right"))
        for node in ray.nodes()
    }

    def perform(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *inputs: Any) -> Any:
        with at_device(names[ray.get_runtime_context().get_node_id()]):
            return function(*fill(args, list(inputs)), **fill(kwargs, list(inputs)))

    task = ray.remote(perform)
    slots = importlib.import_module("weft.runtime.backends.calls").with_slots
    ray.get([task.remote(np.ones, (3,), {}) for _ in range(8)])  # processes are up
    w = app.workflow
    begin = time.perf_counter()
    refs: dict[int, Any] = {}
    for t in w.order.tolist():
        call = app.calls[t]
        parents = w.src[w.pred_edge[w.pred_ptr[t] : w.pred_ptr[t + 1]]].tolist()
        refs[t] = task.remote(
            call.function, slots(call.args), slots(dict(call.kwargs)), *(refs[u] for u in parents)
        )
    ray.wait(list(refs.values()), num_returns=len(refs), fetch_local=False)
    seconds = time.perf_counter() - begin
    return seconds, {w.task_name(t): ray.get(refs[t]) for t in app.wanted}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--devices", choices=("unrelated", "uniform"), default="unrelated")
    parser.add_argument(
        "--size",
        type=int,
        default=160,
        help="of a tile: 160 for tasks of a few ms, 320 for eight times as much",
    )
    args = parser.parse_args()
    os.environ.update(CHOLESKY_DEVICES=args.devices, CHOLESKY_SIZE=str(args.size))
    cholesky = importlib.import_module("cholesky")
    app = application_of(cholesky.build())
    ray, nodes = start_nodes(list(cholesky.BAD_AT))
    folder = tempfile.TemporaryDirectory()
    history = History(Path(folder.name) / "history.sqlite")
    planned = {"what": app, "policy": "heft", "history": history, "adapt": False}
    ways = {
        "weft, fifo": {"what": app, "policy": "fifo", "history": False, "adapt": False},
        "weft, HEFT, isolated costs": {
            "what": cholesky.isolated(app),
            "policy": "heft",
            "history": False,
            "adapt": False,
        },
        "weft, HEFT, after one run": planned,
        "the same, task by task": {**planned, "whole": False},
        "the same, may plan again": {**planned, "adapt": True},
        "weft, adaptive (rank-eft)": {"what": app, "policy": "rank-eft", "history": history},
    }
    own = "Ray's own scheduling"
    spans: dict[str, list[float]] = {own: [], **{name: [] for name in ways}}
    try:
        with RayBackend(
            [
                RayDevice(name, kind=name, cpus=0.0, resources={name: 1.0})
                for name in cholesky.BAD_AT
            ]
        ) as backend:
            weft.run(app, policy="fifo", backend=backend, history=history)  # the one run of history
            as_remote_tasks(ray, app)  # warm
            for _ in range(args.rounds):
                seconds, results = as_remote_tasks(ray, app)
                spans[own].append(seconds)
                assert cholesky.error_of_results(results.values()) < 1e-9
                for name, way in ways.items():
                    backend.whole = way.get("whole")
                    trace = weft.run(
                        way["what"],
                        backend=backend,
                        **{k: v for k, v in way.items() if k not in ("what", "whole")},
                    )
                    assert weft.check(trace.workload, trace, timing=False) == []
                    assert cholesky.error_of(trace) < 1e-9
                    spans[name].append(trace.makespan)
    finally:
        ray.shutdown()
        nodes.shutdown()
        folder.cleanup()
    base = statistics.median(spans[own])
    rows = [
        {
            "way": name,
            "makespan": statistics.median(s),
            "best": min(s),
            "speedup": base / statistics.median(s),
        }
        for name, s in spans.items()
    ]
    what = {"unrelated": "good at different kernels", "uniform": "one three times slower"}[
        args.devices
    ]
    print(
        f"Cholesky on Ray, {app.workflow.n} tasks, tiles of {args.size}, 2 nodes, {what}, "
        f"{args.rounds} rounds; results checked\n"
    )
    print(
        table_text(
            rows,
            (
                Column("way"),
                Column("makespan", unit="s", best="min"),
                Column("best", unit="s"),
                Column("speedup", digits=3),
            ),
        )
    )


if __name__ == "__main__":
    main()
