"""The exact environment of Debner, Krahn and Hirvisalo (2024), in plain Python.

`published_kernel.py` is its compiled twin. `sim/vector/step.py` runs the same environment, for any
graph and without three habits of the published code. Here each is an option with a name, so that
its effect can be measured:

- `single_event`: after a step in which an idle unit chose a queue that an earlier unit had emptied
  (a short wait), the published code handles one event, though others may be due at the same time;
  these follow in the next step. So a policy sees the first task of a batch before the others.
- `expiry`: a waiting task whose job is older than 5 s is dropped, and its job counts with 5 s.
- `heap_order`: FIFO reads the next task of a queue at its place in the list of a heap, which is
  sorted at its first place only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf

import numpy as np

from weft.errors import Unsupported
from weft.model.columns import FloatArray, IntArray
from weft.model.conditional_stream import ConditionalStream, in_ticks, ticked
from weft.model.problem import Problem
from weft.model.workflow import ALWAYS

END = -1
"""The event after the last task of a job."""


@dataclass(frozen=True, kw_only=True)
class PublishedOptions:
    """Habits of the published code; all of them are on there.

    Parameters
    ----------
    single_event : a short wait ends with the next event alone, not with all of its time
    expiry : seconds after which a waiting task is dropped; inf: never
    heap_order : FIFO compares tasks by their places in the list of a heap
    idle_seconds : for which a unit that waits is held
    """

    single_event: bool = True
    expiry: float = 5.0
    heap_order: bool = True
    idle_seconds: float = 0.010


def published_problem(stream: ConditionalStream) -> Problem:
    """Return the tasks and units of a stream in ticks.

    Streams with features that the published code lacks are refused.
    """
    if stream.problem.cluster.batch_curve or stream.problem.cluster.has_setup:
        raise Unsupported(
            f"the published environment has no batch curves and set-ups: '{stream.name}' has"
        )
    return ticked(stream.problem, stream.tick)


PLAIN = PublishedOptions(single_event=False, expiry=inf, heap_order=False)
"""Without the three habits: as `weft.sim.vector.step`."""


class PublishedSimulation:
    """One simulation of a stream; times are in ticks.

    Attributes
    ----------
    queues : waiting tasks by kind, each (arrival of its job, job), in the order of a heap
    free_at : when each unit is free
    finish : of each job; NaN before it ends
    expired : jobs of which a task was dropped
    running : kind and size of the last batch of each unit; kind -1 while it is held
    arrived, ended : jobs
    steps : so far
    """

    def __init__(
        self,
        stream: ConditionalStream,
        arrival: FloatArray,
        outcome: IntArray,
        options: PublishedOptions | None = None,
    ) -> None:
        problem = published_problem(stream)
        self.options = options or PublishedOptions()
        self.stream, self.arrival = stream, arrival
        self.kinds, self.units = problem.n, problem.p
        self.batch: list[int] = problem.cluster.batch.tolist()
        self._duration = problem.durations().tolist()
        self._hold = in_ticks(self.options.idle_seconds, stream.tick)
        self._expiry = self.options.expiry / stream.tick
        self._next = next_tasks(stream, outcome).tolist()
        self.queues: list[list[tuple[float, int]]] = [[] for _ in range(self.kinds)]
        self.free_at = [-1.0] * self.units
        self.now = -1.0
        self.finish = np.full(len(arrival), np.nan)
        self.expired: list[int] = []
        self.running = [(-1, 0)] * self.units
        self.arrived = self.ended = 0
        self.steps = 0
        self.memory = 0
        """The kind that MRU chose last."""
        self._doing: dict[int, int] = {}
        self._over: list[tuple[int, int]] = []
        self._events = [(float(t), float(t), j, 0) for j, t in enumerate(arrival)]
        heapify(self._events)
        while not any(self.queues) and self._events:
            self._handle_event()

    @property
    def done(self) -> bool:
        """Whether all jobs have ended."""
        return not self._events and not any(self.queues)

    def jct(self) -> FloatArray:
        """Return the completion time of each job in seconds."""
        seconds: FloatArray = (self.finish - self.arrival) * self.stream.tick
        return seconds

    @property
    def nothing_due(self) -> bool:
        """Whether no event is to come."""
        return not self._events

    def take_ended(self) -> list[tuple[int, int]]:
        """Return the tasks, (kind, job), that ended since the last call."""
        found, self._over = self._over, []
        return found

    def idle(self, unit: int) -> bool:
        """Return whether a unit may act."""
        return self.free_at[unit] <= self.now

    def step(self, actions: Sequence[int]) -> None:
        """Carry out an action per unit, and simulate up to the next decision."""
        self.steps += 1
        for unit, kind in enumerate(actions):
            if not self.idle(unit):
                continue
            if kind == self.kinds:
                self.free_at[unit], self.running[unit] = self.now + self._hold, (-1, 0)
            elif self.queues[kind]:
                self._run(unit, kind)
        self._proceed()
        self._expire()

    def _run(self, unit: int, kind: int) -> None:
        end = self.now + self._duration[kind][unit]
        self.free_at[unit] = end
        size = min(self.batch[unit], len(self.queues[kind]))
        self.running[unit] = kind, size
        for _ in range(size):
            since, job = heappop(self.queues[kind])
            self._doing[job] = kind
            heappush(self._events, (end, since, job, self._next[job][kind]))

    def _proceed(self) -> None:
        first_free, handled = min(self.free_at), False
        while self._events and (
            first_free > self.now or not any(self.queues) or self._events[0][0] <= self.now
        ):
            self._handle_event()
            handled = True
        if not handled:
            self._handle_event()
            while not self.options.single_event and self._due(self.now):
                self._handle_event()
        while self._events and self._events[0][0] < self.now:  # while all units were held
            self._handle_event()

    def _due(self, now: float) -> bool:
        return bool(self._events) and self._events[0][0] <= now

    def _handle_event(self) -> None:
        if not self._events:
            self.now = min(self.free_at)
            return
        time, since, job, task = heappop(self._events)
        self.now = max(self.now, time)
        if job in self._doing:
            self._over.append((self._doing.pop(job), job))
        else:
            self.arrived += 1
        if task == END:
            self.finish[job] = time
            self.ended += 1
        else:
            heappush(self.queues[task], (since, job))

    def _expire(self) -> None:
        for queue in self.queues:
            while queue and queue[0][0] < self.now - self._expiry:
                since, job = heappop(queue)
                self.finish[job] = since + self._expiry
                self.expired.append(job)
                self.ended += 1


PublishedRule = Callable[[PublishedSimulation, list[int]], int | None]
"""Returns the kind that the next unit takes; the tasks that units before take are counted."""


def fifo(sim: PublishedSimulation, taken: list[int]) -> int | None:
    """Return the kind whose next task belongs to the earliest job."""
    best, least = None, inf
    for kind, queue in enumerate(sim.queues):
        if len(queue) > taken[kind]:
            place = queue if sim.options.heap_order else sorted(queue)
            if place[taken[kind]][0] < least:
                best, least = kind, place[taken[kind]][0]
    return best


def mru(sim: PublishedSimulation, taken: list[int]) -> int | None:
    """Return the kind chosen last while it has tasks, else the next one in turn."""
    for k in range(sim.kinds):
        kind = (sim.memory + k) % sim.kinds
        if len(sim.queues[kind]) > taken[kind]:
            sim.memory = kind
            return kind
    return None


def depth_first(sim: PublishedSimulation, taken: list[int]) -> int | None:
    """Return the last kind that has tasks."""
    ready = [kind for kind in range(sim.kinds) if len(sim.queues[kind]) > taken[kind]]
    return ready[-1] if ready else None


PUBLISHED_RULES: dict[str, PublishedRule] = {
    "unit-fifo": fifo,
    "unit-mru": mru,
    "unit-depth-first": depth_first,
}


def run_published(
    stream: ConditionalStream,
    rule: PublishedRule,
    seed: int,
    options: PublishedOptions | None = None,
) -> PublishedSimulation:
    """Run a rule with the authors' draws to the end.

    Examples
    --------
    >>> from weft.formats.native.stream_toml import load_stream
    >>> stream = load_stream("conditional-paper").with_jobs(50)
    >>> bool((run_published(stream, fifo, seed=1).jct() > 0).all())
    True
    """
    sim = PublishedSimulation(stream, *stream.draw_ticks(seed, authors=True), options)
    while not sim.done:
        taken, actions = [0] * sim.kinds, []
        for unit in range(sim.units):
            kind = rule(sim, taken) if sim.idle(unit) else None
            actions.append(sim.kinds if kind is None else kind)
            if kind is not None:
                taken[kind] += sim.batch[unit]
        sim.step(actions)
    return sim


def next_tasks(stream: ConditionalStream, outcome: IntArray) -> IntArray:
    """Return (jobs, kinds): the task after each task of each job; END after the last."""
    workflow, choices = stream.problem.workflow, stream.problem.workflow.choices
    after = np.full((len(outcome), workflow.n), END, np.int64)
    for e, (u, v) in enumerate(zip(workflow.src.tolist(), workflow.dst.tolist(), strict=True)):
        c = int(choices.edge_choice[e])
        taken = np.ones(len(outcome), np.bool_)
        if c != ALWAYS:
            taken = outcome[:, c] == int(choices.edge_branch[e])
        if (after[taken, u] != END).any():
            raise Unsupported(
                f"the published environment has one task of a job at a time; task "
                f"'{workflow.task_name(u)}' of '{stream.name}' leads to several"
            )
        after[taken, u] = v
    return after
