"""Contenders on families of workflows: rules, trained policies, and search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from weft.experiments.families.rollouts import RolloutPolicy
from weft.formats.model_file import find_model, read_model
from weft.policies.load import load_policy
from weft.policies.replanning.policy import ReplanningPolicy
from weft.policies.replanning.shrinkage import constant_arrays
from weft.policies.search.policy import PRICE, make_search_policy, search_options_of
from weft.sim.view import Policy

HAND_MADE, TRAINED, SEARCH, PART = "hand-made", "trained", "search", "part"
BASELINE = "heft-observed"
"""HEFT planned again at every event, with the same information: present speeds and observed
durations."""
REFERENCE = "replan-switch"
"""The policy that streams are compared with."""
UNSWITCHED = "portfolio"
"""The same plans without the network that was distilled from rollouts."""
CHOSEN = "search-replanning"
"""The policy that is judged."""
CONSTANT = "constant priors"
"""The same policy with constants in place of its network."""


@dataclass(frozen=True)
class FamilyContender:
    """A policy, its kind, and the cases it takes part in.

    Parts of the search policy run on some cases, or `everywhere`.
    """

    name: str
    kind: str
    about: str
    make: Callable[[], Policy] | None = None
    alone: bool = True
    stream: bool = True
    everywhere: bool = False

    def policy(self) -> Policy:
        """Make the policy; trained ones for the completion of jobs, as they are."""
        return self.make() if self.make is not None else load_policy(self.name)


def _prices_alone() -> Policy:
    policy = load_policy("portfolio")
    assert isinstance(policy, ReplanningPolicy)
    return policy.with_weight("price", PRICE)


def _bundled(name: str, *, network: bool = True, price: float = PRICE, **changes: Any) -> Policy:
    """Make the bundled search policy with other options, or with constant priors."""
    model = read_model(find_model(CHOSEN))
    arrays = dict(model.arrays)
    if not network:
        own, of_kind = model.training["best_constants"]
        arrays = constant_arrays((own, of_kind))
    options = {**search_options_of(model), **changes}
    return make_search_policy(name, price=price, shrinkage=arrays, **options)


def _part(
    name: str, about: str, *, alone: bool = True, stream: bool = True, **changes: Any
) -> FamilyContender:
    make = partial(_bundled, name, **changes)
    return FamilyContender(name, PART, about, make, alone=alone, stream=stream)


NO_SEARCH: dict[str, Any] = {
    "work": 0.0,
    "first_work": 0.0,
    "job_moves": False,
    "planned_copies": False,
}
NO_PRICES: dict[str, Any] = {"price": 0.0, "occupancy": 0.0}


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
    FamilyContender(UNSWITCHED, TRAINED, "the best of several tuned plans"),
    FamilyContender(REFERENCE, TRAINED, "a network switches between keeping and planning again"),
    FamilyContender("decima", TRAINED, "a graph network picks tasks, DEFT devices", stream=False),
    FamilyContender("lachesis", TRAINED, "the same, and sees how devices differ"),
    FamilyContender("dqn", TRAINED, "two-stage DQN: a ready task, then a device"),
    FamilyContender(CHOSEN, SEARCH, "search, copies, prices and the network together"),
    FamilyContender(
        CONSTANT,
        PART,
        "the same with the best constants instead of the network",
        partial(_bundled, CONSTANT, network=False),
        everywhere=True,
    ),
    _part("search alone", "no copies, prices, network", copies=False, network=False, **NO_PRICES),
    _part("copies alone", "the plans without search", network=False, **NO_SEARCH, **NO_PRICES),
    FamilyContender(
        "prices alone", PART, "`portfolio` with prices of devices", _prices_alone, alone=False
    ),
    _part("network alone", "the plans, no copies", copies=False, **NO_SEARCH, **NO_PRICES),
    FamilyContender(
        "rollouts alone",
        PART,
        "the plans of `portfolio`, each first step tried in sampled futures",
        partial(RolloutPolicy, "rollouts alone"),
        stream=False,
    ),
    _part("without copies", "all else", copies=False),
    _part("without planned copies", "copies only at the start", planned_copies=False),
    _part("without prices", "all else", alone=False, **NO_PRICES),
    _part("without job moves", "all else", alone=False, job_moves=False),
    _part("less work", "8,000 placements per event", work=8_000.0, first_work=200_000.0),
    _part("in 4 futures", "one expected, three sampled", stream=False, futures=4),
    _part("2 imagined jobs", "arrivals at the observed rate", alone=False, sampled_jobs=2),
)


def contenders(*, stream: bool, parts: bool = True) -> list[FamilyContender]:
    """Return the contenders of a condition, with or without parts of the search."""
    here = [c for c in CONTENDERS if (c.stream if stream else c.alone)]
    return [c for c in here if parts or c.kind != PART or c.everywhere]
