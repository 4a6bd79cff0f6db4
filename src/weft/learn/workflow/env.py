"""Gymnasium environment of workflows: ``gymnasium.make("weft/Workflow-v0")``.

An action is one of the candidates: a ready task or to wait, then a device or to hold the task; see
`weft.policies.two_stage.candidates`. Gymnasium needs observations of one shape, so the candidates
are in a table of `width` rows, padded with zeros; the policies of weft have no such limit.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite
from os import PathLike
from typing import Any

import numpy as np

from weft.arguments import as_float, shown, whole
from weft.errors import InvalidInput, MissingExtra, UnknownName
from weft.generators import Condition, Instance, draw_instance
from weft.learn.rendering import RENDERING, check_render_mode, render
from weft.learn.settings import refuse_reset_options
from weft.model.columns import BoolArray
from weft.policies.graph.deft import commit_choice
from weft.policies.load import load_kind
from weft.policies.replanning.policy import ReplanningPolicy
from weft.policies.replanning.portfolio import WINDOW, PlanOptions, Portfolio, make_portfolio
from weft.policies.replanning.weights import weights_of
from weft.policies.two_stage.candidates import apply, next_decision
from weft.policies.two_stage.decision import FEATURES, REWARDS, make_candidates
from weft.registry import closest, reject_unknown
from weft.sim.kernel.events import MOMENT
from weft.sim.kernel.tables import make_sim
from weft.sim.view import Policy
from weft.typed import typed

try:
    import gymnasium
    from gymnasium import spaces
except ImportError:
    raise MissingExtra("gymnasium", "learn") from None

WorkflowObservation = dict[str, Any]
OPTIONS = PlanOptions(window=WINDOW, early_exit=False)
DRAWN = tuple(
    n for n in inspect.signature(draw_instance).parameters if n not in {"condition", "seed"}
)
"""Options of `draw_instance` that an environment takes."""


class WorkflowEnv(gymnasium.Env[WorkflowObservation, np.int64]):
    """One simulation.

    An observation has `candidates`, (width, features), and the `kind` of the decision: 0 for a
    task, 1 for a device.

    Parameters
    ----------
    condition, draw : a condition of `weft.generators.CONDITIONS`, with options for `draw_instance`;
        or a function seed -> Instance
    reward : weights by name, see `weft.policies.two_stage.decision.Rewards`; those of the
        document are `weft.learn.workflow.two_stage.DOCUMENT`
    weights : of the plan in the observation, see `weft.policies.replanning.weights`; HEFT by
        default
    policy : instead of weights, the replanning policy whose plan is in the observation: a name, the
        path of a trained one, or an object. Its weights, options and copies count; networks that
        choose among candidates, an incumbent and a search do not: the agent is in their place
    width : rows of the observation; of more candidates it has the first ones and the last, which is
        to wait or to hold

    An action beyond the candidates takes the last one; `action_masks` and ``info["action_mask"]``
    show the valid ones.
    """

    metadata: dict[str, Any] = RENDERING

    @typed
    def __init__(
        self,
        condition: str = "static",
        *,
        draw: Callable[[int], Instance] | None = None,
        reward: Mapping[str, float] | None = None,
        weights: Mapping[str, float] | None = None,
        policy: str | PathLike[str] | Policy | None = None,
        width: int = 64,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        for name in reward or {}:
            if name not in REWARDS:
                raise UnknownName(f"unknown reward '{name}'{closest(name, REWARDS)}")
        self.width = width = whole(width, "width", least=2, most=1_000_000)
        self._draw = _drawing(condition, draw, options)
        given = reward or {"promise": 1.0}
        self._reward = np.array([_weight(name, given.get(name, 0.0)) for name in REWARDS])
        if policy is not None and weights is not None:
            raise InvalidInput("give either weights, or a policy that has them, not both")
        self._weights = weights_of(weights or {})
        self._planner = None if policy is None else _planner(policy)
        self.render_mode = check_render_mode(render_mode)
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
    ) -> tuple[WorkflowObservation, dict[str, Any]]:
        """Begin an episode: that of the seed, or the next one."""
        refuse_reset_options(options)
        super().reset(seed=seed, options=options)
        self.case = self._draw(int(self.np_random.integers(2**31)))
        if not isinstance(self.case, Instance):
            raise InvalidInput(
                f"draw returned {shown(self.case)}; it must return a weft.generators.Instance"
            )
        self.case.scenario.refuse_other_workload(self.case.workload)
        copies = self._planner is not None and self._planner.copies
        self._sim = make_sim(
            self.case.workload, self.case.scenario, None, eager=True, copies=copies
        )
        self._portfolio = self._plans()
        self._candidates = make_candidates(self._sim)
        if next_decision(self._sim, self._portfolio, self._candidates) != MOMENT:
            raise InvalidInput(f"'{self.case.workload.name}' has nothing to decide")
        return self._observe(), {"action_mask": self.action_masks()}

    def step(
        self, action: np.int64
    ) -> tuple[WorkflowObservation, float, bool, bool, dict[str, Any]]:
        """Take a candidate, and advance to the next decision."""
        choice = self._shown[min(self._row(action), len(self._shown) - 1)]
        task, device = apply(self._candidates, choice)
        if device >= 0:
            commit_choice(self._sim, task, device)
        ended = next_decision(self._sim, self._portfolio, self._candidates) != MOMENT
        reward = float(self._candidates.reward @ self._reward)
        if ended:
            self._candidates.state["count"] = 0
        observation = self._observe()
        info: dict[str, Any] = {"action_mask": self.action_masks()}
        if ended:
            job = self._sim.job[:-1]
            info |= {
                "jct": float((job["finish"] - job["arrival"]).mean()),
                "makespan": float(job["finish"].max() - job["arrival"].min()),
            }
        return observation, reward, ended, False, info

    def _plans(self) -> Portfolio:
        """Return the plans of an episode, by the weights or by the policy."""
        workload = self.case.workload
        if self._planner is None:
            return make_portfolio(workload, self._sim, [self._weights], OPTIONS)
        self._planner.begin(workload)
        return self._planner.portfolio(self._sim)

    def _row(self, action: np.int64) -> int:
        """Return the row that an action names; refuse actions outside of the action space."""
        if not self._shown:
            raise InvalidInput("the episode has ended or not begun; call reset() before step()")
        try:
            row = operator.index(action)
        except TypeError:
            row = -1
        if not 0 <= row < self.width:
            raise InvalidInput(f"action is {action!s}; it must be from 0 to {self.width - 1}")
        return row

    def render(self) -> str | np.ndarray[Any, Any] | None:
        """Return ready tasks and devices as text ("ansi") or as a picture ("rgb_array")."""
        sim, workload = self._sim, self.case.workload
        now, names = float(sim.world["now"][0]), workload.cluster.names
        return render(self.render_mode, now, sim.kind, sim.device, workload.kinds, names)

    def action_masks(self) -> BoolArray:
        """Return which rows are candidates."""
        return np.arange(self.width) < len(self._shown)

    def _observe(self) -> WorkflowObservation:
        state, count = self._candidates.state[0], int(self._candidates.state["count"][0])
        self._shown = (
            list(range(count)) if count <= self.width else [*range(self.width - 1), count - 1]
        )
        table = np.zeros((self.width, FEATURES), np.float32)
        table[: len(self._shown)] = self._candidates.feature[self._shown]
        return {"candidates": table, "kind": np.int64(state["stage"])}


def _planner(policy: str | PathLike[str] | Policy) -> ReplanningPolicy:
    """Return a policy that plans as the given one, and decides nothing."""
    given = load_kind(
        policy,
        ReplanningPolicy,
        "has no weights to plan with; use 'tuned-list', 'portfolio', 'dqn' or another replanning "
        "policy (see: weft list policies)",
    )
    options = replace(given.options, moves=(0, 0), early_exit=False)
    planner = ReplanningPolicy(given.name, {}, options)
    planner.sets, planner.shrinkage_network = given.sets, given.shrinkage_network
    planner.copies = given.copies
    return planner


def _weight(name: str, value: object) -> float:
    if not isfinite(found := as_float(value)):
        raise InvalidInput(f"reward '{name}' is {shown(value)}; it must be a finite number")
    return found


def _drawing(
    condition: str | Condition, draw: Callable[[int], Instance] | None, options: dict[str, Any]
) -> Callable[[int], Instance]:
    """Return the function that draws episodes; refuse options that it does not read."""
    own = [
        p.name for p in inspect.signature(WorkflowEnv).parameters.values() if p.name != "options"
    ]
    reject_unknown(options, (*own, *DRAWN), "WorkflowEnv")
    if draw is None:
        if not isinstance(condition, str | Condition):
            raise InvalidInput(f"condition is {shown(condition)}; it must be the name of one")
        return lambda seed: draw_instance(condition, seed=seed, **options)
    if not callable(draw):
        raise InvalidInput(f"draw is {shown(draw)}; it must be a function seed -> Instance")
    if options or condition != "static":
        raise InvalidInput("give either draw, or a condition and options to draw with, not both")
    return draw
