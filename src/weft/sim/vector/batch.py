"""`StepBatch`: many step-wise simulations of one stream, stepped together."""

from __future__ import annotations

from reprlib import repr as short
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from weft.arguments import shown, whole
from weft.errors import InvalidInput, Stuck
from weft.model import Scenario, Workload
from weft.model.columns import BoolArray, FloatArray, IntArray, offsets
from weft.model.conditional_stream import ConditionalStream, in_ticks, ticked
from weft.sim.kernel.events import ENDED
from weft.sim.kernel.tables import CHANGING, RecordTable, Sim, make_sim
from weft.sim.vector.observation import Observation, observation_size
from weft.sim.vector.state import CHANCE, CONFIG, COUNTERS, WATCH, BatchTables, StepState
from weft.sim.vector.step import begin_one, step_many
from weft.typed import typed_dataclass

Idle = Literal["block", "event"]

REWARDS = ("completion", "tardiness", "late")
"""Sums of the rewards: minus the completion times, minus the seconds after deadlines, or minus the
number of jobs that end after their deadline."""

LARGEST = 1e300
"""Largest number of an option, beside infinity."""

MOST_TASKS = 10**9
"""Largest number of tasks in all simulations of a batch; each takes some 300 bytes."""


@typed_dataclass(frozen=True)
class StepOptions:
    """Step and observation options of a stream.

    Parameters
    ----------
    idle : `block` holds a waiting unit for `idle_seconds` (the published environment; the end of
        the hold is no event); `event` lets it wait until the next event, if there is one
    estimate : observe the estimates of watched choices: one number per branch except the last
    window : number of outcomes an estimate remembers, as an exponential mean; inf: all of them
    prior : weight of the prior (all branches equally likely), in outcomes
    units : observe when each unit is free, the kind it runs, and the number of jobs in the system
    detail : observe also the fill of each batch and the time since the last arrival
    ages : number of tasks per queue whose ages are observed
    age_scale, queue_scale : ages are divided by `age_scale` seconds, queue lengths by `queue_scale`
    reward : "completion" (the published one), or "tardiness" or "late" of streams with a deadline;
        see `REWARDS`
    """

    idle: Idle = "block"
    idle_seconds: float = 0.010
    estimate: bool = True
    window: float = np.inf
    prior: float = 2.0
    units: bool = False
    detail: bool = False
    ages: int = 3
    age_scale: float = 5.0
    queue_scale: float = 50.0
    reward: str = "completion"

    def __post_init__(self) -> None:
        """Refuse unknown and non-positive values."""
        if self.idle not in {"block", "event"}:
            raise InvalidInput(f"idle is '{self.idle}'; it must be 'block' or 'event'")
        if self.reward not in REWARDS:
            raise InvalidInput(f"reward is '{self.reward}'; it must be one of {', '.join(REWARDS)}")
        for name in ("idle_seconds", "window", "prior", "age_scale", "queue_scale"):
            value = getattr(self, name)
            if not (0 < value <= LARGEST or value == np.inf):
                rule = f"it must be above zero, and infinite or below {LARGEST:g}"
                raise InvalidInput(f"{name} is {shown(value)}; {rule}")
        if self.ages < 0:
            raise InvalidInput(f"ages is {self.ages}; it must be zero or more")


class Steps(NamedTuple):
    """Results of a step, one row per simulation; the next step overwrites the arrays."""

    observation: Observation
    mask: BoolArray  # (size, units * (kinds + 1))
    reward: FloatArray  # see `REWARDS`; by default minus seconds x jobs in the system
    elapsed: FloatArray  # seconds
    done: BoolArray  # the episode ended; observation and mask are those of the next episode


class StepBatch:
    """Simulations of one stream.

    A simulation that ends restarts at once with its next draw. Simulation s runs draws seed + s,
    seed + s + size, seed + s + 2 * size, and so on.

    Examples
    --------
    >>> from weft.formats.native.stream_toml import load_stream
    >>> batch = StepBatch(load_stream("conditional-paper").with_jobs(10), 2)
    >>> first = batch.reset(seed=1)
    >>> first.observation.shape, first.mask.shape
    ((2, 31), (2, 28))
    >>> steps = batch.step(np.full((2, 4), 6))  # every unit waits
    >>> bool((steps.reward < 0).all())
    True
    """

    def __init__(
        self,
        stream: ConditionalStream,
        size: int,
        options: StepOptions | None = None,
        *,
        authors: bool = False,
    ) -> None:
        self.stream, self.size, self.authors = stream, whole(size, "size"), authors
        tasks = self.size * stream.jobs * stream.problem.n
        if tasks > MOST_TASKS:
            raise InvalidInput(
                f"{shown(self.size)} simulations of {shown(stream.jobs)} jobs have {shown(tasks)} "
                f"tasks; at most {MOST_TASKS} fit; give fewer jobs or fewer simulations"
            )
        self.options = options or StepOptions()
        if self.options.reward != "completion" and stream.deadline == np.inf:
            raise InvalidInput(
                f"reward '{self.options.reward}' needs a deadline, and stream '{stream.name}' has "
                'none; give it one, such as deadline = "400 ms"'
            )
        self._counted = np.zeros((size, stream.jobs), np.bool_)
        problem = ticked(stream.problem, stream.tick)
        workload = Workload.of(
            problem,
            arrival=np.zeros(stream.jobs),
            template=np.zeros(stream.jobs, np.int64),
            name=stream.name,
        )
        self.workload = workload
        self._blank = make_sim(workload, Scenario.of(workload), None, eager=True)
        self.units, self.kinds = problem.p, len(workload.kinds)
        self.kind_names = workload.kinds
        self._start = make_state(stream, self._blank, self.options)
        self.tables = BatchTables(_stack(self._blank, size), _stack_state(self._start, size))
        self._next = np.zeros(size, np.int64)
        self.current_draw = np.zeros(size, np.int64)
        """The draw of each simulation."""
        rows = (size,)
        width = observation_size(
            self.kinds, self.units, len(self._start.estimate), self._start.config[0]
        )
        self._steps = Steps(
            np.zeros((size, width), np.float32),
            np.zeros((size, self.units * (self.kinds + 1)), np.bool_),
            np.zeros(rows),
            np.zeros(rows),
            np.zeros(rows, np.bool_),
        )
        self.final_observation = np.zeros_like(self._steps.observation)
        """Last observations of the simulations that ended in the last step."""

    @property
    def observation_size(self) -> int:
        """Length of one observation."""
        return int(self._steps.observation.shape[1])

    def reset(self, seed: int = 0) -> Steps:
        """Restart every simulation."""
        self._next = np.arange(self.size) + seed
        self._steps.reward[:] = self._steps.elapsed[:] = 0.0
        self._steps.done[:] = False
        for s in range(self.size):
            self._begin(s)
        return self._steps

    def step(self, actions: ArrayLike, *, renew: bool = True) -> Steps:
        """Apply one action per unit in every simulation: a kind, or `kinds` to wait.

        Without `renew`, simulations that ended are not restarted.
        """
        stuck = step_many(self.tables, self._chosen(actions), *self._steps)
        if stuck >= 0:
            raise Stuck(
                f"simulation {stuck} of '{self.stream.name}' waits, but no event is due; "
                "choose actions that the mask allows"
            )
        if self.options.reward != "completion":
            self._steps.reward[:] = self._service_reward()
        if renew and self._steps.done.any():
            for s in np.flatnonzero(self._steps.done).tolist():
                self.final_observation[s] = self._steps.observation[s]
                self._begin(s)
        return self._steps

    def _chosen(self, actions: ArrayLike) -> IntArray:
        """Return actions as an array; refuse anything but whole numbers in their range."""
        try:
            given = np.asarray(actions)
        except (TypeError, ValueError):  # rows of different lengths
            given = np.array(None)
        if (
            given.dtype.kind not in "iuf"
            or given.shape != (self.size, self.units)
            or not ((given >= 0) & (given <= self.kinds)).all()
            or (given.dtype.kind == "f" and (given != np.trunc(given)).any())
        ):
            shape = f"({self.size}, {self.units})"
            raise InvalidInput(
                f"actions are {short(given.tolist() if given.ndim else actions)}; they must be a "
                f"{shape} array of whole numbers from 0 to {self.kinds}"
            )
        return np.ascontiguousarray(given, np.int64)

    def _service_reward(self) -> FloatArray:
        """Return minus the late jobs (size,) of this step, or minus their seconds.

        Only the jobs that ended in this step count.
        """
        job = self.tables.sim.job[:, :-1]
        took = (job["finish"] - job["arrival"]) * self.stream.tick
        new = np.isfinite(took) & ~self._counted
        self._counted |= new
        over = np.where(new, took - self.stream.deadline, 0.0)
        late = over > 0.0
        count = late.astype(float) if self.options.reward == "late" else np.where(late, over, 0.0)
        reward: FloatArray = -count.sum(axis=1)
        return reward

    def renew(self, which: IntArray) -> None:
        """Restart some simulations, each with its next draw."""
        for s in which.tolist():
            self._begin(s)

    def place(self, s: int, arrival: FloatArray, outcome: IntArray) -> None:
        """Reset simulation s to these arrivals and outcomes.

        Arrivals are in ticks and sorted; outcomes are of shape (jobs, choices).
        """
        sim, state = self.tables.sim, self.tables.state
        branches = np.diff(self.stream.problem.workflow.choices.first)
        taken = outcome.reshape(self.stream.jobs, len(branches))
        if ((taken < 0) | (taken >= branches)).any():
            raise InvalidInput(
                f"outcomes of choices are from {outcome.min()} to {outcome.max()}; they must be "
                f"numbers of branches, of which there are {branches.tolist()}"
            )
        self._counted[s] = False
        for name in CHANGING:
            np.copyto(getattr(sim, name)[s], getattr(self._blank, name))
        sim.job["arrival"][s, :-1] = arrival
        sim.outcome[s] = outcome.reshape(-1)
        for name in _OWN_STATE:
            np.copyto(getattr(state, name)[s], getattr(self._start, name))

    def begin(self, s: int, arrival: FloatArray, outcome: IntArray) -> Steps:
        """Reset simulation s to these jobs and simulate up to its first decision."""
        self.place(s, arrival, outcome)
        if begin_one(self.tables, s, self._steps.observation, self._steps.mask) == ENDED:
            raise InvalidInput(
                f"the jobs of '{self.stream.name}' take no time, so there is no decision to make"
            )
        return self._steps

    def jct(self, s: int) -> FloatArray:
        """Return the completion time (s) of each job of simulation s; NaN before its end."""
        job = self.tables.sim.job[s, :-1]
        seconds: FloatArray = (job["finish"] - job["arrival"]) * self.stream.tick
        return seconds

    def _begin(self, s: int) -> None:
        self.begin(s, *self.stream.draw_ticks(int(self._next[s]), authors=self.authors))
        self.current_draw[s] = self._next[s]
        self._next[s] += self.size


_OWN_STATE = ("estimate", "seen", "counters")


def _stack(blank: Sim, size: int) -> Sim:
    own: dict[str, Any] = {name: np.stack([getattr(blank, name)] * size) for name in CHANGING}
    width: dict[str, Any] = {
        name: np.zeros((size, *getattr(blank, name).shape), getattr(blank, name).dtype)
        for name in ("execution", "outcome", "flow")
    }
    return blank._replace(**own, **width)


def _stack_state(start: StepState, size: int) -> StepState:
    return start._replace(
        **{
            name: np.stack([getattr(start, name)] * size)
            for name in (*_OWN_STATE, "remaining", "coming", "scratch")
        }
    )


def make_state(stream: ConditionalStream, blank: Sim, options: StepOptions) -> StepState:
    """Allocate the step state of one stream."""
    w = stream.problem.workflow
    config = np.zeros(1, CONFIG)
    config["idle_ticks"], config["tick"] = in_ticks(options.idle_seconds, stream.tick), stream.tick
    config["slowest"], config["prior"] = 1.0 / options.window, options.prior
    config["blocking"] = options.idle == "block"
    for key in ("age_scale", "queue_scale", "ages", "estimate", "units", "detail"):
        config[key] = getattr(options, key)
    duration = ticked(stream.problem, stream.tick).durations()
    quickest = duration.min(axis=1) if len(duration) else np.ones(1)
    config["span"] = max(float(np.median(quickest)), 1e-12)
    watched = sorted(stream.watched, key=lambda c: int(w.choices.task[c]))
    branches = [len(w.choices.branches(c)) for c in watched]
    slot = offsets([count - 1 for count in branches])
    watch = np.zeros(len(watched), WATCH)
    watch["choice"], watch["slot"], watch["branches"] = watched, slot[:-1], branches
    owners = w.choices.task[watched] if watched else np.zeros(0, np.int64)
    counters = np.zeros(1, COUNTERS)
    counters["fresh"] = 1
    return StepState(
        config=config,
        watch=watch,
        watch_ptr=np.searchsorted(owners, np.arange(w.n + 1)).astype(np.int64),
        chance=_chances(stream, watched, slot),
        order=np.array(w.order),
        duration=duration,
        depth=_depth_order(stream, blank),
        group=_unit_groups(stream),
        estimate=np.concatenate([np.zeros(0), *(np.full(b - 1, 1.0 / b) for b in branches)]),
        seen=np.zeros(len(watched), np.int64),
        remaining=np.zeros(w.n),
        coming=np.zeros(len(blank.kind)),
        counters=counters,
        scratch=np.zeros(max(options.ages, 2 * len(blank.kind)) + 1, np.int64),
    )


def _chances(stream: ConditionalStream, watched: list[int], slot: IntArray) -> RecordTable:
    choices = stream.problem.workflow.choices
    table = np.zeros(stream.problem.m, CHANCE)
    for e in range(stream.problem.m):
        c, b = int(choices.edge_choice[e]), int(choices.edge_branch[e])
        table[e]["slot"] = -1
        table[e]["nominal"] = 1.0 if c < 0 else stream.drift[c].probability[0, b]
        if c in watched:
            at = watched.index(c)
            last = b == len(choices.branches(c)) - 1
            table[e]["slot"] = -2 if last else slot[at] + b
            table[e]["first"], table[e]["last"] = slot[at], slot[at + 1]
    return table


def _depth_order(stream: ConditionalStream, blank: Sim) -> IntArray:
    """Return kinds sorted by level, then by number."""
    level = np.full(len(blank.kind), -1)
    np.maximum.at(level, blank.task["kind"][:-1], stream.problem.workflow.level)
    return np.argsort(level, kind="stable").astype(np.int64)


def _unit_groups(stream: ConditionalStream) -> IntArray:
    """Return numbers (units,) that identical units share."""
    c, kinds = stream.problem.cluster, stream.problem.workflow.kinds
    tables = (stream.problem.durations(), c.batch_growth(kinds), c.setup_of(kinds))
    rows = (c.batch, c.memory, c.cache, c.switch)
    columns = [
        (
            *(table[:, d].tobytes() for table in tables),
            *(float(row[d]) for row in rows),
            -1 if c.network is None else int(c.node[d]),
        )
        for d in range(c.p)
    ]
    seen = list(dict.fromkeys(columns))
    return np.array([seen.index(column) for column in columns], np.int64)
