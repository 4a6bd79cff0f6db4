"""Policies that plan all uncommitted tasks at every event: HEFT and relatives."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput
from weft.model import Workload
from weft.model.columns import IntArray
from weft.policies.policy import POLICIES
from weft.policies.q_network import QNetwork
from weft.policies.replanning.portfolio import (
    MOVES,
    WINDOW,
    PlanOptions,
    Portfolio,
    make_portfolio,
    replan,
    run_by_portfolio,
)
from weft.policies.replanning.state import PAIR
from weft.policies.replanning.switch import switch_network
from weft.policies.replanning.weights import WEIGHTS, WeightSets, weights_of, without_job_keys
from weft.sim.kernel.sim_from_view import SimFromView, refuse_choices
from weft.sim.kernel.tables import READY, Sim, refuse_copies
from weft.sim.renumbering import Renumbering
from weft.sim.view import Decision, View
from weft.typed import typed_class

_PLACED = ("start", "finish", "device")
_FOLLOWED = ("followed", "tried", "arrived", "keep")
"""Fields of the plans and of the portfolio that a saved session has."""


@typed_class
class ReplanningPolicy:
    """Plan all tasks in the window at every event, and start those due now.

    Parameters
    ----------
    name : name of the policy
    weights : see `weft.policies.replanning.weights`; without any, the policy is HEFT, planned again
        at every event. Of several sets, the policy follows the one whose plan predicts the earliest
        completion of the jobs present, see `weft.policies.replanning.portfolio`.
    options : of the plans. With the objective "makespan" jobs have no keys, and tasks go by rank
        alone.

    Examples
    --------
    >>> from weft.model import Problem
    >>> from weft.policies import simulate
    >>> problem = Problem.from_arrays([[4.0, 4.0], [9.0, 2.0]], [[0, 1]], [10.0], bandwidth=1.0)
    >>> sets = ({}, {"ahead": 1.0}, [{}, {"ahead": 1.0}])
    >>> [simulate(problem, ReplanningPolicy("mine", weights)).makespan for weights in sets]
    [13.0, 6.0, 6.0]
    """

    copies = False

    def __init__(self, name: str, weights: WeightSets, options: PlanOptions | None = None) -> None:
        given = [weights] if isinstance(weights, Mapping) else weights
        if not given:
            raise InvalidInput(f"policy '{name}' has no weights; give at least one set")
        self.name, self.options = name, options or PlanOptions()
        self.sets = tuple(weights_of(each) for each in given)
        self.switch_network: QNetwork | None = None
        self.shrinkage_network: QNetwork | None = None
        self.margin = 0.0

    def with_objective(self, objective: str) -> Self:
        """Return the same policy with another objective."""
        other = copy(self)
        other.options = replace(self.options, objective=objective)
        return other

    def with_weight(self, name: str, value: float) -> Self:
        """Return the same policy with one weight changed in all its sets."""
        other, place = copy(self), WEIGHTS.index(name)
        other.sets = tuple(weights.copy() for weights in self.sets)
        for weights in other.sets:
            weights[place] = value
        return other

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Start a run without a plan; refuse choices, and copies on a network."""
        refuse_choices(workload, self.name)
        if workload.cluster.network is not None:
            refuse_copies(copies=self.copies)
        self._workload = workload
        self._tables: SimFromView | None = None
        self._portfolio: Portfolio | None = None
        self._next: list[Decision] = []
        self._moment: object = None

    def state(self) -> dict[str, Any]:
        """Return the plans, the observed durations, and the committed tasks."""
        if self._tables is None or self._portfolio is None:
            return {}
        return {"tables": self._tables.state(), "plans": _portfolio_state(self._portfolio)}

    def resume(self, state: dict[str, Any], numbers: Renumbering) -> None:
        """Go on from a state, after `begin`."""
        if state:
            tables = SimFromView(self._workload, copies=self.copies)
            portfolio = self.portfolio(tables.sim)
            tables.resume(state["tables"], numbers)
            _resume_portfolio(portfolio, state["plans"], numbers, state["tables"]["recorded"])
            self._tables, self._portfolio = tables, portfolio

    def live(self, sim: Sim) -> int:
        """Make all decisions of a simulation in compiled code."""
        return self.live_by(sim, self.portfolio(sim))

    def live_by(self, sim: Sim, portfolio: Portfolio) -> int:
        """Make all decisions of a simulation by a given portfolio."""
        return run_by_portfolio(sim, portfolio)

    def portfolio(self, sim: Sim) -> Portfolio:
        """Allocate the plans of a simulation and rank its tasks."""
        sets = self.sets
        if self.options.objective == "makespan":
            sets = tuple(without_job_keys(weights) for weights in sets)
        return make_portfolio(
            self._workload,
            sim,
            sets,
            self.options,
            switch=self.switch_network,
            margin=self.margin,
            shrinkage=self.shrinkage_network,
        )

    def decide(self, view: View) -> Decision | None:
        """Plan once per moment with an idle device, then return the decisions one by one."""
        if not view.idle.any():
            return None
        if self._tables is None or self._portfolio is None:
            self._tables = SimFromView(self._workload, eager=view.eager, copies=self.copies)
            self._portfolio = self.portfolio(self._tables.sim)
        tables = self._tables
        moment = tables.moment(view)
        if self._moment != moment:
            tables.update(view)
            # The members of new batches count as committed from now on.
            self._moment = tables.moment(view) if tables.batches else moment
            device = self._portfolio.stack.device
            device["free"], device["busy"], device["began"] = (
                view.free_at,
                tables.busy,
                tables.began,
            )
            self._next = self._choose(tables.sim, self._portfolio, view)
        if tables.batches:
            ready = set(view.ready.tolist())
            self._next = [decision for decision in self._next if decision.instance in ready]
        if not self._next:
            return None
        decision = self._next.pop(0)
        tables.commit(decision)
        return decision

    def _choose(self, sim: Sim, portfolio: Portfolio, view: View) -> list[Decision]:
        """Return decisions for the tasks that the plan starts now and that can start."""
        first = portfolio.stack.device["first"][replan(sim, portfolio)].tolist()
        status = sim.inst["status"]
        return [
            Decision(i, d)
            for d, i in enumerate(first)
            if i >= 0 and view.idle[d] and status[i] == READY
        ]


@typed_class
class SwitchPolicy(ReplanningPolicy):
    """Plan as `ReplanningPolicy`, or keep an incumbent: a Q-network decides.

    Parameters
    ----------
    arrays : of the network, see `weft.policies.replanning.switch`
    weights, options : of the plans, see `ReplanningPolicy`; without moves in the options, `MOVES`
    margin : by how much the value of keeping must exceed that of planning again, in tenths of the
        logarithm of the time that jobs still spend in the system
    """

    def __init__(
        self,
        name: str,
        arrays: Mapping[str, NDArray[Any]],
        weights: WeightSets,
        options: PlanOptions | None = None,
        *,
        margin: float = 0.0,
    ) -> None:
        super().__init__(name, weights, options)
        if max(self.options.moves) == 0:
            self.options = replace(self.options, moves=MOVES)
        self.switch_network, self.margin = switch_network(arrays), margin


def _portfolio_state(portfolio: Portfolio) -> dict[str, Any]:
    """Return the plans and observations of a portfolio."""
    stack, state = portfolio.stack, portfolio.state[0]
    return {
        "placed": {key: stack.inst[key].copy() for key in _PLACED},
        "group": stack.job["group"].copy(),
        "pair": {key: stack.pair[key].copy() for key in PAIR.names or ()},
        "sequence": stack.sequence.copy(),
        "prior": stack.prior.view(np.float64).copy(),
        **{key: stack.state[key].copy() for key in ("random", "planned", "executions")},
        **{key: int(state[key]) for key in _FOLLOWED},
    }


def _resume_portfolio(
    portfolio: Portfolio, state: dict[str, Any], numbers: Renumbering, recorded: IntArray
) -> None:
    """Go on from the state of a portfolio.

    `recorded` are the instances of its executions.
    """
    stack = portfolio.stack
    stay = np.flatnonzero(numbers.instances >= 0)
    for key in _PLACED:
        stack.inst[key][:, : len(stay)] = state["placed"][key][:, stay]
    stack.job["group"][:, : len(numbers.jobs)] = state["group"][:, numbers.jobs]
    for key, old in state["pair"].items():
        stack.pair[key][:, : old.shape[1]] = old
    for m, row in enumerate(state["sequence"]):
        kept = numbers.of(row[: state["planned"][m, 0]])
        stack.sequence[m, : len(kept)], stack.state["planned"][m] = kept, len(kept)
        seen = [i for i in recorded[: state["executions"][m, 0]] if i >= 0]  # without copies
        observed = numbers.of(seen)
        stack.state["executions"][m] = len(observed)
    stack.state["random"], stack.prior.view(np.float64)[:] = state["random"], state["prior"]
    for key in _FOLLOWED:
        portfolio.state[key] = state[key]
    portfolio.state["arrived"] -= numbers.gone.sum()


@POLICIES.register("heft-replanned", family="replanning")
def heft_replanned() -> ReplanningPolicy:
    """HEFT planned again at every event, at the present speed of each device."""
    return ReplanningPolicy("heft-replanned", {})


@POLICIES.register("heft-observed", family="replanning")
def heft_observed() -> ReplanningPolicy:
    """HEFT planned again at every event, corrected by observed durations."""
    return ReplanningPolicy("heft-observed", {"trust": 1.0})


@POLICIES.register("heft-affinity", family="replanning")
def heft_affinity() -> ReplanningPolicy:
    """HEFT planned at every event, with or without each job on one node or device.

    While more tasks wait than fit in the window, jobs have no groups: plain HEFT.
    """
    return ReplanningPolicy("heft-affinity", {}, PlanOptions(window=WINDOW, affinity=True))


@POLICIES.register("heft-arrival", family="replanning")
def heft_arrival() -> ReplanningPolicy:
    """HEFT planned again at every event, job by job in order of arrival."""
    return ReplanningPolicy("heft-arrival", {"age": 1e6})


@POLICIES.register("srpt-affinity", family="replanning")
def srpt_affinity() -> ReplanningPolicy:
    """The job with the shortest remaining work first, grouped as `heft-affinity`."""
    options = PlanOptions(window=WINDOW, affinity=True)
    return ReplanningPolicy("srpt-affinity", {"work": 1.0, "rank": 1e-3}, options)


@POLICIES.register("srpt-replanned", family="replanning")
def srpt_replanned() -> ReplanningPolicy:
    """The job with the shortest remaining work first, planned at every event."""
    return ReplanningPolicy("srpt-replanned", {"work": 1.0, "rank": 1e-3})
