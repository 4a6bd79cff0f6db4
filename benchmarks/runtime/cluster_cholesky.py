"""A tiled Cholesky on two different devices of Dask or Ray: their own scheduling beside weft's.

The devices are workers of Dask with one thread each, or nodes of Ray with one processor each, all
on this machine; a device repeats the kernels it is slow at. Dask's own way: the whole graph at
once; Dask places the tasks, and moves them later. Ray's own way: one remote task per kernel, with
references to its inputs; Ray places it on a node with a free processor.

python benchmarks/runtime/cluster_cholesky.py --backend dask --rounds 3
python benchmarks/runtime/cluster_cholesky.py --backend ray --devices uniform
python benchmarks/runtime/cluster_cholesky.py --backend dask --size 320

--out FILE adds the medians to a file, from which docs/make_benchmarks.py makes a table.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import weft
from weft.experiments.harness import provenance
from weft.report.tables import table_text
from weft.runtime import Application, History, RayBackend, RayDevice
from weft.runtime.backends.calls import with_slots
from weft.runtime.backends.local.worker import at_device, fill
from weft.runtime.backends.ray.session import QUIET
from weft.runtime.inputs.functions import application_of

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

OwnWay = Callable[[Application], tuple[float, list[Any]]]
"""Runs an application by the scheduling of the cluster; returns seconds and results."""


def parents_of(app: Application, task: int) -> list[int]:
    w = app.workflow
    parents: list[int] = w.src[w.pred_edge[w.pred_ptr[task] : w.pred_ptr[task + 1]]].tolist()
    return parents


# -- Dask --------------------------------------------------------------------------


@contextmanager
def dask_cluster(names: list[str]) -> Iterator[tuple[Any, OwnWay]]:
    from distributed import Client

    from weft.runtime.backends.dask.backend import DaskBackend

    with start_workers(names) as workers, Client(workers, set_as_default=False) as client:
        backend = DaskBackend(client, kinds={name: name for name in names})
        yield backend, lambda app: by_dask(client, app)


def start_workers(names: list[str]) -> Any:
    """As Dask starts them, but with names."""
    from distributed import Nanny, Scheduler, SpecCluster

    here = {"host": "127.0.0.1", "dashboard": False}
    options = {**here, "nthreads": 1, "memory_limit": 0, "silence_logs": 60}
    scheduler = {**here, "port": 0, "dashboard_address": "127.0.0.1:0"}
    return SpecCluster(
        workers={name: {"cls": Nanny, "options": options} for name in names},
        scheduler={"cls": Scheduler, "options": scheduler},
        silence_logs=60,
    )


class Arguments:
    """Keeps Dask from looking into arguments."""

    def __init__(self, args: Any, kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs

    def __dask_tokenize__(self) -> int:
        return id(self)


def perform(function: Any, arguments: Arguments, *inputs: Any) -> Any:
    from distributed import get_worker

    with at_device(str(get_worker().name)):
        return function(*fill(arguments.args, list(inputs)), **fill(arguments.kwargs, list(inputs)))


def by_dask(client: Any, app: Application) -> tuple[float, list[Any]]:
    from distributed import wait

    w = app.workflow
    tag = time.monotonic_ns()
    keys = [f"{w.kinds[w.kind[t]]}-own{tag}-{t}" for t in range(w.n)]
    graph = {}
    for t in range(w.n):
        call = app.calls[t]
        arguments = Arguments(with_slots(call.args), with_slots(dict(call.kwargs)))
        inputs = [keys[u] for u in parents_of(app, t)]
        graph[keys[t]] = (perform, call.function, arguments, *inputs)
    begin = time.perf_counter()
    futures = client.get(graph, keys, sync=False)
    with client.as_current():
        wait(futures)
    seconds = time.perf_counter() - begin
    return seconds, client.gather([futures[t] for t in app.wanted])


# -- Ray ---------------------------------------------------------------------------


@contextmanager
def ray_cluster(names: list[str]) -> Iterator[tuple[Any, OwnWay]]:
    ray, nodes = start_nodes(names)
    devices = [RayDevice(name, kind=name, cpus=0.0, resources={name: 1.0}) for name in names]
    try:
        with RayBackend(devices) as backend:
            yield backend, lambda app: by_ray(ray, app)
    finally:
        ray.shutdown()
        nodes.shutdown()


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


def by_ray(ray: Any, app: Application) -> tuple[float, list[Any]]:
    names = {
        node["NodeID"]: next(r for r in node["Resources"] if r in ("left", "right"))
        for node in ray.nodes()
    }

    def perform_there(function: Any, args: Any, kwargs: Any, *inputs: Any) -> Any:
        with at_device(names[ray.get_runtime_context().get_node_id()]):
            return function(*fill(args, list(inputs)), **fill(kwargs, list(inputs)))

    task = ray.remote(perform_there)
    ray.get([task.remote(np.ones, (3,), {}) for _ in range(8)])  # processes are up
    begin = time.perf_counter()
    refs: dict[int, Any] = {}
    for t in app.workflow.order.tolist():
        call = app.calls[t]
        inputs = [refs[u] for u in parents_of(app, t)]
        args, kwargs = with_slots(call.args), with_slots(dict(call.kwargs))
        refs[t] = task.remote(call.function, args, kwargs, *inputs)
    ray.wait(list(refs.values()), num_returns=len(refs), fetch_local=False)
    seconds = time.perf_counter() - begin
    return seconds, [ray.get(refs[t]) for t in app.wanted]


# -- comparison --------------------------------------------------------------------

CLUSTERS = {"dask": ("Dask", dask_cluster), "ray": ("Ray", ray_cluster)}


def ways_of(app: Application, isolated: Application, history: History) -> dict[str, dict[str, Any]]:
    unmeasured = {"history": False, "adapt": False}
    planned = {"what": app, "policy": "heft", "history": history, "adapt": False}
    return {
        "weft, fifo": {"what": app, "policy": "fifo", **unmeasured},
        "weft, HEFT, isolated costs": {"what": isolated, "policy": "heft", **unmeasured},
        "weft, HEFT, after one run": planned,
        "the same, task by task": {**planned, "whole": False},
        "the same, may plan again": {**planned, "adapt": True},
        "weft, adaptive (rank-eft)": {"what": app, "policy": "rank-eft", "history": history},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=CLUSTERS, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--devices", choices=("unrelated", "uniform"), default="unrelated")
    parser.add_argument(
        "--size",
        type=int,
        default=160,
        help="of a tile: 160 for tasks of a few ms, 320 for eight times as much",
    )
    parser.add_argument("--out", type=Path, help="a JSON file that gets the medians too")
    args = parser.parse_args()
    os.environ.update(CHOLESKY_DEVICES=args.devices, CHOLESKY_SIZE=str(args.size))
    cholesky = importlib.import_module("cholesky")
    app = application_of(cholesky.build())
    title, cluster = CLUSTERS[args.backend]
    own = f"{title}'s own scheduling"
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster(list(cholesky.BAD_AT)) as (backend, run_own_way),
    ):
        history = History(Path(folder) / "history.sqlite")
        ways = ways_of(app, cholesky.isolated(app), history)
        spans: dict[str, list[float]] = {own: [], **{name: [] for name in ways}}
        weft.run(app, policy="fifo", backend=backend, history=history)  # the one run of history
        run_own_way(app)  # warm
        for _ in range(args.rounds):
            seconds, results = run_own_way(app)
            spans[own].append(seconds)
            assert cholesky.error_of_results(results) < 1e-9
            for name, way in ways.items():
                backend.whole = way.get("whole")
                options = {key: value for key, value in way.items() if key != "whole"}
                spans[name].append(cholesky.run_checked(backend, **options).makespan)
    different = {"unrelated": "good at different kernels", "uniform": "one three times slower"}
    print(
        f"Cholesky on {title}, {app.workflow.n} tasks, tiles of {args.size}, 2 devices, "
        f"{different[args.devices]}, {args.rounds} rounds; results checked\n"
    )
    print(table_text(cholesky.summary(spans), cholesky.COLUMNS))
    if args.out is not None:
        known = json.loads(args.out.read_text(encoding="utf-8")) if args.out.exists() else {}
        rows = known.get("rows", [])
        medians = {name: median(seconds) for name, seconds in spans.items()}
        rows.append(
            {
                "backend": title,
                "devices": different[args.devices],
                "size": args.size,
                "rounds": args.rounds,
                "load": os.getloadavg()[0],
                "own": medians.pop(own),
                "weft": medians,
            }
        )
        document = {
            "measured_with": f"benchmarks/runtime/cluster_cholesky.py --backend {args.backend}",
            "provenance": provenance(),
            "rows": rows,
        }
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    importlib.import_module("cluster_cholesky").main()  # pickles of its functions hold names only
