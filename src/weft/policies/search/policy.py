"""Policies that search for a better plan at every event."""

from __future__ import annotations

from typing import Any

from weft.model import Workload
from weft.policies.graph.deft import useful_copy
from weft.policies.replanning.policy import ReplanningPolicy
from weft.policies.replanning.portfolio import PlanOptions, Portfolio
from weft.policies.replanning.weights import WeightSets
from weft.policies.search.options import SearchOptions
from weft.policies.search.planning import (
    IncumbentSearch,
    choose_by_search,
    make_search,
    resume_search,
    run_by_search,
    search_state,
)
from weft.sim.kernel.tables import READY, Sim
from weft.sim.renumbering import Renumbering
from weft.sim.view import Decision, View


class SearchPolicy(ReplanningPolicy):
    """Plan as `ReplanningPolicy`; then search from the plan or the incumbent, whichever is better.

    Parameters
    ----------
    weights, options : of the plans, see `ReplanningPolicy`
    search : of the search

    Examples
    --------
    >>> from weft.generators import draw_instance
    >>> from weft.policies import simulate
    >>> case = draw_instance("static", seed=3, tasks=40)
    >>> heft = simulate(case.workload, "heft-replanned", scenario=case.scenario)
    >>> found = simulate(case.workload, SearchPolicy("mine", {}), scenario=case.scenario)
    >>> found.makespan < heft.makespan
    True
    """

    def __init__(
        self,
        name: str,
        weights: WeightSets,
        options: PlanOptions | None = None,
        search: SearchOptions | None = None,
    ) -> None:
        super().__init__(name, weights, options)
        self.search_options = search or SearchOptions()
        self.copies = self.search_options.copies

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Start a run without a plan; the seed is that of the random moves."""
        super().begin(workload, seed=seed)
        self._seed = seed
        self._search: IncumbentSearch | None = None

    def live(self, sim: Sim) -> int:
        """Make all decisions of a simulation in compiled code."""
        portfolio = self.portfolio(sim)
        return int(run_by_search(sim, portfolio, self._make_search(sim, portfolio)))

    def state(self) -> dict[str, Any]:
        """Return the plans, the incumbent, the observed durations, and the committed tasks."""
        own = {} if self._search is None else {"search": search_state(self._search)}
        return {**super().state(), **own}

    def resume(self, state: dict[str, Any], numbers: Renumbering) -> None:
        """Go on from a state, after `begin`."""
        super().resume(state, numbers)
        if "search" in state and self._tables is not None and self._portfolio is not None:
            self._search = self._make_search(self._tables.sim, self._portfolio)
            resume_search(self._search, state["search"], numbers)

    def _make_search(self, sim: Sim, portfolio: Portfolio) -> IncumbentSearch:
        window = int(portfolio.state["window"][0])
        return make_search(self._workload, sim, window, self.search_options, seed=self._seed)

    def _choose(self, sim: Sim, portfolio: Portfolio, view: View) -> list[Decision]:
        """Return decisions for the tasks that the plan starts now and that can start."""
        if self._search is None:
            self._search = self._make_search(sim, portfolio)
        choose_by_search(sim, portfolio, self._search)
        status, found = sim.inst["status"], []
        for d, i in enumerate(self._search.first.tolist()):
            if i >= 0 and view.idle[d] and status[i] == READY:
                copy = int(useful_copy(sim, i, d)) if self.copies else -1
                found.append(Decision(i, d, copy))
        return found
