"""Policies for workflows on disk: a card in JSON, and arrays of networks beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import decode_text, naming, parse_json, read_bytes
from weft.formats.safetensors_file import read_arrays, write_arrays
from weft.policies.policy import POLICIES
from weft.policies.replanning.policy import ReplanningPolicy, SwitchPolicy
from weft.policies.replanning.portfolio import MOVES, WINDOW, PlanOptions
from weft.policies.two_stage.policy import TwoStageDqn

FORMAT = "weft-workflow-policy-1"
SHIPPED = Path(__file__).parents[1] / "bundled"
KEYS = (
    "format",
    "name",
    "about",
    "most",
    "challengers",
    "homes",
    "choice",
    "caution",
    "moves",
    "weights",
    "training",
)


@dataclass(frozen=True, kw_only=True)
class Card:
    """What is known of a policy: what it is called and good for, the weights of its plans, and how they came about.

    `homes`: there are plans in which every job stays in a group of devices. `choice` says what Q-networks choose: "plans" (`SwitchPolicy`, with
    `caution` and `moves`) or "turns" (`TwoStageDqn`). Their numbers are in a file of their own.
    """

    name: str
    about: str
    weights: Sequence[Mapping[str, float]]
    most: int = WINDOW
    challengers: int = 1
    homes: bool = False
    choice: str | None = None
    caution: float = 0.0
    moves: tuple[int, int] = MOVES
    training: Mapping[str, Any] = field(default_factory=dict)


def save_policy(
    path: str | Path, card: Card, arrays: Mapping[str, NDArray[np.float32]] | None = None
) -> Path:
    """Write the card (.json), and the networks beside it (.safetensors) if there are any."""
    place = Path(path).with_suffix(".json")
    place.parent.mkdir(parents=True, exist_ok=True)
    if arrays is not None:
        write_arrays(place.with_suffix(".safetensors"), dict(arrays))
    only_plans = () if card.choice == "plans" else ("caution", "moves")
    known = {
        key: value
        for key, value in asdict(card).items()
        if value is not None and key not in only_plans
    }
    content = {"format": FORMAT, **known}
    place.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return place


def read_card(path: str | Path) -> Card:
    """Read the card of a policy."""
    place = Path(path).with_suffix(".json")
    with naming(str(place)):
        content = Record(parse_json(decode_text(read_bytes(place))))
        content.only(KEYS)
        if content.text("format") != FORMAT:
            raise InvalidInput(f"is of format '{content.text('format')}'; expected '{FORMAT}'")
        for key, least in (("most", 1), ("challengers", 0)):
            number = content.raw(key)
            if not isinstance(number, int) or number < least:
                raise InvalidInput(
                    f"{key} is {number!r}; it must be a whole number, {least} or more"
                )
        sets = content.raw("weights")
        if not isinstance(sets, list) or not all(isinstance(given, dict) for given in sets):
            raise InvalidInput("weights must be a list of sets, each with numbers by name")
        for key, value in (pair for given in sets for pair in given.items()):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InvalidInput(f"weight '{key}' is {value!r}; it must be a number")
        return Card(
            name=content.text("name"),
            about=content.text("about"),
            weights=sets,
            most=content.raw("most"),
            challengers=content.raw("challengers"),
            homes=_yes_or_no(content.raw("homes"), "homes") if "homes" in content else False,
            choice=_known_choice(content.text("choice")) if "choice" in content else None,
            caution=float(content.floats("caution").reshape(())) if "caution" in content else 0.0,
            moves=_moves(content.raw("moves")) if "moves" in content else MOVES,
            training=content.child("training").content,
        )


def _yes_or_no(given: Any, key: str) -> bool:
    if not isinstance(given, bool):
        raise InvalidInput(f"{key} is {given!r}; it must be true or false")
    return given


def _known_choice(choice: str) -> str:
    if choice not in {"plans", "turns"}:
        raise InvalidInput(f"choice is '{choice}'; it must be 'plans' or 'turns'")
    return choice


def _moves(given: Any) -> tuple[int, int]:
    if (
        not isinstance(given, list)
        or [type(x) for x in given] != [int, int]
        or min(given) < 0
        or max(given) == 0
    ):
        raise InvalidInput(f"moves is {given!r}; it must be two whole numbers, not both 0")
    return given[0], given[1]


def load_workflow_policy(path: str | Path) -> ReplanningPolicy:
    """Load a policy from its card; nothing in it is run."""
    card, place = read_card(path), Path(path).with_suffix(".safetensors")
    options = PlanOptions(window=card.most, contenders=card.challengers, affinity=card.homes)
    if card.choice is None:
        with naming(str(place.with_suffix(".json"))):
            return ReplanningPolicy(card.name, card.weights, options)
    with naming(str(place)):
        arrays = read_arrays(place)
        if card.choice == "turns":
            return TwoStageDqn(card.name, arrays, card.weights, options)
        options = replace(options, moves=card.moves)
        return SwitchPolicy(card.name, arrays, card.weights, options, margin=card.caution)


def find_card(name_or_path: str | Path) -> Path | None:
    """The card of a workflow policy, shipped or at a path; None when it is another kind of policy."""
    place = SHIPPED / f"{name_or_path}.json" if Path(name_or_path).parent == Path() else Path()
    if not place.is_file():
        place = Path(name_or_path)
        place = (
            place.with_suffix(".json")
            if place.suffix in {".safetensors", ".json"}
            else place.with_name(place.name + ".json")
        )
    if not place.is_file():
        return None
    with naming(str(place)):
        return place if f'"{FORMAT}"' in decode_text(read_bytes(place))[:200] else None


@POLICIES.register("tuned-list")
def rule() -> ReplanningPolicy:
    """List scheduling at every event, with weights found by CMA-ES."""
    return load_workflow_policy(SHIPPED / "tuned-list")


@POLICIES.register("portfolio")
def portfolio() -> ReplanningPolicy:
    """Several plans at every event, by different weights; the best predicted is followed."""
    return load_workflow_policy(SHIPPED / "portfolio")


@POLICIES.register("portfolio-makespan")
def portfolio_makespan() -> ReplanningPolicy:
    """As `portfolio`, for the makespan of all jobs in place of the completion of each."""
    aimed = load_workflow_policy(SHIPPED / "portfolio").aimed_at("makespan")
    aimed.name = "portfolio-makespan"
    return aimed


@POLICIES.register("replan-switch")
def dqn() -> ReplanningPolicy:
    """A Q-network decides at every event whether to keep a plan or to plan as `portfolio`."""
    return load_workflow_policy(SHIPPED / "replan-switch")


@POLICIES.register("dqn")
def dqn_document() -> ReplanningPolicy:
    """Q-networks choose a ready task, then a device, or to wait; reward of the document."""
    return load_workflow_policy(SHIPPED / "dqn")
