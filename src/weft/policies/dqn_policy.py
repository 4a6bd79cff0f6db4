"""`dqn`: Q-networks choose a ready task, then a device, or neither; what they see comes from a plan of everything in sight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.model import Scenario, Workload
from weft.policies.dispatch import Turn, begin_turns, make_turn, offer, take_turn
from weft.policies.foresight_policy import Foresight, Mirror
from weft.policies.plans import FAR, plan_anew
from weft.policies.q_network import greedy_choice, live_by_values, q_network
from weft.sim.tables import COMMITTED, Sim, make_sim
from weft.sim.view import Decision, View


class Dqn(Foresight):
    """Takes the candidate with the highest value; the one of the plan unless another looks better by more than `caution`.

    Parameters
    ----------
    arrays : of the networks, see `weft.policies.q_network`
    weights, most, challengers, aim : of the plan, see `Foresight`
    caution : in mean paths of the jobs present
    """

    def __init__(
        self,
        name: str,
        arrays: Mapping[str, NDArray[Any]],
        weights: Mapping[str, float] | Sequence[Mapping[str, float]],
        *,
        caution: float = 0.0,
        most: int = FAR,
        challengers: int = 1,
        aim: str = "completion",
    ) -> None:
        super().__init__(name, weights, most=most, challengers=challengers, aim=aim)
        self.network, self.caution = q_network(arrays), caution

    def live(self, sim: Sim) -> int:
        """Make all decisions of a simulation, compiled."""
        return live_by_values(sim, self._plans(sim), make_turn(sim), self.network, self.caution)

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Forget the last run."""
        super().begin(workload, seed=seed)
        self._turn: Turn | None = None

    def decide(self, view: View) -> Decision | None:
        """Take all turns of a moment at once, then hand out what they committed."""
        if self._turn is None:
            self._turn = make_turn(make_sim(self._workload, Scenario.of(self._workload), None, eager=view.eager))
        return super().decide(view)

    def _choose(self, mirror: Mirror, view: View) -> list[Decision]:
        turn = self._turn
        assert turn is not None
        plan_anew(mirror.sim, mirror.plans)
        turn.ready[: len(view.ready)] = view.ready
        turn.idle[:] = view.idle
        begin_turns(mirror.sim, mirror.plans, turn, len(view.ready), int(np.count_nonzero(view.idle)))
        found = []
        while offer(mirror.sim, mirror.plans, turn):
            task, device = take_turn(turn, greedy_choice(self.network, turn, self.caution))
            if device >= 0:
                found.append(Decision(task, device))
                mirror.sim.inst["status"][task] = COMMITTED
        return found
