"""Policies of Q-networks: `SwitchPolicy` chooses how to plan, `TwoStageDqn` a ready task and then a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.model import Scenario, Workload
from weft.policies.replanning.policy import Mirror, ReplanningPolicy
from weft.policies.replanning.portfolio import FAR, HURRY, Plans, judged_by, plan_anew
from weft.policies.replanning.switch import plan_judge
from weft.policies.two_stage.candidates import Turn, begin_turns, make_turn, offer, take_turn
from weft.policies.two_stage.choose import greedy_choice, live_by_values, turn_networks
from weft.sim.kernel.tables import COMMITTED, Sim, make_sim
from weft.sim.view import Decision, View

MOVES = (4, 100_000)
"""Changes of a plan that is kept at an event; and how many tasks may be timed in trying changes when it is new (about 8 ms)."""


class SwitchPolicy(ReplanningPolicy):
    """Plans as `ReplanningPolicy` does, or keeps a plan and betters it by small changes: whichever a Q-network says is worth more now.

    Parameters
    ----------
    arrays : of the network, see `weft.policies.replanning.switch`
    weights, most, challengers, aim, homes : of the plans, see `ReplanningPolicy`
    moves : changes of the plan that is kept, tried at every event; and tasks timed in trying changes when it is new
    caution : by how much keeping must look better, in tenths of the logarithm of the time jobs have left in the system
    """

    def __init__(
        self,
        name: str,
        arrays: Mapping[str, NDArray[Any]],
        weights: Mapping[str, float] | Sequence[Mapping[str, float]],
        *,
        moves: tuple[int, int] = MOVES,
        caution: float = 0.0,
        most: int = FAR,
        challengers: int = 1,
        aim: str = "completion",
        homes: bool = False,
    ) -> None:
        super().__init__(name, weights, most=most, challengers=challengers, aim=aim, homes=homes)
        self.judge, self.moves, self.caution = plan_judge(arrays), moves, caution

    def plans(self, sim: Sim) -> Plans:
        """Lay out the plans, and the network that decides between ways of planning."""
        return judged_by(super().plans(sim), self.judge, self.caution)


class TwoStageDqn(ReplanningPolicy):
    """Takes the candidate with the highest value, turn by turn; among equals the one of the plan.

    Parameters
    ----------
    arrays : of the networks for tasks and for devices, see `weft.policies.two_stage.candidates`
    weights, most, challengers, aim, homes : of the plan, see `ReplanningPolicy`
    """

    def __init__(
        self,
        name: str,
        arrays: Mapping[str, NDArray[Any]],
        weights: Mapping[str, float] | Sequence[Mapping[str, float]],
        *,
        most: int = FAR,
        challengers: int = 1,
        aim: str = "completion",
        homes: bool = False,
    ) -> None:
        super().__init__(name, weights, most=most, challengers=challengers, aim=aim, homes=homes)
        self.network = turn_networks(arrays)

    def plans(self, sim: Sim) -> Plans:
        """Lay out the plans; they are made to their end, for what is said of candidates."""
        plans = super().plans(sim)
        plans.contest[HURRY] = 0
        return plans

    def live_by(self, sim: Sim, plans: Plans) -> int:
        """Make all decisions of a simulation, compiled."""
        return live_by_values(sim, plans, make_turn(sim), self.network)

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Forget the last run."""
        super().begin(workload, seed=seed)
        self._turn: Turn | None = None

    def decide(self, view: View) -> Decision | None:
        """Take all turns of a moment at once, then hand out what they committed."""
        if self._turn is None:
            self._turn = make_turn(
                make_sim(self._workload, Scenario.of(self._workload), None, eager=view.eager)
            )
        return super().decide(view)

    def _choose(self, mirror: Mirror, view: View) -> list[Decision]:
        turn = self._turn
        assert turn is not None
        plan_anew(mirror.sim, mirror.plans)
        turn.ready[: len(view.ready)] = view.ready
        turn.idle[:] = view.idle
        begin_turns(
            mirror.sim, mirror.plans, turn, len(view.ready), int(np.count_nonzero(view.idle))
        )
        found = []
        while offer(mirror.sim, mirror.plans, turn):
            task, device = take_turn(turn, greedy_choice(self.network, turn))
            if device >= 0:
                found.append(Decision(task, device))
                mirror.sim.inst["status"][task] = COMMITTED
        return found
