"""Who takes part in the GPU-cluster experiment, and how each plays: plans replayed, rules, re-planning, learned policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from weft.planners import PLANNERS
from weft.policies import POLICIES
from weft.sim.view import Policy

YARDSTICK_MOVES = 15_000
"""TransferEstimator of the search that says what can be gained at all: about a quarter of a second at 100 tasks, the same on any machine."""

AXES = ("tasks", "jobs", "stream", "uniform", "devices")
ONE_JOB = ("tasks",)
"""For who looks at every ready task on every device, at every turn."""
AT_ONCE = ("tasks", "jobs", "uniform", "devices")
"""Axes on which all jobs are there from the beginning, so that a plan can be made beforehand."""


@dataclass(frozen=True)
class Contender:
    """A name, how it plays, and on which axes.

    Attributes
    ----------
    kind : `plan` (made beforehand, replayed), `rule`, `planning` (anew at every event), `learned` or `yardstick`
    maker : the name in the table of planners or of policies
    apart : each job is planned alone, as if it had the cluster to itself
    """

    name: str
    kind: str
    about: str
    maker: str
    axes: tuple[str, ...] = AXES
    apart: bool = False

    @property
    def known(self) -> bool:
        """Whether what it needs is registered."""
        table = PLANNERS if self.kind in {"plan", "yardstick"} else POLICIES
        return self.maker in table.names()


def _plan(
    name: str,
    about: str,
    *,
    maker: str | None = None,
    axes: tuple[str, ...] = AXES,
    apart: bool = False,
) -> Contender:
    return Contender(name, "plan", about, maker or name, axes, apart)


def _policy(kind: str, name: str, about: str, axes: tuple[str, ...] = AXES) -> Contender:
    return Contender(name, kind, about, name, axes)


ROSTER = (
    _plan("heft", "HEFT's plan, made beforehand for all jobs together and replayed", axes=AT_ONCE),
    _plan(
        "heft-node",
        "HEFT's plan on all devices or on those of one node, whichever is shorter; replayed",
        axes=AT_ONCE,
    ),
    _plan(
        "fifo-deft",
        "the oldest job's tasks first, earliest finish with one parent copied; replayed",
    ),
    _plan("tdca", "clusters along critical parents, with copies; replayed"),
    _plan(
        "fifo-deft-apart",
        "FIFO-DEFT, each job planned as if it were alone",
        maker="fifo-deft",
        axes=("jobs",),
        apart=True,
    ),
    _policy(
        "rule",
        "fifo-deft-online",
        "FIFO-DEFT as the work goes on: placed with what is known at the moment",
    ),
    _policy("rule", "eft", "the oldest ready task first, on the device that finishes it first"),
    _policy(
        "rule", "rank-eft", "the highest upward rank first, on the device that finishes it first"
    ),
    _policy("planning", "heft-replanned", "HEFT planned anew at every event, with the estimates"),
    _policy(
        "planning",
        "heft-observed",
        "HEFT planned anew at every event, with the speeds observed so far",
    ),
    _policy(
        "planning",
        "heft-affinity",
        "HEFT planned anew, on all devices or with each job on a node or a device, whichever promises more",
        AT_ONCE,
    ),
    _policy("planning", "heft-arrival", "HEFT planned anew, jobs in order of arrival", ("stream",)),
    _policy(
        "planning",
        "srpt-replanned",
        "planned anew, the job with the least remaining work first",
        ("stream",),
    ),
    _policy(
        "planning",
        "srpt-affinity",
        "the same, on all devices or each job on a node or a device, whichever promises more",
        ("stream",),
    ),
    _policy("learned", "rule", "a weighted sum of features, its weights found by evolution"),
    _policy(
        "learned",
        "portfolio",
        "several sets of weights that complete one another; the plan with the best promise is followed",
    ),
    _policy(
        "learned", "decima", "Decima's graph network picks the task, earliest finish the device"
    ),
    _policy("learned", "lachesis", "Lachesis' graph network picks the task, DEFT the device"),
    _policy(
        "learned",
        "replan-switch",
        "a deep Q-network decides at every event whether to keep a plan and better it or to plan as portfolio does",
    ),
    _policy(
        "learned",
        "dqn",
        "the document's two stages and its reward: deep Q-networks choose a ready task, then a device",
        ONE_JOB,
    ),
    Contender(
        "anytime",
        "yardstick",
        "search over plans with exact costs: what can be gained at all",
        "anytime",
        ("tasks", "uniform"),
    ),
)

LEARNED = tuple(c.name for c in ROSTER if c.kind == "learned")
FAIR = ("heft-replanned", "heft-observed")
"""Rivals given the same information; judged against the better of them."""


@dataclass(frozen=True)
class Entrants:
    """Who plays, and who is not there."""

    contenders: tuple[Contender, ...]
    missing: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of those who play."""
        return tuple(c.name for c in self.contenders)


def gather(names: Sequence[str] | None = None) -> Entrants:
    """Everybody whose planner or policy is registered, or those among them that are named.

    Examples
    --------
    >>> gather(["eft", "heft"]).names
    ('heft', 'eft')
    """
    wanted = [c for c in ROSTER if names is None or c.name in names]
    return Entrants(
        tuple(c for c in wanted if c.known), tuple(c.name for c in wanted if not c.known)
    )


def contender(name: str) -> Contender:
    """The contender of a name."""
    return next(c for c in ROSTER if c.name == name)


@cache
def policy(name: str) -> Policy:
    """The policy of a name, made once in a process: reading weights takes longer than a simulation."""
    return POLICIES.create(name)
