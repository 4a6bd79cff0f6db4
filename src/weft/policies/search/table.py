"""The registered search policy, and its parts."""

from __future__ import annotations

from weft.policies.policy import POLICIES, bundled_policy
from weft.policies.replanning.policy import ReplanningPolicy
from weft.policies.replanning.portfolio import WINDOW, PlanOptions
from weft.policies.replanning.weights import WEIGHTS
from weft.policies.search.policy import SearchOptions, SearchPolicy

PRICE = 0.5
"""Weight of the prices of devices while several jobs are present."""
HEFT = {"trust": 1.0, "overdue": 0.3}
"""HEFT with observed durations, beside the tuned weights of `portfolio`."""


def make_search_policy(
    name: str,
    *,
    price: float = PRICE,
    work: float = 8_000.0,
    first_work: float = 200_000.0,
    futures: int = 1,
    copies: bool = True,
) -> SearchPolicy:
    """Make a search policy that starts from the plans of `portfolio` and from HEFT."""
    portfolio = bundled_policy("portfolio")
    assert isinstance(portfolio, ReplanningPolicy)
    sets = [dict(zip(WEIGHTS, weights.tolist(), strict=True)) for weights in portfolio.sets]
    return SearchPolicy(
        name,
        [{**given, "price": price} for given in (*sets, HEFT)],
        PlanOptions(window=WINDOW, affinity=True, early_exit=False),
        SearchOptions(work=work, first_work=first_work, futures=futures, copies=copies),
    )


@POLICIES.register("search-replanning", family="search")
def search_replanning() -> SearchPolicy:
    """Search from the best of several plans at every event, with copies and device prices."""
    return make_search_policy("search-replanning")
