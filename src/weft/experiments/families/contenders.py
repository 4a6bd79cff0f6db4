"""Contenders on families of real workflows: rules, trained policies, and search with its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weft.policies.load import load_policy
from weft.policies.replanning.policy import ReplanningPolicy
from weft.policies.search.table import PRICE, make_search_policy
from weft.sim.view import Policy

HAND_MADE, TRAINED, SEARCH, PART = "hand-made", "trained", "search", "part"
BASELINE = "heft-observed"
"""HEFT planned again at every event, with the same information: present speeds and observed
durations."""
REFERENCE = "replan-switch"
"""The policy that streams are compared with."""
CHOSEN = "search-replanning"
"""The policy that is judged."""


@dataclass(frozen=True)
class FamilyContender:
    """A policy, what it is, and where it takes part."""

    name: str
    kind: str
    about: str
    make: Callable[[], Policy] | None = None
    alone: bool = True
    stream: bool = True

    def policy(self) -> Policy:
        """Make the policy; trained ones for the completion of jobs, as they are."""
        return self.make() if self.make is not None else load_policy(self.name)


def _prices_alone() -> Policy:
    policy = load_policy("portfolio")
    assert isinstance(policy, ReplanningPolicy)
    return policy.with_weight("price", PRICE)


CONTENDERS = (
    FamilyContender(BASELINE, HAND_MADE, "HEFT planned again, with observed durations"),
    FamilyContender("heft-replanned", HAND_MADE, "HEFT planned again, estimates", stream=False),
    FamilyContender("heft-affinity", HAND_MADE, "HEFT, or each job on one node", stream=False),
    FamilyContender("fifo-deft-online", HAND_MADE, "oldest job first, with copies of parents"),
    FamilyContender("rank-eft", HAND_MADE, "highest rank first, earliest finish", stream=False),
    FamilyContender("heft-arrival", HAND_MADE, "HEFT, jobs in order of arrival", alone=False),
    FamilyContender("srpt-replanned", HAND_MADE, "shortest remaining work first", alone=False),
    FamilyContender("srpt-affinity", HAND_MADE, "the same, or each on one node", alone=False),
    FamilyContender("tuned-list", TRAINED, "planned again, tuned weights", alone=False),
    FamilyContender("portfolio", TRAINED, "the best of several tuned plans"),
    FamilyContender(REFERENCE, TRAINED, "a network switches between keeping and planning again"),
    FamilyContender("decima", TRAINED, "a graph network picks tasks, DEFT devices", stream=False),
    FamilyContender("lachesis", TRAINED, "the same, and sees how devices differ"),
    FamilyContender(CHOSEN, SEARCH, "search, copies and prices together"),
    FamilyContender(
        "search alone",
        PART,
        "no copies, no prices",
        lambda: make_search_policy("search alone", copies=False, price=0.0),
    ),
    FamilyContender(
        "copies alone",
        PART,
        "the same plans without search, with copies",
        lambda: make_search_policy("copies alone", work=0.0, first_work=0.0, price=0.0),
    ),
    FamilyContender(
        "prices alone", PART, "`portfolio` with prices of devices", _prices_alone, alone=False
    ),
    FamilyContender(
        "search and copies",
        PART,
        "without prices",
        lambda: make_search_policy("search and copies", price=0.0),
        alone=False,
    ),
    FamilyContender(
        "in 4 futures",
        PART,
        "plans judged in the expected and three sampled futures",
        lambda: make_search_policy("in 4 futures", futures=4),
        stream=False,
    ),
)


def entrants(*, stream: bool, parts: bool = True) -> list[FamilyContender]:
    """Return the contenders of a condition, with or without parts of the search policy."""
    here = [c for c in CONTENDERS if (c.stream if stream else c.alone)]
    return [c for c in here if parts or c.kind != PART]
