"""Replanning policies with tuned weights or networks, as a `Model` and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.formats.model_file import Model
from weft.formats.parsing.record import Record
from weft.model.columns import Numbers
from weft.policies.policy import POLICIES, bundled_policy, register_kind
from weft.policies.replanning.policy import ReplanningPolicy, SwitchPolicy
from weft.policies.replanning.portfolio import MOVES, WINDOW, PlanOptions
from weft.policies.two_stage.choose import stage_networks
from weft.policies.two_stage.dqn import TwoStageDqn

REPLANNING, SWITCH, TWO_STAGE = "replanning", "replan-switch", "two-stage-dqn"
KEYS = ("weights", "window", "contenders", "affinity", "objective")


def replanning_model(
    name: str,
    about: str,
    weights: Sequence[Mapping[str, float]],
    *,
    kind: str = REPLANNING,
    window: int = WINDOW,
    contenders: int = 1,
    affinity: bool = False,
    arrays: Mapping[str, Numbers] | None = None,
    training: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Model:
    """Return a replanning policy as a model to be written.

    `weights` are the sets of weights it plans with, `window` the tasks planned per 16 devices,
    `contenders` the plans compared with the incumbent, and `affinity` whether jobs may be kept in
    a group of devices. A switch has `margin` and `moves` too, a two-stage DQN `margin` and
    `copies`.
    """
    own = {
        "weights": [dict(one) for one in weights],
        "window": window,
        "contenders": contenders,
        "affinity": affinity,
        **settings,
    }
    return Model(
        name=name,
        kind=kind,
        about=about,
        settings=own,
        arrays=arrays or {},
        training=training or {},
    )


def _options(settings: Record) -> PlanOptions:
    for key, least in (("window", 1), ("contenders", 0)):
        number = settings.raw(key)
        if type(number) is not int or not least <= number <= 10**9:
            raise InvalidInput(f"{key} is {shown(number)}; it must be a whole number from {least}")
    return PlanOptions(
        window=settings.raw("window"),
        contenders=settings.raw("contenders"),
        affinity=_flag(settings, "affinity"),
        objective=str(settings.raw("objective")) if "objective" in settings else "completion",
    )


def _flag(settings: Record, key: str) -> bool:
    value = settings.raw(key)
    if not isinstance(value, bool):
        raise InvalidInput(f"{key} is {shown(value)}; it must be true or false")
    return value


def _weights(settings: Record) -> list[dict[str, float]]:
    sets = settings.raw("weights")
    if not isinstance(sets, list) or not all(isinstance(one, dict) for one in sets) or not sets:
        raise InvalidInput("weights must be a list of sets, each with numbers by name")
    for key, value in (pair for one in sets for pair in one.items()):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInput(f"weight {shown(key)} is {shown(value)}; it must be a number")
    return sets


def _moves(given: object) -> tuple[int, int]:
    if (
        not isinstance(given, list)
        or [type(x) for x in given] != [int, int]
        or not 0 <= min(given) <= max(given) <= 10**9
        or max(given) == 0
    ):
        raise InvalidInput(f"moves is {shown(given)}; it must be two whole numbers, not both 0")
    return given[0], given[1]


def _margin(settings: Record) -> float:
    given = settings.floats("margin", 0.0)
    if given.shape != ():
        raise InvalidInput(f"{settings.path('margin')} has {given.size} numbers; it must be one")
    return float(given)


@register_kind(REPLANNING)
def replanning_of(model: Model) -> ReplanningPolicy:
    """Build a replanning policy from its model."""
    settings = Record(dict(model.settings))
    settings.only(KEYS)
    return ReplanningPolicy(model.name, _weights(settings), _options(settings))


@register_kind(SWITCH)
def switch_of(model: Model) -> SwitchPolicy:
    """Build a learned switch between keeping and replanning from its model."""
    settings = Record(dict(model.settings))
    settings.only((*KEYS, "margin", "moves"))
    margin = _margin(settings)
    moves = _moves(settings.raw("moves")) if "moves" in settings else MOVES
    options = replace(_options(settings), moves=moves)
    return SwitchPolicy(model.name, model.arrays, _weights(settings), options, margin=margin)


@register_kind(TWO_STAGE)
def two_stage_of(model: Model) -> TwoStageDqn:
    """Build the two-stage DQN from its model."""
    settings = Record(dict(model.settings))
    settings.only((*KEYS, "margin", "copies"))
    margin = _margin(settings)
    copies = "copies" in settings and _flag(settings, "copies")
    return TwoStageDqn(
        model.name,
        stage_networks(model.arrays),
        _weights(settings),
        _options(settings),
        margin=margin,
        copies=copies,
    )


@POLICIES.register("portfolio-makespan", family="replanning")
def portfolio_makespan() -> ReplanningPolicy:
    """As `portfolio`, for the makespan of all jobs instead of the completion of each."""
    policy = bundled_policy("portfolio")
    assert isinstance(policy, ReplanningPolicy)
    policy_for_makespan = policy.with_objective("makespan")
    policy_for_makespan.name = "portfolio-makespan"
    return policy_for_makespan


for _name, _family, _summary in (
    ("tuned-list", "replanning", "Replanning at every event, with weights tuned by evolution."),
    ("portfolio", "replanning", "Several plans at every event; follows the best predicted one."),
    ("replan-switch", "replanning", "A network improves the incumbent, or replans, at each event."),
    ("dqn", "two-stage", "Two-stage DQN: Q-networks choose a ready task, then a device, or wait."),
):
    POLICIES.register(_name, family=_family, summary=_summary)(partial(bundled_policy, _name))
