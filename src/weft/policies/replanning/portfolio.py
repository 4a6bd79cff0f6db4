"""A portfolio of plans, by several weight sets, of which the best is followed.

No weight set is best for every workload, so several plans are made and the one with the best
predicted completion is followed. To save time, the followed plan meets one contender per event, in
turn, and all of them when a job has arrived. Predictions are compared only if all jobs are planned
to their end.

At each event plans are made again, or the incumbent is kept and improved (`incumbent`). A network
decides which of the two (`switch`); without one, plans are made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weft.errors import InvalidInput, UnknownName
from weft.model import Workload
from weft.model.columns import Float32Array, FloatArray
from weft.policies.q_network import QNetwork, empty_network
from weft.policies.replanning.affinity import divisions
from weft.policies.replanning.feedback import (
    collect_durations,
    expect_durations,
    learn_durations,
    observe_devices,
)
from weft.policies.replanning.incumbent import MOVE, adopt, refresh, time_tasks, try_move, undo_move
from weft.policies.replanning.placement import plan_window, predicted_finish
from weft.policies.replanning.shrinkage import FEATURES as SPREAD_FEATURES
from weft.policies.replanning.shrinkage import OUTPUTS, describe_spread, prior_of
from weft.policies.replanning.state import EARLY_EXIT_FACTOR, PRIOR, PlanState, make_plan, plan_at
from weft.policies.replanning.switch import (
    FEATURES,
    describe_options,
    prefers_incumbent,
    transfer_feature,
)
from weft.policies.replanning.weights import W
from weft.registry import closest
from weft.sim.kernel.commit import any_idle, commit, is_idle
from weft.sim.kernel.events import MOMENT, advance
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.records import record
from weft.sim.kernel.tables import JOB_AHEAD, JOB_HERE, READY, RecordTable, Sim
from weft.typed import typed_dataclass

UNLIMITED = 2**31
"""Window without a limit."""
WINDOW = 160
"""Window for streams of jobs: planning takes a fraction of the time of an unlimited window."""
REFERENCE_DEVICES = 16
"""Devices for which a window is given. On fewer devices the window is larger in proportion:
planning takes the same time, and tasks outside the window cost quality."""
OBJECTIVES = ("completion", "makespan")
"""Objectives of a plan: sum of the completion times of the jobs present, or the last of them."""
MOVES = (4, 100_000)
"""Moves of the incumbent per event; and tasks timed in moves of a new incumbent (about 8 ms)."""

PORTFOLIO_STATE = record(
    "margin moving",
    "followed tried arrived contenders window makespan keep moves first_moves early_exit",
)
# margin: by how much keeping must beat planning again; moving: a feature, see `switch`; followed:
# the plan in use; tried: the last contender; arrived: jobs so far; makespan: 1 if it is the
# objective; keep: 1 if the incumbent is kept; moves, first_moves: see `MOVES`
PREDICTION = record("completion makespan", "whole")
# seconds in the system, summed over the jobs present; seconds until all are done; 1 if all tasks
# are in the window


@typed_dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Options of a portfolio of plans.

    Parameters
    ----------
    window : most tasks planned on 16 devices; on fewer devices, more in proportion
    contenders : other weight sets that are tried per event
    objective : "completion" of jobs, on average, or the "makespan" of all
    affinity : whether to add plans, by the first weight set, in which every job stays on one node
        or on one device
    moves : moves of the incumbent per event, and tasks timed in moves of a new one; (0, 0): no plan
        is kept
    early_exit : whether a plan may stop once it is clear which tasks start now
    prior : the number of observations that the estimate of a duration weighs, and the number that
            the mean of a device kind weighs
    """

    window: int = UNLIMITED
    contenders: int = 1
    objective: str = "completion"
    affinity: bool = False
    moves: tuple[int, int] = (0, 0)
    early_exit: bool = True
    prior: tuple[float, float] = (PRIOR, PRIOR)

    def __post_init__(self) -> None:
        """Refuse an unknown objective and a negative number of contenders."""
        if self.objective not in OBJECTIVES:
            raise UnknownName(
                f"unknown objective '{self.objective}'{closest(self.objective, OBJECTIVES)}"
            )
        if self.contenders < 0:
            raise InvalidInput(f"contenders is {self.contenders}; it must be 0 or more")


class Portfolio(NamedTuple):
    """Plans by several weight sets, with the incumbent behind them."""

    stack: PlanState  # every array with an axis in front: the plans
    weights: FloatArray  # (plans without the incumbent, weights)
    state: RecordTable  # (1,)
    predicted: RecordTable  # (plans,)
    switch: QNetwork  # values of planning again and of keeping; without hidden units: none
    features: Float32Array  # (2, features) of planning again and of keeping
    move: RecordTable  # (1,) the last move, to undo it
    shrinkage: QNetwork  # priors of durations; without hidden units: as they are
    spread: Float32Array  # (features,) of the observed durations


def make_portfolio(
    workload: Workload,
    sim: Sim,
    sets: Sequence[FloatArray],
    options: PlanOptions | None = None,
    *,
    switch: QNetwork | None = None,
    margin: float = 0.0,
    shrinkage: QNetwork | None = None,
) -> Portfolio:
    """Allocate the plans of a simulation of this workload, one for each weight set."""
    options = options or PlanOptions()
    p = workload.cluster.p
    window = options.window * REFERENCE_DEVICES // min(p, REFERENCE_DEVICES)
    one = np.zeros(p, np.int64)
    given = [(weights, one) for weights in sets]
    if options.affinity:
        given += [(sets[0], group) for group in divisions(workload.cluster)]
    incumbent = [(sets[0], one)] if max(options.moves) > 0 else []
    plans = [make_plan(workload, sim, weights, window, g) for weights, g in given + incumbent]
    for plan in plans:
        plan.prior["estimate"], plan.prior["device_kind"] = options.prior
    stack = PlanState._make(np.stack(arrays) for arrays in zip(*plans, strict=True))
    state = np.zeros(1, PORTFOLIO_STATE)
    state["contenders"], state["window"] = options.contenders, window
    state["makespan"], state["early_exit"] = OBJECTIVES.index(options.objective), options.early_exit
    state["moves"], state["first_moves"] = options.moves
    mean = np.ascontiguousarray(plans[0].task["mean"])
    state["margin"], state["moving"] = margin, transfer_feature(workload, mean)
    return Portfolio(
        stack=stack,
        weights=np.stack([weights for weights, _ in given]),
        state=state,
        predicted=np.zeros(len(plans), PREDICTION),
        switch=switch or empty_network(1),
        features=np.zeros((2, len(FEATURES)), np.float32),
        move=np.zeros(1, MOVE),
        shrinkage=shrinkage or empty_network(OUTPUTS),
        spread=np.zeros(len(SPREAD_FEATURES), np.float32),
    )


def copy_portfolio(portfolio: Portfolio) -> Portfolio:
    """Copy a portfolio at its present state; weights and network are shared."""
    changing = ("state", "predicted", "features", "move", "spread")
    own = {name: getattr(portfolio, name).copy() for name in changing}
    return portfolio._replace(
        stack=PlanState._make(array.copy() for array in portfolio.stack), **own
    )


# -- which plan to follow ----------------------------------------------------------


@njit_noalloc
def observe(sim: Sim, portfolio: Portfolio) -> None:
    """Record the state of the devices in every plan."""
    for m in range(len(portfolio.predicted)):
        observe_devices(sim, plan_at(portfolio.stack, m))


@njit_noalloc
def replan(sim: Sim, portfolio: Portfolio) -> int:
    """Choose the plan to follow, and make it; return its number."""
    state, count = portfolio.state[0], len(portfolio.weights)
    arrived, left = 0, 0
    for j in range(len(sim.job) - 1):
        arrived += 1 if sim.job[j].state != JOB_AHEAD else 0
        left += sim.job[j].remaining if sim.job[j].state == JOB_HERE else 0
    if portfolio.shrinkage.b1.shape[1] > 0:
        _set_priors(sim, portfolio)
    new_job = arrived != state.arrived
    state.arrived = arrived
    tries = count - 1 if new_job else min(state.contenders, count - 1)
    too_many = state.makespan == 0 and left > state.window + len(sim.device)
    if len(portfolio.predicted) == 1 or too_many:
        return _plan_by_first(sim, portfolio)
    if portfolio.switch.b1.shape[1] > 0:
        describe(sim, portfolio)
        keep = prefers_incumbent(portfolio.switch, portfolio.features, state.margin)
        state.keep = 1 if keep else 0
    if state.keep == 1:
        return _improve_incumbent(sim, portfolio, new_job, tries)
    return _follow_best(sim, portfolio, tries)


@njit_noalloc
def describe(sim: Sim, portfolio: Portfolio) -> None:
    """Fill in the features of the switch."""
    incumbent, state = plan_at(portfolio.stack, len(portfolio.weights)), portfolio.state[0]
    learn_durations(sim, incumbent, portfolio.weights[0, W.trust])
    describe_options(sim, incumbent, state.moving, state.keep, portfolio.features)


@njit_noalloc
def _set_priors(sim: Sim, portfolio: Portfolio) -> None:
    """Set the priors of durations in every plan by the network, if anything is new."""
    first, trust = plan_at(portfolio.stack, 0), portfolio.weights[0, W.trust]
    if not collect_durations(sim, first):
        return
    describe_spread(sim, first, portfolio.spread)
    estimate = prior_of(portfolio.shrinkage, 0, portfolio.spread)
    device_kind = prior_of(portfolio.shrinkage, 1, portfolio.spread)
    for m in range(len(portfolio.predicted)):
        prior = portfolio.stack.prior[m, 0]
        prior.estimate, prior.device_kind = estimate, device_kind
    if trust != 0.0:
        expect_durations(sim, first, trust)


@njit_noalloc
def _plan_by_first(sim: Sim, portfolio: Portfolio) -> int:
    """Plan by the first weights alone, if predictions cannot be compared."""
    weights, state = portfolio.weights[0], portfolio.state[0]
    # A plan must be whole if the next one is compared with it (weight `moved`).
    early_exit = state.early_exit == 1 and weights[W.moved] == 0.0
    state.followed = 0
    window = state.window * (EARLY_EXIT_FACTOR if early_exit else 1)
    plan_window(sim, plan_at(portfolio.stack, 0), weights, window, early_exit)
    return 0


@njit_noalloc
def _follow_best(sim: Sim, portfolio: Portfolio, tries: int) -> int:
    """Plan by the followed weights and by contenders; follow the best from now on."""
    state = portfolio.state[0]
    own = state.followed
    best = _predict(sim, portfolio, own)
    if best == np.inf:  # some tasks are outside the window: the first weights are best on average
        state.followed = 0
        if own != 0:
            _predict(sim, portfolio, 0)
        return 0
    for _ in range(tries):
        other = _next_contender(portfolio)
        value = _predict(sim, portfolio, other)
        if value < best:
            state.followed, best = other, value
    return int(state.followed)


@njit_inline
def _next_contender(portfolio: Portfolio) -> int:
    state, count = portfolio.state[0], len(portfolio.weights)
    other = (state.tried + 1) % count
    if other == state.followed:
        other = (other + 1) % count
    state.tried = other
    return int(other)


@njit_noalloc
def _improve_incumbent(sim: Sim, portfolio: Portfolio, new_job: bool, tries: int) -> int:
    """Keep the incumbent and try moves, or adopt a new plan.

    A new plan is adopted if the incumbent is invalid or a contender is better.
    """
    state, count = portfolio.state[0], len(portfolio.weights)
    incumbent = plan_at(portfolio.stack, count)
    trust, overdue = portfolio.weights[0, W.trust], portfolio.weights[0, W.overdue]
    value = np.inf
    if not new_job and refresh(sim, incumbent, trust, overdue):
        value = _evaluate(sim, portfolio, count, True)
    fresh = value == np.inf
    m = _follow_best(sim, portfolio, tries) if fresh else _next_contender(portfolio)
    if fresh or _predict(sim, portfolio, m) < value:
        state.followed = m
        adopt(plan_at(portfolio.stack, m), incumbent)
        whole = portfolio.predicted[m].whole == 1
        if not whole or not refresh(sim, incumbent, trust, overdue):
            incumbent.state[0].planned = 0
            return m
        value = _evaluate(sim, portfolio, count, True)
    moves = state.first_moves // _timed_per_move(sim, incumbent) if fresh else state.moves
    stale = False
    for _ in range(moves):
        if not try_move(sim, incumbent, portfolio.move):
            continue
        stale = not time_tasks(sim, incumbent)
        found = np.inf if stale else _evaluate(sim, portfolio, count, True)
        stale = found > value
        if stale:
            undo_move(incumbent, portfolio.move)
        else:
            value = found
    if stale:
        time_tasks(sim, incumbent)
        _evaluate(sim, portfolio, count, True)
    return count


@njit_inline
def _timed_per_move(sim: Sim, incumbent: PlanState) -> int:
    """Return the tasks that one move times, plus the jobs beside the first."""
    return int(max(incumbent.state[0].planned + len(sim.job) - 2, 1))


@njit_noalloc
def _predict(sim: Sim, portfolio: Portfolio, m: int) -> float:
    """Make a plan; return its predicted objective, inf if the window is too small."""
    plan, state = plan_at(portfolio.stack, m), portfolio.state[0]
    whole = plan_window(sim, plan, portfolio.weights[m], state.window, False)
    if whole or state.makespan == 1:
        return _evaluate(sim, portfolio, m, whole)
    portfolio.predicted[m].whole = 0
    return np.inf


@njit_noalloc
def _evaluate(sim: Sim, portfolio: Portfolio, m: int, whole: bool) -> float:
    """Predict completion and makespan of the jobs present; return the objective."""
    plan, now, total, last = plan_at(portfolio.stack, m), sim.world[0].now, 0.0, 0.0
    for j in range(len(sim.job) - 1):
        if sim.job[j].state == JOB_HERE:
            seconds = predicted_finish(sim, plan, j) - now
            total, last = total + seconds, max(last, seconds)
    predicted = portfolio.predicted[m]
    predicted.completion, predicted.makespan = total, last
    predicted.whole = 1 if whole else 0
    return float(last if portfolio.state[0].makespan == 1 else total)


# -- simulations -------------------------------------------------------------------


@njit_noalloc
def commit_planned(sim: Sim, portfolio: Portfolio, m: int) -> None:
    """Commit the tasks that a plan starts now."""
    for d in range(len(sim.device)):
        i = portfolio.stack.device[m, d].first
        if i >= 0 and sim.inst[i].status == READY and is_idle(sim, d):
            commit(sim, i, d)


@njit_noalloc
def run_by_portfolio(sim: Sim, portfolio: Portfolio) -> int:
    """Simulate to the end by the plans that are followed; return ENDED or STUCK."""
    while True:
        answer = advance_to_decision(sim, portfolio)
        if answer != MOMENT:
            return answer
        commit_planned(sim, portfolio, replan(sim, portfolio))


@njit_noalloc
def advance_to_decision(sim: Sim, portfolio: Portfolio) -> int:
    """Advance to an event with a ready task and an idle device.

    Return what `advance` does.
    """
    while True:
        answer = advance(sim)
        if answer != MOMENT:
            return answer
        if sim.world[0].ready > 0 and any_idle(sim):
            observe(sim, portfolio)
            return answer
