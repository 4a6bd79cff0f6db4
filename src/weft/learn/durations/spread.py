"""How measured durations scatter around their estimates.

log(measured / estimated) of a task is the sum of an error of its kind's estimate, an effect of the
run it belongs to (the whole machine is slower that day), and a rest of its own. The first two are
common to many tasks and do not average out, so they matter most for the end of a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from weft.model import Trace
from weft.model.columns import FloatArray
from weft.model.trace import DONE

OWN = 30
"""Least number of residuals of a kind that has its own distribution."""
GUESS = 0.3
"""Standard deviation of logarithms if nothing was measured: factors of about 0.6 to 1.8."""
PRIOR = 2.0
"""Number of runs that this guess weighs, beside measured runs."""

RunResidual = tuple[str, int, float]
"""Task kind, number of the run, log(measured / estimated)."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Distribution of log(measured / estimated).

    Attributes
    ----------
    centre, doubt : task kind -> mean error of its estimates, and the standard error of this mean
    run : standard deviation of the effects of runs
    rest : task kind -> residuals of single tasks; "" for all kinds together
    runs : number of runs that were measured
    """

    centre: dict[str, float] = field(default_factory=dict)
    doubt: dict[str, float] = field(default_factory=dict)
    run: float = GUESS
    rest: dict[str, FloatArray] = field(default_factory=dict)
    runs: int = 0

    @classmethod
    def of(cls, residuals: Iterable[RunResidual]) -> Spread:
        """Estimate the spread from residuals of any number of runs.

        Examples
        --------
        >>> spread = Spread.of(("a", run, x) for run in range(9) for x in (0.1, 0.3))
        >>> round(spread.centre["a"], 3), spread.runs, bool(spread.run < 0.2)
        (0.2, 9, True)
        """
        columns = list(zip(*residuals, strict=True))
        if not columns:
            return cls(rest={"": _normal(GUESS)})
        kind_of, run_of, logs = columns
        kinds, kind = np.unique(kind_of, return_inverse=True)
        _, run = np.unique(run_of, return_inverse=True)
        runs, left = int(run.max()) + 1, np.array(logs, float)
        centre, effect = np.zeros(len(kinds)), np.zeros(runs)
        for _ in range(5):  # means of kinds and of runs in turn
            centre = _means(left - effect[run], kind, len(kinds))
            effect = _means(left - centre[kind], run, runs)
            effect -= effect.mean()
        rest = left - centre[kind] - effect[run]
        # Means were subtracted: the rest has lost that many degrees of freedom.
        rest *= np.sqrt(len(rest) / max(len(rest) - len(kinds) - runs + 1, 1))
        scatter = float(np.mean(rest**2))
        noise = scatter / np.bincount(run)
        between = float(np.maximum(effect**2 - noise, 0.0).sum()) / max(runs - 1, 1)
        spread = np.sqrt((PRIOR * GUESS**2 / 4 + runs * between) / (PRIOR + runs))
        return cls(
            dict(zip(kinds.tolist(), centre.tolist(), strict=True)),
            _doubts(kinds, kind, scatter, float(spread) ** 2 / runs),
            float(spread),
            _pools(kinds, kind, rest),
            runs,
        )

    @classmethod
    def of_traces(cls, traces: Sequence[Trace]) -> Spread:
        """Estimate the spread from traces, each with the estimates of its workload."""
        return cls.of(r for run, trace in enumerate(traces) for r in residuals_of(trace, run))

    def pool(self, kind: str) -> FloatArray:
        """Return the residuals of a kind, or those of all kinds where it has few."""
        return self.rest.get(kind, self.rest[""])


def residuals_of(trace: Trace, run: int = 0) -> list[RunResidual]:
    """Return log(measured / estimated) of the tasks of a trace that ended."""
    found = []
    for row in np.flatnonzero((trace.status == DONE) & ~trace.copy).tolist():
        problem = trace.workload.problem_of(int(trace.job[row]))
        task, device = int(trace.task[row]), int(trace.device[row])
        estimated = problem.duration(task, device)
        measured = float(trace.finish[row] - trace.start[row])
        if estimated > 0 and measured > 0:
            kind = problem.workflow.kinds[problem.workflow.kind[task]]
            found.append((kind, run, float(np.log(measured / estimated))))
    return found


def _means(values: FloatArray, group: np.ndarray, groups: int) -> FloatArray:
    return np.asarray(np.bincount(group, values, groups) / np.bincount(group, minlength=groups))


def _doubts(kinds: np.ndarray, kind: np.ndarray, scatter: float, shared: float) -> dict[str, float]:
    error = np.sqrt(scatter / np.bincount(kind) + shared)
    return dict(zip(kinds.tolist(), error.tolist(), strict=True))


def _pools(kinds: np.ndarray, kind: np.ndarray, rest: FloatArray) -> dict[str, FloatArray]:
    pools = {k: np.sort(rest[kind == i]) for i, k in enumerate(kinds.tolist())}
    own = {k: pool for k, pool in pools.items() if len(pool) >= OWN}
    everything = np.sort(rest) if len(rest) >= OWN else _normal(max(float(rest.std()), GUESS / 2))
    return {**own, "": everything}


def _normal(sigma: float) -> FloatArray:
    from scipy.special import ndtri

    return np.asarray(sigma * ndtri((np.arange(99) + 1) / 100))
