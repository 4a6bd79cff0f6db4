"""A tiled Cholesky on two different Dask workers: Dask's own scheduling beside weft's.

The workers are processes of this machine with one thread each; tasks do the kernels their worker is
bad at several times over. Dask's own way: the whole graph at once, tasks given futures of what they
read, placed (and stolen) by Dask.

python benchmarks/cholesky_dask.py --rounds 3
python benchmarks/cholesky_dask.py --devices uniform
python benchmarks/cholesky_dask.py --size 320
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

from distributed import Client, Nanny, Scheduler, SpecCluster, get_worker, wait

import weft
from weft.report.tables import Column, table_text
from weft.runtime import Application, History
from weft.runtime.backends.calls import with_slots
from weft.runtime.backends.dask.backend import DaskBackend
from weft.runtime.backends.local.worker import at_device, fill
from weft.runtime.inputs.functions import application_of

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))


def start_workers(names: list[str]) -> SpecCluster:
    """As Dask starts them, but with names."""
    options = {
        "host": "127.0.0.1",
        "nthreads": 1,
        "memory_limit": 0,
        "dashboard": False,
        "silence_logs": 60,
    }
    scheduler = {
        "cls": Scheduler,
        "options": {
            "host": "127.0.0.1",
            "port": 0,
            "dashboard": False,
            "dashboard_address": "127.0.0.1:0",
        },
    }
    return SpecCluster(
        workers={name: {"cls": Nanny, "options": options} for name in names},
        scheduler=scheduler,
        silence_logs=60,
    )


class Arguments:
    """Keeps Dask from looking into arguments."""

    def __init__(self, args: Any, kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs

    def __dask_tokenize__(self) -> int:
        return id(self)


def perform(function: Any, arguments: Arguments, *inputs: Any) -> Any:
    with at_device(str(get_worker().name)):
        return function(*fill(arguments.args, list(inputs)), **fill(arguments.kwargs, list(inputs)))


def by_dask(client: Client, app: Application) -> tuple[float, list[Any]]:
    """Seconds Dask takes for the whole graph by itself, and the results."""
    w = app.workflow
    tag = time.monotonic_ns()
    keys = [f"{w.kinds[w.kind[t]]}-own{tag}-{t}" for t in range(w.n)]
    graph = {}
    for t in range(w.n):
        parents = w.src[w.pred_edge[w.pred_ptr[t] : w.pred_ptr[t + 1]]].tolist()
        call = app.calls[t]
        arguments = Arguments(with_slots(call.args), with_slots(dict(call.kwargs)))
        graph[keys[t]] = (perform, call.function, arguments, *(keys[u] for u in parents))
    begin = time.perf_counter()
    futures = client.get(graph, keys, sync=False)
    with client.as_current():
        wait(futures)
    seconds = time.perf_counter() - begin
    return seconds, client.gather([futures[t] for t in app.wanted])


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
    folder = tempfile.TemporaryDirectory()
    history = History(Path(folder.name) / "history.sqlite")
    planned = {"what": app, "policy": "heft", "history": history, "adapt": False}
    ways = {
        "weft, fifo": ({"what": app, "policy": "fifo", "history": False, "adapt": False}, None),
        "weft, HEFT, isolated costs": (
            {"what": cholesky.isolated(app), "policy": "heft", "history": False, "adapt": False},
            None,
        ),
        "weft, HEFT, after one run": (planned, None),
        "the same, task by task": (planned, False),
        "the same, may plan again": ({**planned, "adapt": True}, None),
        "weft, adaptive (rank-eft)": (
            {"what": app, "policy": "rank-eft", "history": history},
            None,
        ),
    }
    own = "Dask's own scheduling"
    spans: dict[str, list[float]] = {own: [], **{name: [] for name in ways}}
    with (
        start_workers(list(cholesky.BAD_AT)) as workers,
        Client(workers, set_as_default=False) as client,
    ):
        backend = DaskBackend(client, kinds={name: name for name in cholesky.BAD_AT})
        weft.run(app, policy="fifo", backend=backend, history=history)  # the one run of history
        by_dask(client, app)  # warm
        for _ in range(args.rounds):
            seconds, results = by_dask(client, app)
            spans[own].append(seconds)
            assert cholesky.error_of_results(results) < 1e-9
            for name, (way, whole) in ways.items():
                backend.whole = whole
                trace = weft.run(
                    way["what"], backend=backend, **{k: v for k, v in way.items() if k != "what"}
                )
                assert weft.check(trace.workload, trace, timing=False) == []
                assert cholesky.error_of(trace) < 1e-9
                spans[name].append(trace.makespan)
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
        f"Cholesky on Dask, {app.workflow.n} tasks, tiles of {args.size}, 2 workers, {what}, "
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
    importlib.import_module("cholesky_dask").main()  # what is sent by name travels lightly
