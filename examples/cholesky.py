"""A tiled Cholesky factorisation, really run, on two devices that are good at different kernels.

`python examples/cholesky.py` runs it in four ways; `weft run examples/cholesky.py --policy heft`
runs it once. The devices are processes of this machine. To make them differ, each repeats the
kernels it is slow at several times.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.report.tables import Column, table_text
from weft.runtime import Application, History, LocalBackend, LocalDevice, current_device
from weft.runtime.backends.protocol import Backend
from weft.runtime.inputs.functions import application_of
from weft.runtime.inputs.promises import Promise

TILES, SIZE = 9, int(os.environ.get("CHOLESKY_SIZE", "160"))  # 165 tasks
DIFFERENT = {
    "unrelated": {"left": {"trsm": 6, "syrk": 6, "potrf": 6}, "right": {"gemm": 6}},
    "uniform": {"left": {}, "right": dict.fromkeys(("potrf", "trsm", "syrk", "gemm"), 3)},
}
BAD_AT: dict[str, dict[str, int]] = DIFFERENT[os.environ.get("CHOLESKY_DEVICES", "unrelated")]
"""Device -> kernel -> repetitions. Good at different kernels or, with CHOLESKY_DEVICES=uniform, one
device three times slower."""


def times(kernel: str) -> range:
    return range(BAD_AT.get(current_device(), {}).get(kernel, 1))


@weft.task(work=SIZE**3 / 3e9)
def potrf(a: np.ndarray) -> np.ndarray:
    for _ in times("potrf"):
        factor = np.linalg.cholesky(a)
    return factor


@weft.task(work=SIZE**3 / 1e9)
def trsm(factor: np.ndarray, a: np.ndarray) -> np.ndarray:
    for _ in times("trsm"):
        x = np.linalg.solve(factor, a.T).T.copy()
    return x


@weft.task(work=SIZE**3 / 1e9)
def syrk(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    for _ in times("syrk"):
        c = a - b @ b.T
    return c


@weft.task(work=2 * SIZE**3 / 1e9)
def gemm(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    for _ in times("gemm"):
        d = a - b @ c.T
    return d


def matrix() -> np.ndarray:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((TILES * SIZE, TILES * SIZE))
    return a @ a.T / len(a) + np.eye(len(a))


def tile(a: np.ndarray, i: int, j: int) -> np.ndarray:
    return a[i * SIZE : (i + 1) * SIZE, j * SIZE : (j + 1) * SIZE].copy()


def build() -> list[Promise]:
    """The tiles of the factor, as promises: what `weft run` runs."""
    a = matrix()
    t: dict[tuple[int, int], np.ndarray | Promise] = {
        (i, j): tile(a, i, j) for i in range(TILES) for j in range(i + 1)
    }
    for k in range(TILES):
        t[k, k] = potrf(t[k, k])
        for i in range(k + 1, TILES):
            t[i, k] = trsm(t[k, k], t[i, k])
        for i in range(k + 1, TILES):
            t[i, i] = syrk(t[i, i], t[i, k])
            for j in range(k + 1, i):
                t[i, j] = gemm(t[i, j], t[i, k], t[j, k])
    return [p for p in t.values() if isinstance(p, Promise)]


def devices() -> list[LocalDevice]:
    """Two processes, each a kind of its own."""
    return [LocalDevice(name, kind=name) for name in BAD_AT]


def error_of(trace: weft.Trace) -> float:
    """Largest entry of L L^T - A."""
    return error_of_results(trace.results.values())


def error_of_results(tiles: Iterable[np.ndarray]) -> float:
    a, factor = matrix(), np.zeros((TILES * SIZE, TILES * SIZE))
    places = [(i, j) for i in range(TILES) for j in range(i + 1)]
    for (i, j), value in zip(places, tiles, strict=True):
        factor[i * SIZE : (i + 1) * SIZE, j * SIZE : (j + 1) * SIZE] = value
    return float(np.abs(factor @ factor.T - a).max())


def isolated(app: Application) -> Application:
    """The same with costs measured here, alone, each kernel once: what a benchmark would tell."""
    a = matrix()[:SIZE, :SIZE]
    calls = {
        "potrf": (potrf, (a,)),
        "trsm": (trsm, (a, a)),
        "syrk": (syrk, (a, a)),
        "gemm": (gemm, (a, a, a)),
    }
    seconds = {}
    for kind, (kernel, args) in calls.items():
        samples = []
        for _ in range(7):
            begin = time.perf_counter()
            kernel.function(*args)
            samples.append(time.perf_counter() - begin)
        seconds[kind] = statistics.median(samples)
    w = app.workflow
    columns = {
        name: np.array([seconds[w.kinds[k]] * bad.get(w.kinds[k], 1) for k in w.kind.tolist()])
        for name, bad in BAD_AT.items()
    }
    return replace(app, workflow=replace(w, durations=columns))


def run_checked(backend: Backend, what: Application, **options: Any) -> weft.Trace:
    """Run once; the trace must be possible, and the result right."""
    trace = weft.run(what, backend=backend, **options)
    assert weft.check(trace.workload, trace) == []
    assert error_of(trace) < 1e-9
    return trace


COLUMNS = (
    Column("way"),
    Column("makespan", unit="s", best="min"),
    Column("best", unit="s"),
    Column("speedup", digits=3),
)


def summary(spans: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Rows of `COLUMNS`; the speedup is over the first way."""
    medians = {name: statistics.median(s) for name, s in spans.items()}
    base = next(iter(medians.values()))
    return [
        {"way": name, "makespan": m, "best": min(spans[name]), "speedup": base / m}
        for name, m in medians.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--report", type=Path, help="write an HTML page with all charts")
    args = parser.parse_args()
    app = application_of(build())
    folder = tempfile.TemporaryDirectory()
    history = History(Path(folder.name) / "history.sqlite")
    ways = {
        "default order (fifo)": {"what": app, "policy": "fifo", "history": False, "adapt": False},
        "HEFT, isolated costs": {
            "what": isolated(app),
            "policy": "heft",
            "history": False,
            "adapt": False,
        },
        "HEFT, after one run": {"what": app, "policy": "heft", "history": history, "adapt": False},
        "adaptive (rank-eft)": {"what": app, "policy": "rank-eft", "history": history},
    }
    spans: dict[str, list[float]] = {name: [] for name in ways}
    traces = {}
    with LocalBackend(devices()) as backend:
        weft.run(app, policy="fifo", backend=backend, history=history)  # the one run of history
        for _ in range(args.rounds):
            for name, way in ways.items():
                traces[name] = run_checked(backend, **way)
                spans[name].append(traces[name].makespan)
    folder.cleanup()
    rows = summary(spans)
    print(
        f"Cholesky, {app.workflow.n} tasks, tiles of {SIZE} x {SIZE}, 2 devices, "
        f"median of {args.rounds} rounds; every result checked\n"
    )
    print(table_text(rows, COLUMNS))
    if args.report is not None:
        from weft.report.page import Gantts, Section, Table, write_report

        write_report(
            args.report,
            title="Tiled Cholesky, run for real",
            sections=[Section("Runs", [Table(rows, COLUMNS), Gantts(traces)])],
        )


if __name__ == "__main__":
    main()
