"""`Scenario`: one drawn future of a workload, hidden from policies."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import ArrayLike

from weft.arguments import number
from weft.errors import InvalidInput
from weft.model.columns import BoolArray, FloatArray, IntArray, as_floats, floats, integers
from weft.model.problem import Problem
from weft.model.validation import refuse, refuse_negative, refuse_not_positive
from weft.model.workflow import ALWAYS
from weft.model.workload import Workload
from weft.rng import generator
from weft.typed import typed

MOST_SPELLS = 200_000
"""Slowdowns and failures that are drawn for one future, over all devices."""


@dataclass(frozen=True, eq=False)
class Scenario:
    """Outcomes of choices, duration factors, the pace of devices over time, cancellations.

    Attributes
    ----------
    outcome : (choices over all jobs,) branch taken; job j's begin at ``workload.first_choice[j]``
    factor : (instances,) true duration / estimated duration
    bias : (kinds, p) the same by task kind and device: estimates wrong in a systematic way
    change_time, change_device, change_pace : (x,) from that time on the device takes `pace` times
        as long; inf: it is down. Running tasks stretch with a change; a failure loses them, and
        they start again.
    cancel : (jobs,) when a job is cancelled; inf: never
    """

    outcome: IntArray
    factor: FloatArray
    bias: FloatArray
    change_time: FloatArray
    change_device: IntArray
    change_pace: FloatArray
    cancel: FloatArray

    @classmethod
    @typed
    def of(
        cls,
        workload: Workload,
        *,
        outcome: ArrayLike | None = None,
        factor: ArrayLike = 1.0,
        bias: ArrayLike = 1.0,
        changes: ArrayLike = (),
        cancel: ArrayLike = np.inf,
    ) -> Scenario:
        """Make a scenario by hand; by default every choice takes its most probable branch.

        `changes` holds rows of (time, device, pace).
        """
        choices = int(workload.first_choice[-1])
        rows = as_floats(changes, "changes")
        if rows.size % 3 or (rows.size and rows.shape[-1] != 3):
            raise InvalidInput(
                f"changes must be rows of (time, device, pace); got shape {rows.shape}"
            )
        rows = rows.reshape(-1, 3)
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        p = workload.cluster.p
        scenario = cls(
            outcome=integers(
                _likeliest(workload) if outcome is None else outcome, "outcome", shape=(choices,)
            ),
            factor=floats(factor, "factor", shape=(workload.instances,)),
            bias=floats(bias, "bias", shape=(len(workload.kinds), p)),
            change_time=floats(rows[:, 0], "change time", shape=(len(rows),)),
            change_device=integers(rows[:, 1], "change device", shape=(len(rows),)),
            change_pace=floats(rows[:, 2], "change pace", shape=(len(rows),)),
            cancel=floats(cancel, "cancel", shape=(workload.jobs,)),
        )
        scenario._validate(workload)
        return scenario

    @classmethod
    @typed
    def draw(
        cls,
        workload: Workload,
        *,
        seed: int = 0,
        noise: float = 0.0,
        bias: float = 0.0,
        slowdowns: float = 0.0,
        failures: float = 0.0,
        cancellations: float = 0.0,
        horizon: float | None = None,
    ) -> Scenario:
        """Draw a future.

        Parameters
        ----------
        noise : sigma of log-normal duration factors with mean 1
        bias : sigma of log-normal factors by task kind and device kind, with mean 1
        slowdowns, failures : expected number of them per device over the horizon; a slowdown is 1.5
            to 4 times for a tenth of the horizon on average, a failure lasts a twentieth of it
        cancellations : share of the jobs cancelled at a random time after their arrival
        horizon : seconds; by default the work of all jobs spread over all devices, plus the last
            arrival

        Examples
        --------
        >>> w = Workload.of(Problem.from_arrays([[1.0], [2.0]]))
        >>> bool((Scenario.draw(w, seed=3, noise=0.2).factor > 0).all())
        True
        """
        for name, value in (
            ("noise", noise),
            ("bias", bias),
            ("slowdowns", slowdowns),
            ("failures", failures),
        ):
            number(value, name)
        number(cancellations, "cancellations", high=1.0)
        if horizon is not None:
            number(horizon, "horizon")
        if (slowdowns + failures) * workload.cluster.p > MOST_SPELLS:
            raise InvalidInput(
                f"slowdowns is {slowdowns:g} and failures is {failures:g}, each per device, with "
                f"{workload.cluster.p} devices; at most {MOST_SPELLS:,} are drawn in all"
            )
        span = horizon if horizon is not None else _spread(workload)
        return cls.of(
            workload,
            outcome=_draw_outcomes(workload, seed),
            factor=_log_normal(seed, "noise", noise, workload.instances),
            bias=_draw_bias(workload, seed, bias),
            changes=_draw_changes(workload, seed, slowdowns, failures, span),
            cancel=_draw_cancellations(workload, seed, cancellations, span),
        )

    def refuse_other_workload(self, workload: Workload) -> None:
        """Refuse a workload for which the columns have wrong lengths or impossible values."""
        changes = np.shape(self.change_time)
        shapes: dict[str, tuple[int, ...]] = {
            "outcome": (int(workload.first_choice[-1]),),
            "factor": (workload.instances,),
            "bias": (len(workload.kinds), workload.cluster.p),
            "change_time": (math.prod(changes),),
            "change_device": changes,
            "change_pace": changes,
            "cancel": (workload.jobs,),
        }
        for name, shape in shapes.items():
            if np.shape(getattr(self, name)) != shape:
                raise InvalidInput(
                    f"{name} of the scenario has shape {np.shape(getattr(self, name))}, but "
                    f"'{workload.name}' needs {shape}; give the scenario of this workload"
                )
        self._validate(workload)

    def _validate(self, workload: Workload) -> None:
        refuse_not_positive(self.factor, "duration factor", lambda i: f"instance {i}")
        refuse_not_positive(self.bias, "bias", lambda i: f"device {i % workload.cluster.p}")
        refuse_negative(self.change_time, "time", lambda i: f"change {i}")
        refuse_not_positive(self.change_pace, "pace", lambda i: f"change {i}", finite=False)
        refuse_negative(self.cancel, "cancellation", lambda j: f"job {j}", finite=False)
        refuse(
            (self.change_device < 0) | (self.change_device >= workload.cluster.p),
            self.change_device,
            "device",
            f"0 to {workload.cluster.p - 1}",
            lambda i: f"change {i}",
        )
        limit = _branch_counts(workload)
        if ((self.outcome < 0) | (self.outcome >= limit)).any():
            c = int(np.flatnonzero((self.outcome < 0) | (self.outcome >= limit))[0])
            raise InvalidInput(
                f"the outcome of choice {c} is branch {self.outcome[c]}, but it has {limit[c]} "
                "branches"
            )


def _branch_counts(workload: Workload) -> IntArray:
    counts = [np.diff(p.workflow.choices.first) for p in workload.problems]
    return np.concatenate([np.zeros(0, np.int64), *(counts[t] for t in workload.template)]).astype(
        np.int64
    )


def _likeliest(workload: Workload) -> IntArray:
    best = []
    for problem in workload.problems:
        choices = problem.workflow.choices
        best.append(
            np.array(
                [
                    int(np.argmax(choices.probability[choices.branches(c)]))
                    for c in range(len(choices))
                ],
                np.int64,
            )
        )
    return np.concatenate([np.zeros(0, np.int64), *(best[t] for t in workload.template)])


def _draw_outcomes(workload: Workload, seed: int) -> IntArray:
    if workload.first_choice[-1] == 0:
        return np.zeros(0, np.int64)
    draws = generator(seed, "outcomes").random(int(workload.first_choice[-1]))
    outcome = np.zeros(len(draws), np.int64)
    for t, problem in enumerate(workload.problems):
        choices = problem.workflow.choices
        starts = workload.first_choice[:-1][workload.template == t]
        for c in range(len(choices)):
            edges = np.cumsum(choices.probability[choices.branches(c)])[:-1]
            outcome[starts + c] = np.searchsorted(edges, draws[starts + c], side="right")
    return outcome


def _log_normal(seed: int, stream: str, sigma: float, size: int | tuple[int, ...]) -> FloatArray:
    if sigma == 0:
        return np.ones(size)
    draws = generator(seed, stream).standard_normal(size)
    return np.exp(sigma * draws - sigma * sigma / 2)


def _draw_bias(workload: Workload, seed: int, sigma: float) -> FloatArray:
    kinds = workload.cluster.kinds
    names = list(dict.fromkeys(kinds))
    by_kind = _log_normal(seed, "bias", sigma, (len(workload.kinds), len(names)))
    return by_kind[:, [names.index(k) for k in kinds]]


def _draw_changes(
    workload: Workload, seed: int, slowdowns: float, failures: float, span: float
) -> FloatArray:
    rows: list[tuple[float, int, float]] = []
    # A generator per device costs microseconds: none is made where nothing is drawn.
    kinds = [
        (what, rate, length)
        for what, rate, length in (
            ("slowdowns", slowdowns, span / 10),
            ("failures", failures, span / 20),
        )
        if rate > 0
    ]
    for d in range(workload.cluster.p if kinds else 0):
        spells: list[tuple[float, float, float]] = []
        for what, rate, length in kinds:
            rng = generator(seed, what, d)
            for begin in np.sort(rng.random(rng.poisson(rate)) * span).tolist():
                pace = float(rng.uniform(1.5, 4.0)) if what == "slowdowns" else np.inf
                spells.append((begin, begin + float(rng.exponential(length)), pace))
        rows += [(time, d, pace) for time, pace in _worst_of(spells)]
    return np.array(rows, float).reshape(-1, 3)


def _worst_of(spells: list[tuple[float, float, float]]) -> list[tuple[float, float]]:
    """Return (time, pace) at each change of the worst of the active spells (begin, end, pace).

    Examples
    --------
    >>> _worst_of([(0.0, 4.0, 2.0), (1.0, 3.0, 5.0)])
    [(0.0, 2.0), (1.0, 5.0), (3.0, 2.0), (4.0, 1.0)]
    """
    changes: list[tuple[float, float]] = []
    coming = sorted(spells, reverse=True)
    active: list[tuple[float, float]] = []
    for time in sorted({t for begin, end, _ in spells for t in (begin, end)}):
        while coming and coming[-1][0] <= time:
            _, end, pace = coming.pop()
            heappush(active, (-pace, end))
        while active and active[0][1] <= time:
            heappop(active)
        pace = -active[0][0] if active else 1.0
        if pace != (changes[-1][1] if changes else 1.0):
            changes.append((time, pace))
    return changes


def _draw_cancellations(workload: Workload, seed: int, share: float, span: float) -> FloatArray:
    if share == 0:
        return np.full(workload.jobs, np.inf)
    rng = generator(seed, "cancellations")
    off, after = rng.random(workload.jobs) < share, rng.random(workload.jobs) * span
    return np.where(off, workload.arrival + after, np.inf)


def _spread(workload: Workload) -> float:
    total = sum(
        float((p.work * p.mean_pace[p.row]).sum()) * int((workload.template == t).sum())
        for t, p in enumerate(workload.problems)
    )
    return total / workload.cluster.p + float(workload.arrival.max(initial=0.0))


# -- consequences of a scenario that hold for every policy --------------------------


def active_instances(workload: Workload, scenario: Scenario) -> BoolArray:
    """(instances,) whether the branches that are taken lead to an instance; the others are skipped.

    Examples
    --------
    >>> from weft.model.builder import WorkflowBuilder
    >>> from weft.model.cluster import Cluster
    >>> b = WorkflowBuilder()
    >>> small, large = b.task("small"), b.task("large")
    >>> b.choice(small, {"unsure": 0.2, "sure": 0.8})
    >>> b.edge(small, large, when="unsure")
    >>> w = Workload.of(Problem.bind(b.build(), Cluster(speed=[1.0])), arrival=[0.0, 1.0])
    >>> active_instances(w, Scenario.of(w, outcome=[0, 1])).tolist()
    [True, True, True, False]
    """
    active = np.ones(workload.instances, bool)
    for problem, first, jobs in templates(workload):
        w = problem.workflow
        if not w.conditional:
            continue
        runs = np.ones((len(jobs), w.n), bool)
        for task in w.order.tolist():
            edges = w.pred_edge[w.pred_ptr[task] : w.pred_ptr[task + 1]]
            if len(edges):
                taken = [
                    runs[:, w.src[e]]
                    & taken_edges(workload, scenario, problem, jobs, np.full(len(jobs), e))
                    for e in edges
                ]
                runs[:, task] = np.any(taken, axis=0)
        active[first[:, None] + np.arange(w.n)] = runs
    return active


def taken_edges(
    workload: Workload, scenario: Scenario, problem: Problem, job: IntArray, edge: IntArray
) -> BoolArray:
    """Whether edges belong to taken branches of these jobs, if their sources run."""
    choices = problem.workflow.choices
    choice = choices.edge_choice[edge]
    taken: BoolArray = choice == ALWAYS
    at = np.flatnonzero(~taken)
    taken[at] = (
        scenario.outcome[workload.first_choice[job[at]] + choice[at]]
        == choices.edge_branch[edge[at]]
    )
    return taken


def settled_times(workload: Workload, active: BoolArray, done: FloatArray) -> FloatArray:
    """(instances,) when an instance is done or known to be skipped, and its edges decided."""
    settled = np.where(active, done, 0.0)
    for problem, first, _ in templates(workload):
        w = problem.workflow
        if not w.conditional:
            continue
        when = settled[first[:, None] + np.arange(w.n)]
        skipped = ~active[first[:, None] + np.arange(w.n)]
        for task in w.order.tolist():
            parents = w.src[w.pred_edge[w.pred_ptr[task] : w.pred_ptr[task + 1]]]
            if len(parents):
                when[:, task] = np.where(
                    skipped[:, task], when[:, parents].max(axis=1), when[:, task]
                )
        settled[first[:, None] + np.arange(w.n)] = when
    return settled


def templates(workload: Workload) -> Iterator[tuple[Problem, IntArray, IntArray]]:
    """Each problem with the first instance and the number of its jobs."""
    for t, problem in enumerate(workload.problems):
        jobs = np.flatnonzero(workload.template == t)
        yield problem, workload.first_instance[jobs], jobs


def pace_at(scenario: Scenario, device: IntArray, time: FloatArray) -> FloatArray:
    """The pace of devices at given times; a change at that very time counts."""
    pace = np.ones(len(device))
    for d in np.unique(scenario.change_device).tolist():
        times, paces = changes_of(scenario, d)
        here = np.flatnonzero(device == d)
        pace[here] = np.concatenate(([1.0], paces))[
            np.searchsorted(times, time[here], side="right")
        ]
    return pace


def run_ends(
    scenario: Scenario, device: IntArray, start: FloatArray, seconds: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Return when work that begins at `start` ends, and whether a failure cut it off.

    `seconds` is its true duration at pace 1; its rest stretches with every change of pace.
    """
    pace = pace_at(scenario, device, start)
    end = start + seconds * np.where(np.isfinite(pace), pace, 0.0)
    lost = np.zeros(len(device), bool)
    for d in np.unique(scenario.change_device).tolist():
        times, paces = changes_of(scenario, d)
        for i in np.flatnonzero((device == d) & np.isfinite(pace)).tolist():
            old = float(pace[i])
            for k in range(int(np.searchsorted(times, start[i], side="right")), len(times)):
                if times[k] >= end[i]:
                    break
                if np.isinf(paces[k]):
                    end[i], lost[i] = times[k], True
                    break
                end[i] = times[k] + (end[i] - times[k]) * (paces[k] / old)
                old = float(paces[k])
    return end, lost


def changes_of(scenario: Scenario, device: int) -> tuple[FloatArray, FloatArray]:
    """Times and paces of a device's changes, in order."""
    here = scenario.change_device == device
    return scenario.change_time[here], scenario.change_pace[here]
