"""The end of a run, with bands of 50 and 90 %, before its start and during it.

Durations of the tasks that are left are drawn from their measured `Spread`, given how the tasks of
this run went so far; the plan is followed under each draw. Past runs correct the bands by conformal
prediction (Vovk, Gammerman and Shafer 2005) on log(true / predicted) over the predicted width, so
that 90 % of such runs end within the band of 90 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from weft.arguments import number, whole
from weft.errors import InvalidInput, Unsupported
from weft.learn.durations.spread import GUESS, Spread
from weft.model import Problem, Trace
from weft.model.columns import FloatArray, IntArray, as_floats
from weft.model.explain.quantities import format_seconds
from weft.model.problem import ProblemArrays
from weft.planners import Plan
from weft.rng import generator
from weft.sim.kernel.jit import njit
from weft.sim.kernel.tables import replay_order
from weft.typed import typed, typed_class

SAMPLES, LEAST_SAMPLES = 400, 20
CELLS = 1_000_000
"""Most tasks x samples; large workflows get fewer samples."""
FEWEST = 19
"""Least number of past runs that correct the bands, as a band of 90 % needs that many."""
THINNEST = 1e-6
"""Least predicted width, as a share."""


@typed_class
class RunState(NamedTuple):
    """State of a run: rows of (task, device), in the order of every device.

    Attributes
    ----------
    now : seconds since the run began
    task, device : (x,) finished executions first, then running ones, then the plan of the rest
    start : (x,) when it began; NaN: it has not
    finish : (x,) when it ended; NaN: it has not
    """

    now: float
    task: IntArray
    device: IntArray
    start: FloatArray
    finish: FloatArray

    @classmethod
    @typed
    def before(cls, plan: Plan) -> RunState:
        """Return the state before the first task."""
        s = plan.schedule
        s.refuse_other_problem(plan.problem)
        order = replay_order(plan.problem, s)
        unknown = np.full(len(s), np.nan)
        return cls(0.0, s.task[order], s.device[order], unknown, unknown.copy())

    @classmethod
    @typed
    def during(cls, plan: Plan, trace: Trace, now: float) -> RunState:
        """Return the state of a run that follows a plan, from its trace until `now`."""
        now = number(now, "now")
        if trace.workload.jobs != 1 or trace.workload.problems[0].n != plan.problem.n:
            raise InvalidInput(
                f"the trace '{trace.workload.name}' is of {trace.workload.jobs} jobs with "
                f"{trace.workload.instances} tasks; give that of one run of '{plan.problem.name}', "
                f"which has {plan.problem.n} tasks"
            )
        rows = np.flatnonzero((trace.start <= now) & (trace.status == 0))
        rows = rows[np.lexsort((trace.start[rows], trace.finish[rows] > now))]
        begun = set(zip(trace.task[rows].tolist(), trace.device[rows].tolist(), strict=True))
        whole = cls.before(plan)
        pairs = zip(whole.task.tolist(), whole.device.tolist(), strict=True)
        rest = np.array([r for r, pair in enumerate(pairs) if pair not in begun], np.int64)
        finish = np.where(trace.finish[rows] <= now, trace.finish[rows], np.nan)
        return cls(
            now,
            np.concatenate([trace.task[rows], whole.task[rest]]),
            np.concatenate([trace.device[rows], whole.device[rest]]),
            np.concatenate([trace.start[rows], whole.start[rest]]),
            np.concatenate([finish, whole.finish[rest]]),
        )

    def refuse_other_problem(self, problem: Problem) -> None:
        """Refuse a problem that does not have the tasks and devices of the rows."""
        for noun, column, size in (
            ("task", self.task, problem.n),
            ("device", self.device, problem.p),
        ):
            if len(column) and not 0 <= column.min() <= column.max() < size:
                raise InvalidInput(
                    f"the state of the run has {noun} {column.max()}, but '{problem.name}' has "
                    f"{size} {noun}s; give the state of a run of this plan"
                )


@dataclass(frozen=True)
class Forecast:
    """When a run will end, in seconds since it began.

    Attributes
    ----------
    median : the run ends later in half of the cases
    half, most : bands that hold the end in 50 and in 90 % of the cases
    basis : "guessed" (nothing was measured), "measured", or "calibrated" by past forecasts
    """

    now: float
    median: float
    half: tuple[float, float]
    most: tuple[float, float]
    basis: str
    centre: float = field(repr=False)
    width: float = field(repr=False)

    @property
    def sentence(self) -> str:
        """The forecast in plain English."""
        (a, b), (c, d) = self.half, self.most
        return (
            f"ends after about {format_seconds(self.median)}; half of such runs end between "
            f"{format_seconds(a)} and {format_seconds(b)}, 90 % between {format_seconds(c)} and "
            f"{format_seconds(d)} ({self.basis})"
        )

    def __str__(self) -> str:
        return self.sentence

    def score(self, end: float) -> float:
        """Return the raw forecast's error in predicted widths, to calibrate later ones."""
        return float((np.log(max(end - self.now, 1e-12)) - self.centre) / self.width)

    def as_dict(self) -> dict[str, Any]:
        """Return the forecast as plain data."""
        keys = ("now", "median", "half", "most", "basis")
        return {key: getattr(self, key) for key in keys}


def forecast_end(
    problem: Problem,
    state: RunState,
    spread: Spread,
    *,
    scores: Sequence[float] = (),
    samples: int = SAMPLES,
    seed: int = 0,
) -> Forecast:
    """Forecast the end of a run from its state.

    Parameters
    ----------
    spread : how durations scatter around the problem's estimates
    scores : `Forecast.score` of past runs; 19 or more correct the bands
    """
    if reason := not_modelled(problem):
        raise Unsupported(f"a forecast does not model '{problem.name}': it has {reason}")
    state.refuse_other_problem(problem)
    samples = whole(samples, "samples", least=LEAST_SAMPLES)
    samples = max(LEAST_SAMPLES, min(samples, CELLS // max(len(state.task), 1)))
    past = np.sort(as_floats(scores, "scores"))
    if not np.isfinite(past).all():
        raise InvalidInput("scores has a number that is not finite; give those of Forecast.score")
    seconds = _draw(problem, state, spread, samples, seed)
    rest = np.maximum(run_ends(problem, state, seconds) - state.now, 1e-12)
    return _banded(state.now, np.log(rest), spread, past)


def not_modelled(problem: Problem) -> str:
    """Return the feature of a problem that forecasts do not model; "": none."""
    features = {
        "choices: the tasks that will run are not known": problem.workflow.conditional,
        "capacities of nodes that tasks wait for": problem.contended,
        "set-ups of devices": problem.cluster.has_setup,
        "a network, whose links transfers share": problem.cluster.network is not None,
    }
    return next((words for words, has in features.items() if has), "")


def run_ends(problem: Problem, state: RunState, seconds: FloatArray) -> FloatArray:
    """Return when the run ends for each column of the (rows, samples) durations."""
    order = np.argsort(state.task, kind="stable").astype(np.int64)
    first = np.searchsorted(state.task[order], np.arange(problem.n + 1)).astype(np.int64)
    layout = RunState(
        float(state.now),
        np.ascontiguousarray(state.task),
        np.ascontiguousarray(state.device),
        np.ascontiguousarray(state.start),
        np.ascontiguousarray(state.finish),
    )
    return _follow(problem.arrays, layout, np.ascontiguousarray(seconds), first, order)


def _draw(problem: Problem, state: RunState, spread: Spread, samples: int, seed: int) -> FloatArray:
    """Draw (rows, samples) seconds; a running task takes longer than it has run."""
    rng = generator(seed, "forecast")
    w = problem.workflow
    per_work = problem.per_work[problem.row[state.task], state.device]
    estimate = problem.work[state.task] * per_work
    done = np.isfinite(state.finish)
    log_ratio = np.full(len(done), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratio[done] = np.log((state.finish - state.start)[done] / estimate[done])
    shift = _shifts(w.kinds, w.kind[state.task], log_ratio, spread, rng.standard_normal, samples)
    seconds = np.zeros((len(done), samples))
    running = ~done & np.isfinite(state.start)
    for k, name in enumerate(w.kinds):
        pool, mine = spread.pool(name), ~done & (w.kind[state.task] == k)
        waits, runs = np.flatnonzero(mine & ~running), np.flatnonzero(mine & running)
        drawn = pool[rng.integers(0, len(pool), (len(waits), samples))]
        seconds[waits] = estimate[waits, None] * np.exp(shift[k] + drawn)
        elapsed = (state.now - state.start[runs])[:, None]
        fixed = estimate[runs, None] * np.exp(shift[k])
        seconds[runs] = _longer(fixed, elapsed, pool, float(np.hypot(pool.std(), spread.run)), rng)
    return seconds


def _longer(
    fixed: FloatArray, elapsed: FloatArray, pool: FloatArray, usual: float, rng: np.random.Generator
) -> FloatArray:
    """Draw durations from the part of the distribution beyond the elapsed seconds."""
    with np.errstate(divide="ignore"):
        passed = np.log(elapsed / np.maximum(fixed, 1e-300))
    below = np.searchsorted(pool, passed) / len(pool)
    at = below + (1.0 - below) * rng.random(fixed.shape)
    place = np.minimum((at * len(pool)).astype(np.int64), len(pool) - 1)
    drawn = fixed * np.exp(pool[place])
    # Longer than every measured one: exceed the elapsed time by the spread of the measured ones.
    late = elapsed * np.exp(usual * np.abs(rng.standard_normal(fixed.shape)))
    return np.asarray(np.where(drawn > elapsed, drawn, late))


def _shifts(
    names: tuple[str, ...],
    kind: IntArray,
    log_ratio: FloatArray,
    spread: Spread,
    normal: Any,
    samples: int,
) -> FloatArray:
    """Draw (kinds, samples) common errors of the estimates, given the ended tasks.

    Normal posteriors, first of the run's effect, then of each kind's error.
    """
    noise = max(float(np.var(spread.pool(""))), 1e-12)
    centre = np.array([spread.centre.get(name, 0.0) for name in names])
    doubt = np.array([spread.doubt.get(name, GUESS) for name in names]) ** 2 + 1e-12
    known = np.isfinite(log_ratio)
    left = log_ratio[known] - centre[kind[known]]
    weight = 1.0 / (noise + doubt[kind[known]])
    precision = 1.0 / max(spread.run, 1e-6) ** 2 + weight.sum()
    effect = float((weight * left).sum() / precision) + normal(samples) / np.sqrt(precision)
    count = np.bincount(kind[known], minlength=len(names))
    total = np.bincount(kind[known], left, len(names))[:, None] - count[:, None] * effect
    sure = 1.0 / doubt + count / noise
    own = (total / noise) / sure[:, None] + normal((len(names), samples)) / np.sqrt(sure)[:, None]
    return np.asarray(centre[:, None] + own + effect)


def _banded(now: float, logs: FloatArray, spread: Spread, scores: FloatArray) -> Forecast:
    """Return the bands of drawn log(seconds left), corrected by past scores, if any."""
    low, centre, high = np.quantile(logs, (0.05, 0.5, 0.95))
    width = max(float(high - low) / 2, THINNEST)
    if len(scores) >= FEWEST:
        cuts = centre + width * np.array([_rank(scores, q) for q in (0.05, 0.25, 0.5, 0.75, 0.95)])
        basis = "calibrated"
    else:
        cuts = np.quantile(logs, (0.05, 0.25, 0.5, 0.75, 0.95))
        basis = "measured" if spread.runs else "guessed"
    a, b, c, d, e = (now + np.exp(cuts)).tolist()
    return Forecast(now, c, (b, d), (a, e), basis, float(centre), width)


def _rank(scores: FloatArray, share: float) -> float:
    """Return the conformal quantile, rounded outwards; the next run counts, too."""
    n = len(scores)
    at = np.ceil((n + 1) * share) if share > 0.5 else np.floor((n + 1) * share)
    return float(np.median(scores) if share == 0.5 else scores[int(np.clip(at, 1, n)) - 1])


@njit
def _follow(
    a: ProblemArrays, state: RunState, seconds: FloatArray, first: IntArray, rows: IntArray
) -> FloatArray:
    """Follow the rows in order; rows[first[t]:first[t + 1]] are those of task t."""
    free, finish = np.empty(len(a.latency)), np.empty(len(state.task))
    ends = np.empty(seconds.shape[1])
    for k in range(seconds.shape[1]):
        free[:] = state.now
        last = state.now
        for r in range(len(state.task)):
            if not np.isnan(state.finish[r]):
                finish[r] = state.finish[r]
                continue
            d, start = state.device[r], state.start[r]
            if np.isnan(start):
                start = max(free[d], _arrival(a, state, finish, r, first, rows))
            finish[r] = start + seconds[r, k]
            free[d] = max(free[d], finish[r])
            last = max(last, finish[r])
        ends[k] = last
    return ends


@njit
def _arrival(
    a: ProblemArrays, state: RunState, finish: FloatArray, row: int, first: IntArray, rows: IntArray
) -> float:
    """Return when all inputs of a row are on its device, each from the nearest copy."""
    task, device, latest = state.task[row], state.device[row], state.now
    for e in range(a.pred_ptr[task], a.pred_ptr[task + 1]):
        soonest = np.inf
        for x in range(first[a.pred[e]], first[a.pred[e] + 1]):
            source = state.device[rows[x]]
            move = a.latency[source, device] + a.pred_data[e] * a.per_byte[source, device]
            if rows[x] < row:
                soonest = min(soonest, finish[rows[x]] + move)
        if soonest < np.inf:  # a lost parent is not in the plan
            latest = max(latest, soonest)
    return latest
