"""The registered search policy, and its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import partial
from typing import Any

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.formats.model_file import Model, Numbers
from weft.formats.parsing.record import Record
from weft.policies.policy import POLICIES, bundled_policy, register_kind
from weft.policies.replanning.policy import ReplanningPolicy
from weft.policies.replanning.portfolio import WINDOW, PlanOptions
from weft.policies.replanning.shrinkage import shrinkage_network
from weft.policies.replanning.weights import WEIGHTS
from weft.policies.search.options import SearchOptions
from weft.policies.search.policy import SearchPolicy

SEARCH = "search"
PRICE = 0.5
"""Weight of the prices of devices while several jobs are present."""
HEFT = {"trust": 1.0, "overdue": 0.3}
"""HEFT with observed durations, beside the tuned weights of `portfolio`."""
PLANS = PlanOptions(window=WINDOW, affinity=True, early_exit=False)


def make_search_policy(
    name: str,
    *,
    price: float = PRICE,
    plans: PlanOptions = PLANS,
    shrinkage: Mapping[str, Numbers] | None = None,
    **search: Any,
) -> SearchPolicy:
    """Make a search policy that starts from the plans of `portfolio` and from HEFT.

    `shrinkage` holds the arrays of the network that decides how far observed durations are
    trusted; `search` are options of the search.
    """
    portfolio = bundled_policy("portfolio")
    assert isinstance(portfolio, ReplanningPolicy)
    sets = [dict(zip(WEIGHTS, weights.tolist(), strict=True)) for weights in portfolio.sets]
    policy = SearchPolicy(
        name, [{**given, "price": price} for given in (*sets, HEFT)], plans, SearchOptions(**search)
    )
    if shrinkage is not None:
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
    settings, own = asdict(SearchOptions(**search)), training or {}
    return Model(
        name=name, kind=SEARCH, about=about, settings=settings, arrays=arrays, training=own
    )


@register_kind(SEARCH)
def search_of(model: Model) -> SearchPolicy:
    """Build a search policy from its model."""
    settings = Record(dict(model.settings))
    settings.only([option.name for option in fields(SearchOptions)])
    options: dict[str, Any] = {}
    for option in fields(SearchOptions):
        if option.name not in settings:
            continue
        value, wanted = settings.raw(option.name), type(option.default)
        if type(value) is not wanted and not (wanted is float and type(value) is int):
            raise InvalidInput(
                f"{option.name} is {shown(value)}; it must be like {shown(option.default)}"
            )
        options[option.name] = value
    return make_search_policy(model.name, shrinkage=model.arrays, **options)


POLICIES.register(
    "search-replanning",
    family="search",
    summary="Search from the best of several plans at every event, with copies and prices.",
)(partial(bundled_policy, "search-replanning"))
