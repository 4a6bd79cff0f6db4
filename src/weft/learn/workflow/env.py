"""Workflows on unlike devices as a Gymnasium environment: ``gymnasium.make("weft/Workflow-v0")`` after ``import weft.learn``.

An action is one of the candidates on offer: a ready task or to wait, then a device or to hold the task; see `weft.policies.two_stage.candidates`.
Gymnasium wants observations of one shape, so candidates stand in a table of `width` rows, the rest of it zero; the policies of weft have
no such limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput, MissingExtra, UnknownName
from weft.generators import Instance, draw_instance
from weft.model.columns import BoolArray, FloatArray
from weft.policies.replanning.policy import weights_of
from weft.policies.replanning.portfolio import SIGHT, Plans, make_plans
from weft.policies.two_stage.candidates import (
    FEATURES,
    REWARDS,
    Turn,
    make_turn,
    next_turn,
    take_turn,
)
from weft.registry import closest
from weft.rng import generator
from weft.sim.kernel.commit import commit
from weft.sim.kernel.events import MOMENT
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.tables import Sim, make_sim

try:
    import gymnasium
    from gymnasium import spaces
except ImportError:
    raise MissingExtra("gymnasium", "learn") from None

Seen = dict[str, Any]


class WorkflowEnv(gymnasium.Env[Seen, np.int64]):
    """One simulation. Observation: `candidates` (width, features), `kind` of the turn (0: which task, 1: which device).

    Parameters
    ----------
    condition, draw : what is played: a condition of `weft.generate.CONDITIONS`, with options for `draw_instance`; or a function seed -> Instance
    reward : weights by name, see `weft.policies.two_stage.candidates.REWARDS`; the document's are in `weft.learn.workflow.two_stage.DOCUMENT`
    weights : of the plan the observation speaks of (`weft.policies.replanning.placement.WEIGHTS`); by default HEFT's
    width : rows of the observation; of more candidates the first are shown, and the last, which is to wait or to hold

    An action beyond what is on offer takes the last candidate; `action_masks` and ``info["action_mask"]`` tell what is.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (declared so by Gymnasium)

    def __init__(
        self,
        condition: str = "static",
        *,
        draw: Callable[[int], Instance] | None = None,
        reward: Mapping[str, float] | None = None,
        weights: Mapping[str, float] | None = None,
        width: int = 64,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        for name in reward or {}:
            if name not in REWARDS:
                raise UnknownName(f"unknown reward '{name}'{closest(name, REWARDS)}")
        if width < 2:
            raise InvalidInput(f"width is {width}; it must be 2 or more")
        self._draw = draw or (lambda seed: draw_instance(condition, seed=seed, **options))
        self._reward = np.array([(reward or {"promise": 1.0}).get(name, 0.0) for name in REWARDS])
        self._weights, self.width, self.render_mode = weights_of(weights or {}), width, render_mode
        self.observation_space = spaces.Dict(
            {
                "candidates": spaces.Box(-5.0, 8.0, (width, FEATURES), np.float32),
                "kind": spaces.Discrete(2),
            }
        )
        self.action_space = spaces.Discrete(width)
        self._shown: list[int] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """Begin an episode: with a seed that of the seed, without one the next."""
        super().reset(seed=seed, options=options)
        self.case = self._draw(int(self.np_random.integers(2**31)))
        self._sim = make_sim(self.case.workload, self.case.scenario, None, eager=True)
        self._plans, self._turn = (
            make_plans(self.case.workload, self._sim, [self._weights], most=SIGHT, hurry=False),
            make_turn(self._sim),
        )
        if next_turn(self._sim, self._plans, self._turn) != MOMENT:
            raise InvalidInput(f"'{self.case.workload.name}' leaves nothing to decide")
        return self._see(), {"action_mask": self.action_masks()}

    def step(self, action: np.int64) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Take a candidate, and live up to the next turn."""
        task, device = take_turn(self._turn, self._shown[min(int(action), len(self._shown) - 1)])
        if device >= 0:
            commit(self._sim, task, device)
        ended = next_turn(self._sim, self._plans, self._turn) != MOMENT
        worth = float(self._turn.reward @ self._reward)
        if ended:
            self._turn.state[2] = 0
        seen = self._see()
        info: dict[str, Any] = {"action_mask": self.action_masks()}
        if ended:
            job = self._sim.job[:-1]
            info |= {
                "jct": float((job["finish"] - job["arrival"]).mean()),
                "makespan": float(job["finish"].max() - job["arrival"].min()),
            }
        return seen, worth, ended, False, info

    def action_masks(self) -> BoolArray:
        """Which rows are on offer."""
        return np.arange(self.width) < len(self._shown)

    def _see(self) -> Seen:
        count = int(self._turn.state[2])
        self._shown = (
            list(range(count)) if count <= self.width else [*range(self.width - 1), count - 1]
        )
        table = np.zeros((self.width, FEATURES), np.float32)
        table[: len(self._shown)] = self._turn.feature[self._shown]
        return {"candidates": table, "kind": np.int64(self._turn.state[0])}


@njit_noalloc
def play_at_random(
    sim: Sim, plans: Plans, turn: Turn, chance: FloatArray, seen: NDArray[np.float32]
) -> int:
    """Play with random choices, copying every observation as a learner would; returns the turns taken."""
    for t in range(len(chance)):
        if next_turn(sim, plans, turn) != MOMENT:
            return t
        for c in range(min(turn.state[2], len(seen))):
            for f in range(FEATURES):
                seen[c, f] = turn.feature[c, f]
        task, device = take_turn(turn, int(chance[t] * turn.state[2]))
        if device >= 0:
            commit(sim, task, device)
    return len(chance)


def decisions_per_second(seconds: float = 2.0, *, condition: str = "noisy", seed: int = 0) -> float:
    """Turns a second of processor time, observations included: random choices, 20 to 150 tasks; drawing cases is not counted."""
    weights, rng = weights_of({}), generator(seed, "decisions per second")
    spent, turns, k = 0.0, 0, 0
    seen = np.zeros((256, FEATURES), np.float32)
    while spent < seconds:
        case = draw_instance(condition, seed=seed + k)
        sim = make_sim(case.workload, case.scenario, None, eager=True)
        plans, turn, chance = (
            make_plans(case.workload, sim, [weights], most=SIGHT, hurry=False),
            make_turn(sim),
            rng.random(20_000),
        )
        began = time.process_time()
        played = play_at_random(sim, plans, turn, chance, seen)
        if k > 0:  # the first one may have compiled
            spent, turns = spent + time.process_time() - began, turns + played
        k += 1
    return turns / spent
