"""Plain versions of the classic planners, which the compiled ones must equal exactly."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings

from tests.support.programs import data_dir
from tests.support.strategies import problems
from weft.model import Problem
from weft.model.check import check
from weft.planners import plan

INF = float("inf")


@dataclass
class Run:
    task: int
    device: int
    start: float
    finish: float
    copy: bool = False


@dataclass
class Draft:
    """A plan in the making, with nothing clever in it: all runs in one list."""

    problem: Problem
    runs: list[Run] = field(default_factory=list)

    def parents(self, task: int) -> list[tuple[int, float]]:
        w = self.problem.workflow
        return [
            (int(u), float(x)) for u, v, x in zip(w.src, w.dst, w.data, strict=True) if v == task
        ]

    def children(self, task: int) -> list[tuple[int, float]]:
        w = self.problem.workflow
        return [
            (int(v), float(x)) for u, v, x in zip(w.src, w.dst, w.data, strict=True) if u == task
        ]

    def moved(self, run: Run, data: float, device: int) -> float:
        c = self.problem.cluster
        return run.finish + (
            float(c.latency[run.device, device]) + data * float(c.per_byte[run.device, device])
        )

    def arrival(
        self, parent: int, data: float, device: int, *, more: tuple[Run, ...] = ()
    ) -> float:
        """Earliest arrival of a parent's data on a device from any of its runs; inf if none."""
        return min(
            (self.moved(r, data, device) for r in [*self.runs, *more] if r.task == parent),
            default=INF,
        )

    def ready(
        self, task: int, device: int, *, more: tuple[Run, ...] = (), ignore_unplaced: bool = False
    ) -> float:
        times = [self.arrival(u, x, device, more=more) for u, x in self.parents(task)]
        return max([t for t in times if t < INF or not ignore_unplaced], default=0.0)

    def gap(
        self, device: int, ready: float, duration: float, *, more: tuple[Run, ...] = ()
    ) -> float:
        """The start of the earliest idle interval (of some length) that fits."""
        busy = sorted((r.start, r.finish) for r in [*self.runs, *more] if r.device == device)
        free_from = 0.0
        for start, finish in busy:
            begin = max(ready, free_from)
            if start > free_from and begin + duration <= start:
                return begin
            free_from = max(free_from, finish)
        return max(ready, free_from)

    def end(self, device: int) -> float:
        return max((r.finish for r in self.runs if r.device == device), default=0.0)

    def duration(self, task: int, device: int) -> float:
        return self.problem.duration(task, device)

    def devices(self, task: int) -> list[int]:
        return [d for d in range(self.problem.p) if self.duration(task, d) < INF]

    def insert(
        self, task: int, device: int, *, more: tuple[Run, ...] = (), ignore_unplaced: bool = False
    ) -> Run:
        """The run a task would have on a device, with insertion."""
        ready = self.ready(task, device, more=more, ignore_unplaced=ignore_unplaced)
        start = self.gap(device, ready, self.duration(task, device), more=more)
        return Run(task, device, start, start + self.duration(task, device))

    def append(self, task: int, device: int) -> Run:
        """The run a task would have at the end of a device."""
        start = max(self.ready(task, device), self.end(device))
        return Run(task, device, start, start + self.duration(task, device))

    def free(self) -> list[int]:
        """Tasks that are not placed but whose parents are, by number."""
        placed = {r.task for r in self.runs}
        return [
            t
            for t in range(self.problem.n)
            if t not in placed and all(u in placed for u, _ in self.parents(t))
        ]


def mean(values: list[float]) -> float:
    total = 0.0
    for v in values:
        total += v
    return total / len(values)


def mean_seconds(d: Draft, task: int) -> float:
    return float(d.problem.work[task]) * float(d.problem.mean_per_work[d.problem.row[task]])


def mean_link(problem: Problem) -> tuple[float, float]:
    pairs = problem.p * (problem.p - 1)
    if not pairs:
        return 0.0, 0.0
    return float(problem.cluster.latency.sum()) / pairs, float(
        problem.cluster.per_byte.sum()
    ) / pairs


def upward(d: Draft) -> list[float]:
    latency, per_byte = mean_link(d.problem)
    known: dict[int, float] = {}

    def rank(t: int) -> float:
        if t not in known:
            known[t] = mean_seconds(d, t) + max(
                (latency + x * per_byte + rank(v) for v, x in d.children(t)), default=0.0
            )
        return known[t]

    return [rank(t) for t in range(d.problem.n)]


def downward(d: Draft) -> list[float]:
    latency, per_byte = mean_link(d.problem)

    def rank(t: int) -> float:
        return max(
            (rank(u) + mean_seconds(d, u) + (latency + x * per_byte) for u, x in d.parents(t)),
            default=0.0,
        )

    return [rank(t) for t in range(d.problem.n)]


def next_by(d: Draft, rank: list[float]) -> int:
    """The free task of highest rank, the lower number among equals."""
    return min(d.free(), key=lambda t: (-rank[t], t))


def best_insertion(d: Draft, task: int, **options) -> Run:
    return min(
        (d.insert(task, q, **options) for q in d.devices(task)), key=lambda r: (r.finish, r.device)
    )


def heft(d: Draft) -> None:
    rank = upward(d)
    while d.free():
        d.runs.append(best_insertion(d, next_by(d, rank)))


def greedy(d: Draft) -> None:
    while d.free():
        d.runs.append(best_insertion(d, d.free()[0]))


def cpop(d: Draft) -> None:
    up, down = upward(d), downward(d)
    latency, per_byte = mean_link(d.problem)
    path: list[int] = []
    step = [(t, up[t]) for t in range(d.problem.n) if not d.parents(t)]
    while step:
        path.append(min(step, key=lambda s: (-s[1], s[0]))[0])
        step = [(v, latency + x * per_byte + up[v]) for v, x in d.children(path[-1])]
    able = {q: [t for t in path if d.duration(t, q) < INF] for q in range(d.problem.p)}
    total = {q: sum(d.duration(t, q) for t in able[q]) for q in able}
    chosen = min(able, key=lambda q: (-len(able[q]), total[q], q))
    while d.free():
        t = next_by(d, [u + w for u, w in zip(up, down, strict=True)])
        d.runs.append(d.insert(t, chosen) if t in able[chosen] else best_insertion(d, t))


def peft(d: Draft) -> None:
    latency, per_byte = mean_link(d.problem)
    known: dict[tuple[int, int], float] = {}

    def left(t: int, q: int) -> float:
        if (t, q) not in known:
            known[t, q] = max(
                (
                    min(
                        d.duration(v, w) + left(v, w) + (0.0 if w == q else latency + x * per_byte)
                        for w in d.devices(v)
                    )
                    for v, x in d.children(t)
                ),
                default=0.0,
            )  # fmt: skip
        return known[t, q]

    rank = [mean([left(t, q) for q in d.devices(t)]) for t in range(d.problem.n)]
    while d.free():
        t = next_by(d, rank)
        runs = [d.insert(t, q) for q in d.devices(t)]
        d.runs.append(min(runs, key=lambda r: (r.finish + left(r.task, r.device), r.device)))


def lookahead(d: Draft) -> None:
    rank = upward(d)
    while d.free():
        t = next_by(d, rank)

        def judged(run: Run) -> tuple[float, float, int]:
            after = [
                best_insertion(d, v, more=(run,), ignore_unplaced=True).finish
                for v, _ in d.children(run.task)
            ]
            return max(after, default=run.finish), run.finish, run.device

        d.runs.append(min((d.insert(t, q) for q in d.devices(t)), key=judged))


def deft(d: Draft, rank: list[float]) -> None:
    while d.free():
        t = next_by(d, rank)
        chosen, copy = best_insertion(d, t), None
        for q in d.devices(t):
            for u, _ in d.parents(t):
                if d.duration(u, q) < INF and not any(
                    r.task == u and r.device == q for r in d.runs
                ):
                    again = d.insert(u, q)
                    again.copy = True
                    run = d.insert(t, q, more=(again,))
                    if run.finish < chosen.finish:
                        chosen, copy = run, again
        d.runs += [copy, chosen] if copy else [chosen]


def batch(d: Draft, key) -> None:
    while d.free():
        offers = []
        for t in d.free():
            runs = sorted(
                (d.append(t, q) for q in d.devices(t)), key=lambda r: (r.finish, r.device)
            )
            second = runs[1].finish if len(runs) > 1 else INF
            offers.append((key(runs[0].finish, second), t, runs[0]))
        d.runs.append(min(offers, key=lambda o: o[:2])[2])


def typical(d: Draft, task: int) -> float:
    per_work = [float(x) for x in d.problem.per_work[d.problem.row[task]]]
    middle = median(per_work)
    return float(d.problem.work[task]) * (
        middle if middle < INF else max(x for x in per_work if x < INF)
    )


def static_level(d: Draft, task: int) -> float:
    return typical(d, task) + max((static_level(d, v) for v, _ in d.children(task)), default=0.0)


def dls(d: Draft) -> None:
    while d.free():
        runs = [d.append(t, q) for t in d.free() for q in d.devices(t)]
        d.runs.append(
            max(
                runs,
                key=lambda r: (
                    (static_level(d, r.task) + typical(d, r.task)) - r.finish,
                    -r.task,
                    -r.device,
                ),
            )
        )


def etf(d: Draft) -> None:
    while d.free():
        runs = [d.append(t, q) for t in d.free() for q in d.devices(t)]
        d.runs.append(
            min(runs, key=lambda r: (r.start, -static_level(d, r.task), r.task, r.finish, r.device))
        )


def immediate(d: Draft, key) -> None:
    while d.free():
        t = d.free()[0]
        d.runs.append(min((d.append(t, q) for q in d.devices(t)), key=lambda r: (key(r), r.device)))


PLAIN = {
    "heft": heft,
    "greedy": greedy,
    "cpop": cpop,
    "peft": peft,
    "lookahead": lookahead,
    "heft-deft": lambda d: deft(d, upward(d)),
    "fifo-deft": lambda d: deft(d, [0.0] * d.problem.n),
    "min-min": lambda d: batch(d, lambda best, _: best),
    "max-min": lambda d: batch(d, lambda best, _: -best),
    "sufferage": lambda d: batch(d, lambda best, second: -(second - best)),
    "dls": dls,
    "etf": etf,
    "mct": lambda d: immediate(d, lambda r: r.finish),
    "met": lambda d: immediate(d, lambda r: d.duration(r.task, r.device)),
    "olb": lambda d: immediate(d, lambda r: d.end(r.device)),
}


def rows(schedule) -> list[tuple[int, bool, int, float, float]]:
    columns = schedule.to_arrays()
    return sorted(
        zip(
            *(columns[c].tolist() for c in ("task", "copy", "device", "start", "finish")),
            strict=True,
        )
    )


def same(name: str, problem: Problem) -> None:
    draft = Draft(problem)
    PLAIN[name](draft)
    ours = plan(problem, name).schedule
    assert rows(ours) == sorted((r.task, r.copy, r.device, r.start, r.finish) for r in draft.runs)
    assert check(problem, ours) == []


@pytest.mark.parametrize("name", sorted(PLAIN))
@settings(max_examples=40)
@given(problem=problems())
def test_compiled_equals_plain(name, problem):
    same(name, problem)


def random_problem(seed: int, *, n: int, p: int, data: float) -> Problem:
    """Dozens of tasks with costs that never tie, numbered in any order."""
    rng = np.random.default_rng(seed)
    place = rng.permutation(n)
    pairs = [(u, v) for v in range(1, n) for u in rng.choice(v, size=min(v, 2), replace=False)]
    return Problem.from_arrays(
        rng.uniform(1, 9, (n, p)),
        place[np.array(pairs)],
        rng.uniform(0, data, len(pairs)),
        bandwidth=rng.uniform(0.5, 2, (p, p)),
        latency=rng.uniform(0, 1, (p, p)),
    )


@pytest.mark.parametrize("data", [1.0, 8.0, 40.0])
@pytest.mark.parametrize("name", sorted(PLAIN))
def test_compiled_equals_plain_with_many_gaps(name, data):
    same(name, random_problem(int(data), n=40, p=4, data=data))


def insertion_by_hand(problem: Problem, order: list[int]) -> float:
    """Earliest finish with insertion over lists of (start, finish), for thousands of tasks."""
    c, w = problem.cluster, problem.workflow
    latency, per_byte = c.latency.tolist(), c.per_byte.tolist()
    parents: list[list[tuple[int, float]]] = [[] for _ in range(problem.n)]
    for u, v, x in zip(w.src.tolist(), w.dst.tolist(), w.data.tolist(), strict=True):
        parents[v].append((u, x))
    busy: list[list[tuple[float, float]]] = [[(0.0, 0.0)] for _ in range(problem.p)]
    done: dict[int, tuple[int, float]] = {}
    for t in order:
        best = (INF, -1, INF)
        for q in range(problem.p):
            ready, duration = 0.0, problem.duration(t, q)
            for u, x in parents[t]:
                s, f = done[u]
                ready = max(ready, f + (latency[s][q] + x * per_byte[s][q]))
            start = max(ready, busy[q][-1][1])
            for (_, left), (right, _) in pairwise(busy[q]):
                if max(ready, left) + duration <= right:
                    start = max(ready, left)
                    break
            best = min(best, (start + duration, q, start))
        finish, q, start = best
        done[t] = (q, finish)
        busy[q].append((start, finish))
        busy[q].sort()
    return max(f for _, f in done.values())


@pytest.mark.parametrize("name", ["L_n100_P8", "L_n500_P32", "L_n1000_P8", "L_n2000_P8"])
def test_heft_on_larger_graphs(name):
    with np.load(data_dir() / "static_graphs" / f"{name}.npz") as z:
        problem = Problem.from_arrays(
            work=z["work"],
            speed=z["speeds"],
            edges=z["edges"],
            data=z["data"],
            bandwidth=z["bandwidth"],
            name=name,
        )
    rank = upward_quickly(problem)
    order = sorted(range(problem.n), key=lambda t: (-rank[t], t))
    ours = plan(problem, "heft").schedule
    assert ours.makespan == pytest.approx(insertion_by_hand(problem, order), rel=1e-12)
    assert check(problem, ours) == []


def upward_quickly(problem: Problem) -> list[float]:
    """The upward rank of a graph that is numbered topologically, as these are."""
    latency, per_byte = mean_link(problem)
    w = problem.workflow
    rank = (problem.work * problem.mean_per_work[problem.row]).tolist()
    below = [0.0] * problem.n
    edges = sorted(zip(w.src.tolist(), w.dst.tolist(), w.data.tolist(), strict=True))
    for t in reversed(range(problem.n)):
        while edges and edges[-1][0] == t:
            _, v, x = edges.pop()
            below[t] = max(below[t], latency + x * per_byte + rank[v])
        rank[t] += below[t]
    return rank
