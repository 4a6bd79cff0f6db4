"""Contenders of the GPU-cluster experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from weft.policies import POLICIES
from weft.sim.view import Policy

REFERENCE_MOVES = 15_000
"""Moves of the reference search: about 0.25 s at 100 tasks, the same result on any machine."""

AXES = ("tasks", "jobs", "stream", "uniform", "devices")
ONE_JOB = ("tasks",)
"""For policies whose decisions score every ready task on every device."""
AT_ONCE = ("tasks", "jobs", "uniform", "devices")
"""Axes on which all jobs arrive at time 0, so that a plan can be made in advance."""


@dataclass(frozen=True)
class Contender:
    """A planner or policy, and the axes on which it takes part.

    Attributes
    ----------
    kind : `plan` (made in advance, replayed), `rule`, `planning` (at every event), `learned`, or
        `reference` (search with exact costs)
    maker : name of the planner or policy
    apart : each job is planned as if no other job existed
    """

    name: str
    kind: str
    about: str
    maker: str
    axes: tuple[str, ...] = AXES
    apart: bool = False

    @property
    def planned(self) -> bool:
        """Whether it is a plan made in advance."""
        return self.kind in {"plan", "reference"}


def _plan(name: str, about: str, axes: tuple[str, ...] = AXES) -> Contender:
    return Contender(name, "plan", about, name, axes)


def _policy(kind: str, name: str, about: str, axes: tuple[str, ...] = AXES) -> Contender:
    return Contender(name, kind, about, name, axes)


CONTENDERS = (
    _plan("heft", "HEFT's plan for all jobs together, replayed", AT_ONCE),
    _plan("heft-node", "HEFT's plan on all devices or on one node, the shorter; replayed", AT_ONCE),
    _plan("fifo-deft", "oldest job first, earliest finish with one parent copied; replayed"),
    _plan("tdca", "clusters along critical parents, with copies; replayed"),
    Contender(
        "fifo-deft-apart",
        "plan",
        "FIFO-DEFT, each job planned as if it were alone",
        "fifo-deft",
        ("jobs",),
        apart=True,
    ),
    _policy("rule", "fifo-deft-online", "FIFO-DEFT decided online with current information"),
    _policy("rule", "eft", "oldest ready task first, on the device that finishes it first"),
    _policy("rule", "rank-eft", "highest upward rank first, on the device that finishes it first"),
    _policy("planning", "heft-replanned", "HEFT planned again at every event, with the estimates"),
    _policy("planning", "heft-observed", "HEFT planned again at every event, with observed speeds"),
    _policy(
        "planning",
        "heft-affinity",
        "HEFT planned again, on all devices or with each job on one node or device, whichever "
        "predicts the shorter makespan",
        AT_ONCE,
    ),
    _policy(
        "planning", "heft-arrival", "HEFT planned again, jobs in order of arrival", ("stream",)
    ),
    _policy("planning", "srpt-replanned", "planned again, least remaining work first", ("stream",)),
    _policy(
        "planning",
        "srpt-affinity",
        "the same, on all devices or with each job on one node or device, whichever predicts more",
        ("stream",),
    ),
    _policy("learned", "tuned-list", "list scheduling with feature weights tuned by evolution"),
    _policy(
        "learned",
        "portfolio",
        "several tuned weight sets; follows the plan with the best predicted completion",
    ),
    _policy("learned", "decima", "Decima's graph network selects the task, EFT the device"),
    _policy("learned", "lachesis", "Lachesis' graph network selects the task, DEFT the device"),
    _policy(
        "learned",
        "replan-switch",
        "a network decides at every event whether to improve the incumbent plan or to re-plan",
    ),
    _policy(
        "learned",
        "dqn",
        "the document's two-stage DQN with its reward: first a ready task, then a device",
        ONE_JOB,
    ),
    Contender(
        "anytime",
        "reference",
        "search over plans with exact costs: how much can be gained at all",
        "anytime",
        ("tasks", "uniform"),
    ),
)

LEARNED = tuple(c.name for c in CONTENDERS if c.kind == "learned")
FAIR = ("heft-replanned", "heft-observed")
"""Rivals with the same information; claims are tested against the better of them."""
_BY_NAME = {c.name: c for c in CONTENDERS}


def contenders(names: Sequence[str] | None = None) -> tuple[Contender, ...]:
    """Return all contenders, or those with the given names.

    Examples
    --------
    >>> [c.name for c in contenders(["eft", "heft"])]
    ['heft', 'eft']
    """
    return tuple(c for c in CONTENDERS if names is None or c.name in names)


def contender(name: str) -> Contender:
    """Return the contender with a name."""
    return _BY_NAME[name]


@cache
def policy(name: str) -> Policy:
    """Return the policy with a name, created once per process."""
    return POLICIES.create(name)
