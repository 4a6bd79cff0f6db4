"""Annealing run after run on several cores: who begins where, how warm, and when it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from weft.model import Problem, Schedule
from weft.model.columns import FloatArray, IntArray
from weft.planners.bounds import chain_tails, device_tails
from weft.planners.objective import Goal, Objective
from weft.planners.search import duplicating as copying
from weft.planners.search.annealing import BEST, Chain, anneal, begin, make_chain
from weft.planners.search.clock import Clock, now
from weft.planners.search.decoder import ANY, Decoder, decode, make_decoder
from weft.planners.search.duplicating import (
    Copier,
    anneal_copies,
    begin_copies,
    decode_copies,
    make_copier,
)
from weft.planners.search.warm_start import WarmStart
from weft.rng import generator
from weft.sim.kernel.ranks import upward_rank

HOT, GROWTH, COLD = 0.0003, 0.42, 40.0
"""A run of m moves per task begins at the temperature HOT x m ** GROWTH (as a share of the value at the start) and ends COLD times as cold:
with few moves only a cool search gets anywhere. Fitted on graphs of 20 to 2,000 tasks from 25 ms to 5 s."""

CYCLE = 25_000
"""TransferEstimator per task in one run: more time means more runs, not slower ones."""

STEPS = 64
"""Temperatures of a run."""

BAR_SECONDS = 2.0
"""Runs from this length on show how far they are."""

Progress = Callable[[float, float], None]
"""Called with the share of the budget that is used and the best value so far."""


@dataclass
class Worker:
    """One chain with its own memory: what one thread works on."""

    problem: Problem
    tail: FloatArray
    chain: Chain
    goal: Goal
    decoder: Decoder
    scale: float  # the value at the start
    hot: float = 0.0  # temperature a run begins at
    pace: float = 0.0  # seconds a move took lately

    @property
    def best(self) -> float:
        """The best value so far."""
        return float(self.chain.value[BEST])

    def begin(self, order: IntArray, choice: IntArray) -> None:
        """WarmStart a run here; the best so far is kept."""
        begin(self.problem.arrays, self.goal, self.tail, self.chain, self.decoder, order, choice)

    def anneal(self, count: int, share: float, target: float) -> None:
        """Try so many moves at the temperature that belongs to a share of the run."""
        temperature = self.hot * COLD**-share
        anneal(
            self.problem.arrays,
            self.goal,
            self.tail,
            self.chain,
            self.decoder,
            count,
            temperature,
            target,
        )

    def schedule(self) -> Schedule:
        """The best schedule so far."""
        w = self.decoder
        decode(
            self.problem.arrays,
            self.goal,
            self.chain.best_order,
            self.chain.best_choice,
            self.tail,
            w,
        )
        return Schedule.of(device=w.device, start=w.start, finish=w.finish)

    def heat(self, moves: float) -> None:
        """Set the temperature for a run of so many moves."""
        self.hot = self.scale * HOT * max(1.0, moves / self.problem.n) ** GROWTH

    def run_moves(self, moves: int, target: float, report: Callable[[float], None]) -> None:
        """One run of so many moves, from hot to cold."""
        self.heat(moves)
        done = 0
        for step in range(STEPS):
            count = (moves - done) // (STEPS - step)
            if count and self.best > target:
                self.anneal(count, step / STEPS, target)
            done += count
            report(done / moves)

    def run_until(self, end: float, target: float, report: Callable[[float], None]) -> None:
        """One run until a time of the clock, from hot to cold."""
        begun = time = now()
        self.heat((end - begun) / self.pace)
        while time + self.pace < end and self.best > target:
            count = max(1, int(min((end - begun) / STEPS, end - time) / self.pace))
            self.anneal(count, (time - begun) / (end - begun), target)
            then, time = time, now()
            self.pace = 0.5 * self.pace + 0.5 * (time - then) / count
            report(min(1.0, (time - begun) / (end - begun)))


@dataclass
class CopyingWorker(Worker):
    """The same for schedules with copies."""

    copier: Copier = field(kw_only=True)

    def begin(self, order: IntArray, choice: IntArray) -> None:
        """WarmStart a run here; the best so far is kept."""
        begin_copies(self.problem.arrays, self.tail, self.chain, self.copier, order, choice)

    def anneal(self, count: int, share: float, target: float) -> None:
        """Try so many moves at the temperature that belongs to a share of the run."""
        temperature = self.hot * COLD**-share
        anneal_copies(
            self.problem.arrays, self.tail, self.chain, self.copier, count, temperature, target
        )

    def schedule(self) -> Schedule:
        """The best schedule so far."""
        a = self.problem.arrays
        decode_copies(
            a, self.chain.best_order, self.chain.best_choice, self.tail, np.inf, self.copier
        )
        return copying.as_schedule(a, self.copier)


@dataclass
class Team:
    """Workers that begin every run from what all of them know."""

    workers: list[Worker]
    reserve: float = 0.0
    """Seconds to keep for what comes after the search: the best schedule is decoded once more."""

    @classmethod
    def of(
        cls, problem: Problem, objective: Objective, start: WarmStart, *, chains: int, seed: int
    ) -> Team:
        """As many workers as chains, all at the start."""
        tail, scale = device_tails(problem), start.value
        seeds = generator(seed, "anytime").integers(1, 2**63, chains).tolist()
        workers = [
            Worker(
                problem,
                tail,
                make_chain(problem.n, s),
                objective.goal(problem),
                make_decoder(problem.n, problem.p),
                scale,
            )
            for s in seeds
        ]
        return cls(workers, _begin_all(workers, start.order, start.device))

    def copying(self, problem: Problem, clock: Clock, *, seed: int) -> Team:
        """As many workers for schedules with copies: from where this team stands, or with no device chosen, whichever is better."""
        best, tail, free = self.leader, chain_tails(problem), np.full(problem.n, ANY)
        seeds = generator(seed, "copies").integers(1, 2**63, len(self.workers)).tolist()
        rank = np.argsort(-upward_rank(problem), kind="stable")
        workers: list[Worker] = [
            CopyingWorker(
                problem,
                tail,
                make_chain(problem.n, s),
                best.goal,
                best.decoder,
                best.best,
                copier=make_copier(problem.n, problem.p),
            )
            for s in seeds
        ]
        first = workers[0]
        for order, choice in (
            (best.chain.best_order, best.chain.best_choice),
            (best.chain.best_order, free),
            (rank, free),
        ):
            if first.best == np.inf or clock.left() > 0:
                first.begin(order, choice)
        return Team(
            workers,
            _begin_all(workers, first.chain.best_order.copy(), first.chain.best_choice.copy()),
        )

    @property
    def leader(self) -> Worker:
        """The worker with the best schedule, the first among equals."""
        return min(self.workers, key=lambda w: w.best)

    def schedule(self) -> Schedule:
        """The best schedule of all."""
        return self.leader.schedule()

    def search(
        self, clock: Clock, moves: int, target: float, report: Progress, *, until: float = 1.0
    ) -> None:
        """Run after run until the target is met or the time, or a share of it, is used; without a time limit, the moves."""
        with ThreadPoolExecutor(max(1, len(self.workers) - 1)) as pool:
            if clock.seconds is None:
                self._search_moves(pool, max(1, moves // len(self.workers)), target, report)
            else:
                self._search_seconds(pool, clock, target, report, until)

    def _search_moves(
        self, pool: ThreadPoolExecutor, moves: int, target: float, report: Progress
    ) -> None:
        runs = max(1, round(moves / (CYCLE * self.workers[0].problem.n)))
        for i in range(runs):
            count = moves * (i + 1) // runs - moves * i // runs
            if count and self.leader.best > target:
                self._run(
                    pool,
                    i,
                    partial(Worker.run_moves, moves=count, target=target),
                    partial(_part, report, i / runs, 1 / runs),
                )

    def _search_seconds(
        self, pool: ThreadPoolExecutor, clock: Clock, target: float, report: Progress, until: float
    ) -> None:
        assert clock.seconds is not None
        last, first, run = clock.begin + clock.seconds * until - self.reserve, self.workers[0], 0
        self._measure(clock.seconds)
        while (time := now()) + 1.2 * first.pace < last and self.leader.best > target:
            runs = max(1, round((last - time) / (CYCLE * first.problem.n * first.pace)))
            end = time + (last - time) / runs
            tell = partial(_part, report, clock.share(), (end - time) / clock.seconds)
            self._run(pool, run, partial(Worker.run_until, end=end, target=target), tell)
            run += 1

    def _measure(self, seconds: float) -> None:
        """How long a move takes, by a few of them."""
        first, begun, done, count = self.workers[0], now(), 0, 1
        while done == 0 or now() - begun < 0.005 * seconds:
            first.anneal(count, 1.0, 0.0)
            done += count
            count *= 2
        for worker in self.workers:
            worker.pace = (now() - begun) / done

    def _run(
        self,
        pool: ThreadPoolExecutor,
        run: int,
        work: Callable[..., None],
        tell: Callable[[float, float], None],
    ) -> None:
        """One run of all workers: from the second on, every other one begins at the best of all, the others at their own best."""
        leader = self.leader
        for i, worker in enumerate(self.workers):
            source = leader if (run + i) % 2 == 0 else worker
            if run > 0:
                worker.begin(source.chain.best_order, source.chain.best_choice)
        futures = [pool.submit(work, worker, report=lambda _: None) for worker in self.workers[1:]]
        work(self.workers[0], report=lambda part: tell(part, self.leader.best))
        for future in futures:
            future.result()


def _begin_all(workers: Sequence[Worker], order: IntArray, choice: IntArray) -> float:
    """WarmStart all workers at one place; returns what that takes one of them, generously."""
    begun = now()
    for worker in workers:
        worker.begin(order, choice)
    return 0.0005 + 2.0 * (now() - begun) / len(workers)


def _part(report: Progress, used: float, share: float, part: float, best: float) -> None:
    report(used + part * share, best)


@contextmanager
def reporting(progress: Progress | None, clock: Clock, bound: float) -> Iterator[Progress]:
    """Yield what a search calls as it goes: the caller's function, or a line on a terminal for long runs, or nothing."""
    if progress is not None:
        yield progress
    elif sys.stderr.isatty() and clock.seconds is not None and clock.seconds >= BAR_SECONDS:
        yield partial(_show, bound)
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    else:
        yield lambda _share, _value: None


def _show(bound: float, share: float, value: float) -> None:
    done = round(20 * min(1.0, share))
    above = f", at most {100 * (value / bound - 1):.1f} % above the optimum" if bound > 0 else ""
    print(
        f"\r\x1b[K[{'=' * done}{' ' * (20 - done)}] best {value:.6g}{above}",
        end="",
        file=sys.stderr,
        flush=True,
    )
