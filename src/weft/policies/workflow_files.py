"""Policies for workflows on disk: a card in JSON, with the weights of the plan; for `dqn` the numbers of its networks beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput
from weft.formats.record import Record
from weft.formats.safetensors_file import read_arrays, write_arrays
from weft.formats.source import decode_text, naming, parse_json, read_bytes
from weft.policies.dqn_policy import Dqn
from weft.policies.foresight import WEIGHTS
from weft.policies.foresight_policy import Foresight, Portfolio
from weft.policies.policy import POLICIES

FORMAT = "weft-workflow-policy-1"
SHIPPED = Path(__file__).parent / "workflow_policies"
VARIATIONS: tuple[Mapping[str, float], ...] = (
    {},
    {"ahead": 0.3, "together": 0.05},
    {"ahead": 1.1},
    {"least": 0.0, "gap": 0.1},
    {"together": 0.5},
    {"moving": 0.6, "longer": -0.1},
    {"ahead": 0.0, "together": 0.0, "gap": 0.0, "longer": 0.0, "least": 0.0, "moving": 0.0},
    {"ahead": 1.0, "together": 0.4, "gap": 0.0},
)
"""What the plans of `portfolio` change of the weights of `rule`: chosen by hand, for their difference; the seventh is near to HEFT."""


def save_rule(path: str | Path, name: str, weights: Mapping[str, float], *, most: int, about: str, training: Mapping[str, Any]) -> Path:
    """Write the card of a rule: weights of planning in sight, and how they came about."""
    place = Path(path).with_suffix(".json")
    _write(place, {"name": name, "about": about, "most": most, "weights": dict(weights), "training": dict(training)})
    return place


def save_dqn(
    path: str | Path,
    name: str,
    arrays: Mapping[str, NDArray[np.float32]],
    weights: Mapping[str, float],
    *,
    caution: float,
    most: int,
    about: str,
    training: Mapping[str, Any],
) -> Path:
    """Write the networks (.safetensors) and the card beside them (.json)."""
    place = Path(path).with_suffix(".json")
    write_arrays(place.with_suffix(".safetensors"), dict(arrays))
    card = {"name": name, "about": about, "most": most, "caution": caution, "weights": dict(weights), "training": dict(training)}
    _write(place, card)
    return place


def load_workflow_policy(path: str | Path) -> Foresight:
    """Load a rule or a DQN from its card; nothing in it is run."""
    place = Path(path).with_suffix(".json")
    with naming(str(place)):
        card = Record(parse_json(decode_text(read_bytes(place))))
        card.only(("format", "name", "about", "most", "caution", "weights", "training"))
        if card.text("format") != FORMAT:
            raise InvalidInput(f"is of format '{card.text('format')}'; expected '{FORMAT}'")
        weights, most = card.child("weights").content, card.raw("most")
        if not isinstance(most, int) or most < 1:
            raise InvalidInput(f"most is {most!r}; it must be a whole number, 1 or more")
        for key, value in weights.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InvalidInput(f"weight '{key}' is {value!r}; it must be a number")
        if "caution" not in card:
            return Foresight(card.text("name"), weights, most=most)
        caution = float(card.floats("caution").reshape(()))
    with naming(str(place.with_suffix(".safetensors"))):
        return Dqn(card.text("name"), read_arrays(place.with_suffix(".safetensors")), weights, caution=caution, most=most)


def find_card(name_or_path: str | Path) -> Path | None:
    """The card of a workflow policy, shipped or at a path; None when it is another kind of policy."""
    place = SHIPPED / f"{name_or_path}.json" if Path(name_or_path).parent == Path() else Path()
    if not place.is_file():
        place = Path(name_or_path)
        place = place.with_suffix(".json") if place.suffix in {".safetensors", ".json"} else place.with_name(place.name + ".json")
    if not place.is_file():
        return None
    with naming(str(place)):
        return place if f'"{FORMAT}"' in decode_text(read_bytes(place))[:200] else None


def training_record(path: str | Path) -> dict[str, Any]:
    """How a policy came about."""
    place = Path(path).with_suffix(".json")
    with naming(str(place)):
        record: dict[str, Any] = parse_json(decode_text(read_bytes(place)))["training"]
    return record


def _write(place: Path, card: dict[str, Any]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps({"format": FORMAT, **card}, indent=1, allow_nan=False) + "\n", encoding="utf-8")


@POLICIES.register("rule")
def rule() -> Foresight:
    """Planning in sight at every event, with weights found by evolution."""
    return load_workflow_policy(SHIPPED / "rule")


@POLICIES.register("dqn")
def dqn() -> Foresight:
    """Q-networks choose a ready task, then a device, or to wait; on top of the plan of `rule`."""
    return load_workflow_policy(SHIPPED / "dqn")


@POLICIES.register("portfolio")
def portfolio() -> Foresight:
    """Eight plans at every event, with the weights of `rule` and seven variations; the one that promises most is followed."""
    weights = dict(zip(WEIGHTS, load_workflow_policy(SHIPPED / "rule").weights.tolist(), strict=True))
    return Portfolio("portfolio", [{**weights, **change} for change in VARIATIONS], most=160)
