"""`Scenario`: one drawn future of a workload, hidden from policies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np
from numpy.typing import ArrayLike

from weft.arguments import number, refuse, refuse_negative, refuse_not_positive
from weft.errors import InvalidInput
from weft.model.columns import FloatArray, IntArray, as_floats, floats, integers
from weft.model.workload import Workload
from weft.rng import generator
from weft.typed import typed, typed_dataclass

MOST_SPELLS = 200_000
"""Slowdowns and failures that are drawn for one future, over all devices."""


@typed_dataclass(frozen=True, eq=False)
class Scenario:
    """Outcomes of choices, factors of durations, slowdowns of devices, cancellations.

    Attributes
    ----------
    outcome : (choices over all jobs,) branch taken; job j's begin at ``workload.first_choice[j]``
    factor : (instances,) true duration / estimated duration
    bias : (kinds, p) further factors of durations by task kind and device: systematic errors of the
            estimates
    change_time, change_device, change_slowdown : (x,) from that time on the device takes that
        factor longer; inf: it is down. Running tasks stretch with a change; a failure loses them,
        and they start again.
    cancel : (jobs,) when a job is cancelled; inf: never
    """

    outcome: IntArray
    factor: FloatArray
    bias: FloatArray
    change_time: FloatArray
    change_device: IntArray
    change_slowdown: FloatArray
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

        `changes` holds rows of (time, device, slowdown).
        """
        choices = int(workload.first_choice[-1])
        rows = as_floats(changes, "changes")
        if rows.size % 3 or (rows.size and rows.shape[-1] != 3):
            raise InvalidInput(
                f"changes must be rows of (time, device, slowdown); got shape {rows.shape}"
            )
        rows = rows.reshape(-1, 3)
        time, device, slowdown = rows[np.argsort(rows[:, 0], kind="stable")].T
        p = workload.cluster.p
        scenario = cls(
            outcome=integers(
                _likeliest(workload) if outcome is None else outcome, "outcome", shape=(choices,)
            ),
            factor=floats(factor, "factor", shape=(workload.instances,)),
            bias=floats(bias, "bias", shape=(len(workload.kinds), p)),
            change_time=floats(time, "change time", shape=(len(rows),)),
            change_device=integers(device, "change device", shape=(len(rows),)),
            change_slowdown=floats(slowdown, "change slowdown", shape=(len(rows),)),
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
        >>> from weft.model.problem import Problem
        >>> w = Workload.of(Problem.from_arrays([[1.0], [2.0]]))
        >>> bool((Scenario.draw(w, seed=3, noise=0.2).factor > 0).all())
        True
        """
        amounts = {"noise": noise, "bias": bias, "slowdowns": slowdowns, "failures": failures}
        for name, value in amounts.items():
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
            "change_slowdown": changes,
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
        refuse_not_positive(self.change_slowdown, "slowdown", lambda i: f"change {i}", finite=False)
        refuse_negative(self.cancel, "cancellation", lambda j: f"job {j}", finite=False)
        refuse(
            (self.change_device < 0) | (self.change_device >= workload.cluster.p),
            self.change_device,
            "device",
            f"0 to {workload.cluster.p - 1}",
            lambda i: f"change {i}",
        )
        limit = _branch_counts(workload)
        bad = np.flatnonzero((self.outcome < 0) | (self.outcome >= limit))
        if len(bad):
            c = int(bad[0])
            raise InvalidInput(
                f"the outcome of choice {c} is branch {self.outcome[c]}, but it has {limit[c]} "
                "branches"
            )


def _branch_counts(workload: Workload) -> IntArray:
    counts = [np.diff(p.workflow.choices.first) for p in workload.problems]
    return _by_job(workload, counts)


def _likeliest(workload: Workload) -> IntArray:
    choices = [p.workflow.choices for p in workload.problems]
    best = [[int(x.probability[x.branches(c)].argmax()) for c in range(len(x))] for x in choices]
    return _by_job(workload, best)


def _by_job(workload: Workload, rows: Sequence[ArrayLike]) -> IntArray:
    """Return (choices over all jobs,) the row of each job's problem, job after job."""
    parts = [np.zeros(0), *(rows[t] for t in workload.template)]
    return np.concatenate(parts).astype(np.int64)


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
    kinds = [("slowdowns", slowdowns, span / 10), ("failures", failures, span / 20)]
    # A generator per device costs microseconds: none is made where nothing is drawn.
    kinds = [kind for kind in kinds if kind[1] > 0]
    for d in range(workload.cluster.p if kinds else 0):
        spells: list[tuple[float, float, float]] = []
        for what, rate, length in kinds:
            rng = generator(seed, what, d)
            for begin in np.sort(rng.random(rng.poisson(rate)) * span).tolist():
                slowdown = float(rng.uniform(1.5, 4.0)) if what == "slowdowns" else np.inf
                spells.append((begin, begin + float(rng.exponential(length)), slowdown))
        rows += [(time, d, slowdown) for time, slowdown in _worst_of(spells)]
    return np.array(rows, float).reshape(-1, 3)


def _worst_of(spells: list[tuple[float, float, float]]) -> list[tuple[float, float]]:
    """Return (time, slowdown) where the worst spell (begin, end, slowdown) changes.

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
            _, end, slowdown = coming.pop()
            heappush(active, (-slowdown, end))
        while active and active[0][1] <= time:
            heappop(active)
        slowdown = -active[0][0] if active else 1.0
        if slowdown != (changes[-1][1] if changes else 1.0):
            changes.append((time, slowdown))
    return changes


def _draw_cancellations(workload: Workload, seed: int, share: float, span: float) -> FloatArray:
    if share == 0:
        return np.full(workload.jobs, np.inf)
    rng = generator(seed, "cancellations")
    off, after = rng.random(workload.jobs) < share, rng.random(workload.jobs) * span
    return np.where(off, workload.arrival + after, np.inf)


def _spread(workload: Workload) -> float:
    total = sum(
        float((p.work * p.mean_per_work[p.row]).sum()) * int((workload.template == t).sum())
        for t, p in enumerate(workload.problems)
    )
    return total / workload.cluster.p + float(workload.arrival.max(initial=0.0))
