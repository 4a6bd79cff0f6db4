"""Contenders on the testbed: its rules, by two clocks, and weft's policies.

The clocks are that of the testbed and the right one. An action of the testbed assigns the next
ready task, which the testbed chooses, to a machine, at once and for good. Contenders are grouped by
whether they stay within that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.model import Problem, Workload
from weft.model.columns import FloatArray, IntArray
from weft.policies.load import list_policies
from weft.sim.kernel.commit import commit, expected_seconds
from weft.sim.kernel.events import MOMENT, advance
from weft.sim.kernel.jit import njit, njit_noalloc
from weft.sim.kernel.tables import Sim
from weft.sim.view import Decision, View

WITHIN, ORDERS, WAITS = "within", "orders", "waits"
SPACES = {
    WITHIN: "assigns each ready task at once, in the testbed's order: its action space",
    ORDERS: "assigns at once, but chooses which ready task comes first",
    WAITS: "keeps tasks back until a machine is idle, so it can change its mind",
}


@dataclass(frozen=True)
class TestbedContender:
    """A name of weft's table or a rule of the testbed, and what it may do."""

    name: str
    space: str
    about: str
    slow: bool = False
    """Whether it runs on the first workflows of each setting only."""


CONTENDERS = (
    TestbedContender("EST, stale clock", WITHIN, "the testbed's EST, as published"),
    TestbedContender("PEFT, stale clock", WITHIN, "the testbed's PEFT, as published"),
    TestbedContender("HEFT, stale clock", WITHIN, "the testbed's HEFT, as published"),
    TestbedContender("EST, right clock", WITHIN, "earliest start: of many idle machines, any"),
    TestbedContender("PEFT, right clock", WITHIN, "earliest finish of the shortest way to the end"),
    TestbedContender("eft", WITHIN, "the testbed's HEFT with the right clock: earliest finish"),
    TestbedContender("rank-eft", ORDERS, "earliest finish, highest upward rank first"),
    TestbedContender("rank-first", WAITS, "highest rank first, on the best idle machine"),
    TestbedContender("heft-replanned", WAITS, "HEFT planned again at every event", slow=True),
    TestbedContender("tuned-list", WAITS, "re-planning with tuned weights", slow=True),
    TestbedContender("srpt-replanned", WAITS, "shortest remaining work first", slow=True),
    TestbedContender("portfolio", WAITS, "the best of several plans at every event", slow=True),
)

AT_ONCE = {"eft": WITHIN, "rank-eft": ORDERS}
"""Policies of weft's table that assign every ready task at once; all others wait."""


def every_policy(workload: Workload) -> list[TestbedContender]:
    """Return all policies of weft's table that can decide for the testbed's workloads."""
    return [
        TestbedContender(str(name), AT_ONCE.get(name, WAITS), name.summary)
        for name in list_policies()
        if name.supports(workload)
    ]


RULES = {"EST": (0.0, 0.0), "HEFT": (1.0, 0.0), "PEFT": (1.0, 1.0)}
"""Weights of the task's own seconds and of the shortest way behind it, per rule."""


class TestbedRule:
    """A rule of the testbed: the machine with the least time, ties at random.

    Time is when the machine has finished all that was assigned to it, plus weighted seconds. With
    the stale clock (the published code) an idle machine counts from when it became idle, however
    long ago; with the right clock it counts from now.
    """

    __test__ = False  # no class of tests

    def __init__(self, rule: str, *, stale: bool) -> None:
        self.name = f"{rule}, {'stale' if stale else 'right'} clock"
        self._weights, self._stale = RULES[rule], stale

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Compute the ways to the end and draw the words that break ties."""
        ways = [shortest_way(problem) for problem in workload.problems]
        self._way = np.concatenate([ways[t] for t in workload.template])
        self._free = np.zeros(workload.cluster.p)
        words = np.random.RandomState(seed)
        drawn = words.randint(0, 2**32, 4 * workload.instances, dtype=np.uint32)
        self._words = drawn.astype(np.int64)
        self._speed = np.asarray(workload.cluster.speed)

    def live(self, sim: Sim) -> int:
        """Run a simulation to its end in compiled code."""
        own, behind = self._weights
        return int(
            _live(sim, self._free, self._way, self._speed, self._words, own, behind, self._stale)
        )

    def decide(self, view: View) -> Decision | None:
        """Refuse: the rule runs in simulations only."""
        raise NotImplementedError(f"'{self.name}' runs in simulations only")


@njit
def _live(
    sim: Sim,
    free: FloatArray,
    way: FloatArray,
    speed: FloatArray,
    words: IntArray,
    own: float,
    behind: float,
    stale: bool,
) -> int:
    """Assign every task as soon as it is ready; return ENDED or STUCK."""
    machines, used = len(free), 0
    score = np.empty(machines)
    while True:
        answer = advance(sim)
        if answer != MOMENT:
            return answer
        now = sim.world[0].now
        while sim.world[0].ready > 0:
            instance = _next(sim)
            for d in range(machines):
                begin = free[d] if stale else max(free[d], now)
                seconds = expected_seconds(sim, instance, d)
                score[d] = begin + own * seconds + behind * (way[instance] / speed[d])
            least = score.min()
            ties = np.flatnonzero(score == least)
            # As numpy.random.choice: words with the bits of the largest index, until one fits.
            last, k, mask = len(ties) - 1, 0, 1
            while mask < last:
                mask = 2 * mask + 1
            while last > 0:
                k = words[used % len(words)] & mask
                used += 1
                if k <= last:
                    break
            d = ties[k]
            free[d] = max(free[d], now) + expected_seconds(sim, instance, d)
            commit(sim, instance, d)


@njit_noalloc
def _next(sim: Sim) -> int:
    """Return the next ready instance in the testbed's order.

    The testbed handles one event after the other, also at equal times: arrivals first, then
    machines by number. Within an event, tasks go by number.
    """
    best, first = -1, 0
    for kind in range(len(sim.kind)):
        for k in range(sim.kind[kind].ready):
            instance = sim.inst[sim.kind[kind].pool + k].pool
            event = _event(sim, instance)
            if best < 0 or event < first or (event == first and instance < best):
                best, first = instance, event
    return best


@njit_noalloc
def _event(sim: Sim, instance: int) -> int:
    """Return the machine whose finish made an instance ready; -1: its job arrived."""
    shift = sim.job[sim.inst[instance].job].shift
    g, machine = instance - shift, -1
    for k in range(sim.task[g].pred, sim.task[g + 1].pred):
        parent = sim.edge[sim.edge[k].back].source + shift
        if sim.inst[parent].done_at == sim.world[0].now:
            machine = max(machine, sim.inst[parent].ran_on)
    return machine


def shortest_way(problem: Problem) -> FloatArray:
    """Return, per task, the least work on a way behind it to an end."""
    w, work = problem.workflow, problem.work
    ends = np.bincount(w.src, minlength=problem.n) == 0
    found = np.zeros(problem.n)
    for source in range(problem.n):
        least = np.full(problem.n, np.inf)
        least[source] = work[source]
        for t in w.order.tolist():  # sums from the front, as the testbed adds: equal to the bit
            for child in w.dst[w.src == t].tolist():
                least[child] = min(least[child], least[t] + work[child])
        found[source] = least[ends].min() - work[source]
    return found
