"""Annealing chains on several threads: their starts, temperatures and ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import NamedTuple

import numpy as np

from weft.model import Problem, Schedule
from weft.model.columns import FloatArray, IntArray
from weft.planners.bounds import chain_tails
from weft.planners.objective import CompiledObjective, Objective
from weft.planners.search import duplicating
from weft.planners.search.annealing import Chain, anneal, begin, make_chain
from weft.planners.search.clock import Clock, now
from weft.planners.search.decoder import Decoder, decode, make_decoder
from weft.planners.search.duplicating import CopyDecoder, make_copy_decoder
from weft.planners.search.warm_start import WarmStart
from weft.progress import Progress, silent
from weft.rng import generator
from weft.sim.kernel.order_moves import ANY
from weft.sim.kernel.ranks import mean_durations, mean_transfer, upward_rank

INITIAL_TEMPERATURE, GROWTH, COOLING = 0.0003, 0.42, 40.0
"""A run of m moves per task starts at the temperature INITIAL_TEMPERATURE x m ** GROWTH, relative
to the value at the start, and ends COOLING times colder: with few moves only a cold search makes
progress. Fitted on graphs of 20 to 2,000 tasks from 25 ms to 5 s."""

MAX_TRANSFER_FACTOR = 5.0
"""Largest factor of the temperature where transfers take longer than tasks: moving one of several
tasks with long transfers between them then costs more, until the others move too."""

CYCLE = 25_000
"""Moves per task in one run: more time means more runs, not slower ones."""

STEPS = 64
"""Temperatures per run."""

SHORT_SHARE, REFINING_FACTOR = 0.7, 0.1
"""A search for another objective first looks for a short schedule: its share of the time, and the
factor on the temperature after it, so that the search does not lose the short schedule."""

MAKESPAN = Objective.of("makespan")

MEASURE_SECONDS = 0.1
"""Longest time in which the duration of a move is measured."""

BAR_SECONDS = 2.0
"""Shortest time limit for which a progress bar is shown."""


class SearchState(NamedTuple):
    """How far a search is.

    Attributes
    ----------
    share : used share of the time limit, or of the moves
    value : best value so far
    """

    share: float
    value: float


@dataclass
class Worker:
    """One annealing chain with its own memory, for one thread."""

    problem: Problem
    tail: FloatArray
    chain: Chain
    objective: CompiledObjective
    decoder: Decoder
    scale: float  # the value at the start, times the factor for transfers
    initial: float = 0.0  # temperature at the start of a run
    move_seconds: float = 0.0  # recent seconds per move

    @property
    def best(self) -> float:
        """The best value so far."""
        return float(self.chain.value[0]["best"])

    def begin(self, order: IntArray, choice: IntArray) -> None:
        """Start a run at this state; the best state so far stays."""
        begin(
            self.problem.arrays, self.objective, self.tail, self.chain, self.decoder, order, choice
        )

    def copy_state(self, other: Worker) -> None:
        """Continue from the state of another worker, without decoding it again."""
        mine, its = self.chain, other.chain
        pairs = [*zip(self.decoder, other.decoder, strict=True)]
        pairs += [*zip(mine.path, its.path, strict=True), (mine.value, its.value)]
        pairs += [(mine.order, its.order), (mine.place, its.place), (mine.choice, its.choice)]
        pairs += [(mine.best_order, its.best_order), (mine.best_choice, its.best_choice)]
        for to, source in pairs:
            to[:] = source

    def anneal(self, count: int, share: float, target: float) -> None:
        """Try a number of moves at the temperature for a share of the run."""
        a, temperature = self.problem.arrays, self.temperature(share)
        anneal(a, self.objective, self.tail, self.chain, self.decoder, count, temperature, target)

    def temperature(self, share: float) -> float:
        """Return the temperature for a share of the run: it falls exponentially."""
        return float(self.initial * COOLING**-share)

    def schedule(self) -> Schedule:
        """Return the best schedule so far."""
        a, c, w = self.problem.arrays, self.chain, self.decoder
        decode(a, self.objective, c.best_order, c.best_choice, self.tail, w)
        return Schedule.of(device=w.device, start=w.start, finish=w.finish)

    def set_temperature(self, moves: float) -> None:
        """Set the temperature for a run with this number of moves."""
        self.initial = self.scale * INITIAL_TEMPERATURE * max(1.0, moves / self.problem.n) ** GROWTH

    def run_moves(self, moves: int, target: float, progress: Callable[[float], None]) -> None:
        """Run for a number of moves, from hot to cold."""
        self.set_temperature(moves)
        done = 0
        for step in range(STEPS):
            count = (moves - done) // (STEPS - step)
            if count and self.best > target:
                self.anneal(count, step / STEPS, target)
            done += count
            progress(done / moves)

    def run_until(self, end: float, target: float, progress: Callable[[float], None]) -> None:
        """Run until a time of the clock, from hot to cold."""
        begun = time = now()
        self.set_temperature((end - begun) / self.move_seconds)
        while time + self.move_seconds < end and self.best > target:
            count = max(1, int(min((end - begun) / STEPS, end - time) / self.move_seconds))
            self.anneal(count, (time - begun) / (end - begun), target)
            then, time = time, now()
            self.move_seconds = 0.5 * self.move_seconds + 0.5 * (time - then) / count
            progress(min(1.0, (time - begun) / (end - begun)))


@dataclass
class CopyingWorker(Worker):
    """A worker for schedules with copies."""

    copies: CopyDecoder = field(kw_only=True)

    def begin(self, order: IntArray, choice: IntArray) -> None:
        """Start a run at this state; the best state so far stays."""
        a = self.problem.arrays
        duplicating.begin_copies(a, self.tail, self.chain, self.copies, order, choice)

    def anneal(self, count: int, share: float, target: float) -> None:
        """Try a number of moves at the temperature for a share of the run."""
        a, temperature = self.problem.arrays, self.temperature(share)
        duplicating.anneal_copies(a, self.tail, self.chain, self.copies, count, temperature, target)

    def schedule(self) -> Schedule:
        """Return the best schedule so far."""
        a, c = self.problem.arrays, self.chain
        duplicating.decode_copies(a, c.best_order, c.best_choice, self.tail, np.inf, self.copies)
        return duplicating.as_schedule(a, self.copies)


@dataclass
class Team:
    """Workers that start every run from the best states of all of them."""

    workers: list[Worker]
    reserve: float = 0.0
    """Seconds reserved for decoding the best schedule after the search."""

    @classmethod
    def of(
        cls,
        problem: Problem,
        objective: Objective,
        start: WarmStart,
        tail: FloatArray,
        *,
        chains: int,
        seed: int,
    ) -> Team:
        """Make one worker per chain, all at the warm start; `tail` as for `decode`."""
        scale = start.value * _transfer_factor(problem)
        workers = [
            Worker(
                problem,
                tail,
                make_chain(problem.n, s),
                objective.compiled(problem),
                make_decoder(problem.n, problem.p),
                scale,
            )
            for s in generator(seed, "anytime").integers(1, 2**63, chains).tolist()
        ]
        return cls.starting(workers, start.order, start.device)

    @classmethod
    def starting(cls, workers: Sequence[Worker], order: IntArray, choice: IntArray) -> Team:
        """Make a team whose workers all start at one state."""
        begun, first = now(), workers[0]
        first.begin(order, choice)
        took = now() - begun
        for worker in workers[1:]:
            worker.copy_state(first)
        return cls(list(workers), 0.0005 + 2.0 * took)

    def copying(self, problem: Problem, clock: Clock, *, seed: int) -> Team:
        """Make a team with the same number of workers for schedules with copies.

        It starts at the best state of this team or with no device chosen, whichever is better.
        """
        best, tail, free = self.leader, chain_tails(problem), np.full(problem.n, ANY)
        rank = np.argsort(-upward_rank(problem), kind="stable")
        workers = [
            CopyingWorker(
                problem,
                tail,
                make_chain(problem.n, s),
                best.objective,
                best.decoder,
                best.best,
                copies=make_copy_decoder(problem.n, problem.p),
            )
            for s in generator(seed, "copies").integers(1, 2**63, len(self.workers)).tolist()
        ]
        first = workers[0]
        for order, choice in (
            (best.chain.best_order, best.chain.best_choice),
            (best.chain.best_order, free),
            (rank, free),
        ):
            if first.best == np.inf or clock.left() > 0:
                first.begin(order, choice)
        chain = first.chain
        return Team.starting(workers, chain.best_order.copy(), chain.best_choice.copy())

    @property
    def leader(self) -> Worker:
        """The worker with the best schedule, the first among equals."""
        return min(self.workers, key=lambda w: w.best)

    def schedule(self) -> Schedule:
        """Return the best schedule of all workers."""
        return self.leader.schedule()

    def search(
        self,
        clock: Clock,
        moves: int,
        target: float,
        progress: Progress[SearchState],
        *,
        until: float = 1.0,
    ) -> None:
        """Run until the target is met or the budget is used.

        The budget is the share `until` of the time limit or, without a limit, the moves.
        """
        with ThreadPoolExecutor(max(1, len(self.workers) - 1)) as pool:
            if clock.seconds is None:
                self._search_moves(pool, max(1, moves // len(self.workers)), target, progress)
            else:
                self._search_seconds(pool, clock, target, progress, until)

    def _search_moves(
        self, pool: ThreadPoolExecutor, moves: int, target: float, progress: Progress[SearchState]
    ) -> None:
        runs = max(1, round(moves / (CYCLE * self.workers[0].problem.n)))
        for i in range(runs):
            count = moves * (i + 1) // runs - moves * i // runs
            if count and self.leader.best > target:
                work = partial(Worker.run_moves, moves=count, target=target)
                self._run(pool, i, work, partial(_part, progress, i / runs, 1 / runs))

    def _search_seconds(
        self,
        pool: ThreadPoolExecutor,
        clock: Clock,
        target: float,
        progress: Progress[SearchState],
        until: float,
    ) -> None:
        assert clock.seconds is not None
        if self.leader.best <= target:
            return
        last, first, run = clock.begin + clock.seconds * until - self.reserve, self.workers[0], 0
        self._measure(clock.seconds)
        while (time := now()) + 1.2 * first.move_seconds < last and self.leader.best > target:
            runs = max(1, round((last - time) / (CYCLE * first.problem.n * first.move_seconds)))
            end = time + (last - time) / runs
            part = partial(_part, progress, clock.share(), (end - time) / clock.seconds)
            self._run(pool, run, partial(Worker.run_until, end=end, target=target), part)
            run += 1

    def _measure(self, seconds: float) -> None:
        """Measure the duration of a move, in half a percent of the time limit at most."""
        first, begun, done, count = self.workers[0], now(), 0, 1
        while done == 0 or now() - begun < min(0.005 * seconds, MEASURE_SECONDS):
            first.anneal(count, 1.0, 0.0)
            done += count
            count *= 2
        for worker in self.workers:
            worker.move_seconds = (now() - begun) / done

    def _run(
        self,
        pool: ThreadPoolExecutor,
        run: int,
        work: Callable[..., None],
        progress: Progress[SearchState],
    ) -> None:
        """Do one run of all workers.

        From the second run on, every other worker starts at the best state of all, the others at
        their own best. An interrupt ends all workers at their next step.
        """
        leader = self.leader
        for i, worker in enumerate(self.workers):
            source = leader if (run + i) % 2 == 0 else worker
            if run > 0:
                worker.begin(source.chain.best_order, source.chain.best_choice)
        stopped = Event()

        def check(_: float) -> None:
            if stopped.is_set():
                raise CancelledError

        futures = [pool.submit(work, worker, progress=check) for worker in self.workers[1:]]
        try:
            work(
                self.workers[0], progress=lambda part: progress(SearchState(part, self.leader.best))
            )
            for future in futures:
                future.result()
        except BaseException:
            stopped.set()
            raise


def _transfer_factor(problem: Problem) -> float:
    """Return mean transfer over mean duration, from 1 to `MAX_TRANSFER_FACTOR`."""
    if problem.m == 0:
        return 1.0
    latency, per_byte = mean_transfer(problem)
    transfer = latency + per_byte * float(problem.arrays.pred_data.mean())
    seconds = float(mean_durations(problem).mean())
    if seconds <= 0.0:
        return 1.0
    return min(max(transfer, seconds), MAX_TRANSFER_FACTOR * seconds) / seconds


def _part(progress: Progress[SearchState], used: float, share: float, run: SearchState) -> None:
    progress(SearchState(used + run.share * share, run.value))


@dataclass
class SearchHistory:
    """A callback that records improvements: seconds since start, value."""

    clock: Clock
    show: Progress[SearchState]
    points: list[tuple[float, float]] = field(default_factory=list)

    def __call__(self, state: SearchState) -> None:
        """Record the value if it is better, and pass it on."""
        if not self.points or state.value < self.points[-1][1]:
            self.points.append((self.clock.elapsed(), state.value))
        self.show(state)


@contextmanager
def reporting(
    progress: Progress[SearchState] | None, clock: Clock, bound: float
) -> Iterator[SearchHistory]:
    """Yield what to call: the caller's function, a bar on a terminal, or nothing."""
    if progress is not None:
        yield SearchHistory(clock, progress)
    elif sys.stderr.isatty() and clock.seconds is not None and clock.seconds >= BAR_SECONDS:
        yield SearchHistory(clock, partial(_show, bound))
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    else:
        yield SearchHistory(clock, silent)


def _show(bound: float, state: SearchState) -> None:
    done = round(20 * min(1.0, state.share))
    above = (
        f", at most {100 * (state.value / bound - 1):.1f} % above the optimum" if bound > 0 else ""
    )
    bar = f"[{'#' * done}{'.' * (20 - done)}]"
    print(f"\r\x1b[K{bar} best {state.value:.4g} s{above}", end="", file=sys.stderr, flush=True)
