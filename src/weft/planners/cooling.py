"""Annealing run after run on several cores: who begins where, how warm, and when it ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from weft.model import Problem, Schedule
from weft.model.columns import FloatArray, IntArray
from weft.planners.annealing import BEST, MOVES, Chain, anneal, begin, make_chain
from weft.planners.bounds import device_tails
from weft.planners.clock import Clock
from weft.planners.decoder import Decoder, decode, make_decoder
from weft.planners.objective import Goal, Objective
from weft.planners.quick_start import Start
from weft.rng import stream

HOT, COLD = 0.02, 0.0005
"""First and last temperature, as shares of the value at the start."""

CYCLE = 25_000
"""Moves per task in one run: more time means more runs, not slower ones."""

STEPS = 64
"""Temperatures of a run."""

BAR_SECONDS = 2.0

Progress = Callable[[float, float, float], None]
"""Called with the share of the budget that is used, the best value so far and the bound."""


@dataclass
class Worker:
    """One chain with its own memory: what one thread works on."""

    problem: Problem
    goal: Goal
    tail: FloatArray
    chain: Chain
    decoder: Decoder
    warmth: float
    pace: float = 0.0
    """Seconds a move took lately."""

    @property
    def best(self) -> float:
        """The best value so far."""
        return float(self.chain.value[BEST])

    def begin(self, order: IntArray, choice: IntArray) -> None:
        """Start a run here; the best so far is kept."""
        begin(self.problem.arrays, self.goal, self.tail, self.chain, self.decoder, order.copy(), choice.copy())

    def run_moves(self, moves: int, bound: float, report: Callable[[float], None]) -> None:
        """One run of so many moves, from hot to cold."""
        done = 0
        for step in range(STEPS):
            count = (moves - done) // (STEPS - step)
            if count:
                self._anneal(count, step / STEPS, bound)
            done += count
            report(done / moves)

    def run_until(self, end: float, bound: float, report: Callable[[float], None]) -> None:
        """One run until a time of `perf_counter`, from hot to cold."""
        begun = now = time.perf_counter()
        while now + self.pace < end and self.best > bound:
            count = max(1, min(1_000_000, int((end - begun) / STEPS / self.pace))) if self.pace else 1
            if now + self.pace * count > end:
                count = max(1, int((end - now) / self.pace))
            self._anneal(count, (now - begun) / (end - begun), bound)
            then, now = now, time.perf_counter()
            self.pace = (now - then) / count if self.pace == 0.0 else 0.5 * self.pace + 0.5 * (now - then) / count
            report(min(1.0, (now - begun) / (end - begun)))

    def _anneal(self, count: int, share: float, bound: float) -> None:
        temperature = self.warmth * (COLD / HOT) ** share
        anneal(self.problem.arrays, self.goal, self.tail, self.chain, self.decoder, count, temperature, temperature, bound)

    def schedule(self) -> Schedule:
        """The best schedule so far."""
        w = make_decoder(self.problem.n, self.problem.p)
        decode(self.problem.arrays, self.goal, self.chain.best_order, self.chain.best_choice, self.tail, w)
        return Schedule.of(device=w.device, start=w.start, finish=w.finish)


@dataclass
class Team:
    """Workers that begin every run from what all of them know."""

    workers: list[Worker]

    @classmethod
    def of(cls, problem: Problem, objective: Objective, start: Start, *, chains: int, seed: int, copies: bool) -> Team:
        """As many workers as chains, all at the start."""
        tail = device_tails(problem)
        seeds = stream(seed, "anytime").integers(1, 2**63, chains)
        workers = [
            Worker(problem, objective.goal(problem), tail, make_chain(problem.n, int(s)), make_decoder(problem.n, problem.p), HOT * start.value)
            for s in seeds
        ]
        for worker in workers:
            worker.begin(start.order, start.device)
        return cls(workers)

    @property
    def leader(self) -> Worker:
        """The worker with the best schedule, the first among equals."""
        return min(self.workers, key=lambda w: w.best)

    def schedule(self) -> Schedule:
        """The best schedule of all."""
        return self.leader.schedule()

    def search(self, clock: Clock, iterations: int | None, bound: float, report: Progress) -> None:
        """Run after run until the budget is used or the bound is met."""
        with ThreadPoolExecutor(max(1, len(self.workers) - 1)) as pool:
            if iterations is not None:
                self._search_moves(pool, iterations // len(self.workers), bound, report)
            else:
                self._search_seconds(pool, clock, bound, report)

    def _search_moves(self, pool: ThreadPoolExecutor, moves: int, bound: float, report: Progress) -> None:
        runs = max(1, round(moves / (CYCLE * self.workers[0].problem.n)))
        for i in range(runs):
            count = moves * (i + 1) // runs - moves * i // runs
            if count and self.leader.best > bound:
                self._run(pool, i, lambda worker, tell, count=count: worker.run_moves(count, bound, tell), report, i / runs, 1 / runs)

    def _search_seconds(self, pool: ThreadPoolExecutor, clock: Clock, bound: float, report: Progress) -> None:
        self._measure(clock)
        run = 0
        while clock.left() > 0 and self.leader.best > bound:
            per_run = CYCLE * self.workers[0].problem.n * self.workers[0].pace
            length = clock.left() / max(1, round(clock.left() / per_run)) if per_run else clock.left()
            if clock.left() < 1.2 * self.workers[0].pace:
                break
            end = time.perf_counter() + length
            used = clock.share()
            self._run(pool, run, lambda worker, tell, end=end: worker.run_until(end, bound, tell), report, used, length / (clock.seconds or 1))
            run += 1

    def _measure(self, clock: Clock) -> None:
        """How long a move takes, by a few of them."""
        worker = self.workers[0]
        count, begun = 1, time.perf_counter()
        while time.perf_counter() - begun < 0.01 * (clock.seconds or 1.0):
            worker._anneal(count, 1.0, 0.0)
            count *= 2
        done = max(1, int(worker.chain.count[MOVES]))
        for other in self.workers:
            other.pace = (time.perf_counter() - begun) / done

    def _run(
        self,
        pool: ThreadPoolExecutor,
        run: int,
        work: Callable[[Worker, Callable[[float], None]], None],
        report: Progress,
        used: float,
        share: float,
    ) -> None:
        leader = self.leader
        if run > 0:
            for i, worker in enumerate(self.workers):
                source = leader if (run + i) % 2 == 0 else worker
                worker.begin(source.chain.best_order, source.chain.best_choice)

        def tell(part: float) -> None:
            report(used + part * share, self.leader.best, 0.0)

        futures = [pool.submit(work, worker, lambda _: None) for worker in self.workers[1:]]
        work(self.workers[0], tell)
        for future in futures:
            future.result()


@contextmanager
def reporting(progress: Progress | None, clock: Clock, bound: float) -> Iterator[Progress]:
    """Yield what a search calls as it goes: the caller's function, or a bar on a terminal for long runs, or nothing."""
    if progress is not None:
        yield lambda share, value, _: progress(share, value, bound)
    elif sys.stderr.isatty() and clock.seconds is not None and clock.seconds >= BAR_SECONDS:
        from tqdm import tqdm

        with tqdm(total=100, desc="anytime", unit="%", leave=False) as bar:

            def show(share: float, value: float, _: float) -> None:
                bar.n = round(100 * min(1.0, share))
                bar.set_postfix_str(f"{value:.6g}" + (f", at most {value / bound - 1:.1%} above optimal" if bound > 0 else ""))

            yield show
    else:
        yield lambda _share, _value, _bound: None
