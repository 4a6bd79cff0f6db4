"""Policies that search for a better plan at every event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import partial
from typing import Any

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.formats.model_file import Model
from weft.formats.parsing.record import Record
from weft.model import Workload
from weft.model.columns import Numbers
from weft.policies.graph.deft import useful_copy
from weft.policies.policy import POLICIES, bundled_policy, register_kind
from weft.policies.replanning.policy import ReplanningPolicy
from weft.policies.replanning.portfolio import WINDOW, PlanOptions, Portfolio, replan
from weft.policies.replanning.shrinkage import shrinkage_network
from weft.policies.replanning.weights import WEIGHTS, WeightSets
from weft.policies.search.planning import (
    IncumbentSearch,
    SearchOptions,
    make_search,
    resume_search,
    run_by_search,
    search_from,
    search_state,
)
from weft.sim.kernel.tables import READY, Sim
from weft.sim.renumbering import Renumbering
from weft.sim.view import Decision, View
from weft.typed import typed_class

SEARCH = "search"
PRICE = 0.5
"""Weight of the prices of devices while several jobs are present."""
HEFT = {"trust": 1.0, "overdue": 0.3}
"""HEFT with observed durations, beside the tuned weights of `portfolio`."""
PLANS = PlanOptions(window=WINDOW, affinity=True, early_exit=False)
KEYS = {"temperature": "warmth", "finish_weight": "haste", "sampled_jobs": "imagined"}
"""Keys in the files of models, of the options that have another name there."""


@typed_class
class SearchPolicy(ReplanningPolicy):
    """Plans of `ReplanningPolicy`, improved by a search.

    The search starts from the plan or the incumbent, whichever is better.

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
        """Return the plans, the incumbent, observed durations, and committed tasks."""
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
        search_from(sim, portfolio, self._search, replan(sim, portfolio))
        status, found = sim.inst["status"], []
        for d, i in enumerate(self._search.first.tolist()):
            if i >= 0 and view.idle[d] and status[i] == READY:
                copy = int(useful_copy(sim, i, d)) if self.copies else -1
                found.append(Decision(i, d, copy))
        return found


def make_search_policy(
    name: str, *, price: float = PRICE, shrinkage: Mapping[str, Numbers], **search: Any
) -> SearchPolicy:
    """Make a search policy that starts from the plans of `portfolio` and from HEFT.

    `shrinkage` holds the arrays of the network that decides how far observed durations are
    trusted; `search` are options of the search.
    """
    portfolio = bundled_policy("portfolio")
    assert isinstance(portfolio, ReplanningPolicy)
    sets = [dict(zip(WEIGHTS, weights.tolist(), strict=True)) for weights in portfolio.sets]
    weights = [{**given, "price": price} for given in (*sets, HEFT)]
    policy = SearchPolicy(name, weights, PLANS, SearchOptions(**search))
    policy.shrinkage_network = shrinkage_network(shrinkage)
    return policy


def search_model(
    name: str,
    about: str,
    arrays: Mapping[str, Numbers],
    *,
    training: Mapping[str, Any] | None = None,
    **search: Any,
) -> Model:
    """Return a search policy with its network as a model to be written."""
    options, own = asdict(SearchOptions(**search)), training or {}
    settings = {KEYS.get(name, name): value for name, value in options.items()}
    return Model(
        name=name, kind=SEARCH, about=about, settings=settings, arrays=arrays, training=own
    )


@register_kind(SEARCH)
def search_of(model: Model) -> SearchPolicy:
    """Build a search policy from its model."""
    return make_search_policy(model.name, shrinkage=model.arrays, **search_options_of(model))


def search_options_of(model: Model) -> dict[str, Any]:
    """Return the options of the search by their names here, checked."""
    settings = Record(dict(model.settings))
    known = {KEYS.get(option.name, option.name): option for option in fields(SearchOptions)}
    settings.only(list(known))
    options: dict[str, Any] = {}
    for key, option in known.items():
        if key not in settings:
            continue
        value, wanted = settings.raw(key), type(option.default)
        if type(value) is not wanted and not (wanted is float and type(value) is int):
            raise InvalidInput(f"{key} is {shown(value)}; it must be like {shown(option.default)}")
        options[option.name] = value
    return options


POLICIES.register(
    "search-replanning",
    family="search",
    summary="Search from the best of several plans at every event, with copies and prices.",
)(partial(bundled_policy, "search-replanning"))
