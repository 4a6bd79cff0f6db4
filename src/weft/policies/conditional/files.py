"""Policies on disk: `NAME.safetensors` holds the numbers, `NAME.json` beside it the card: what they mean and how they came about."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.errors import InvalidInput, UnknownName
from weft.formats.safetensors_file import read_arrays, write_arrays
from weft.policies.conditional.networks import Network, arrays_of, network_of
from weft.registry import closest

FORMAT, VERSION = "weft-policy", 1
SHIPPED = Path(__file__).parents[1] / "bundled"
ALIASES = {"conditional": "conditional-best"}
_KEYS = {
    "format",
    "version",
    "name",
    "about",
    "architecture",
    "observation",
    "environment",
    "training",
}


@dataclass(frozen=True, eq=False)
class Learned:
    """A network with its card.

    Attributes
    ----------
    name : what it is called
    network : the arrays it acts through (see `weft.policies.conditional.networks`)
    observation : name and version of what it reads, e.g. ``{"name": "estimate", "version": 1}``
    environment : the environment it was trained in
    training : how: seeds, samples, seconds, settings, curve
    """

    name: str
    network: Network
    observation: dict[str, Any]
    environment: dict[str, Any]
    training: dict[str, Any]
    about: str = ""

    @property
    def idle(self) -> Any:
        """The idle option of the training environment (cards of version 1 call it `waiting`)."""
        found = self.environment.get("idle", self.environment.get("waiting", "event"))
        return "block" if found == "paper" else found

    def card(self) -> dict[str, Any]:
        """Return what the JSON file says."""
        sizes = self.network.sizes.tolist()
        architecture = {
            "kind": "relu",
            "inputs": sizes[0],
            "hidden": sizes[1:-1],
            "units": self.network.units,
            "actions": self.network.actions,
        }
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "about": self.about,
            "architecture": architecture,
            "observation": self.observation,
            "environment": self.environment,
            "training": self.training,
        }


def save_policy(policy: Learned, path: str | Path) -> Path:
    """Write `path` (ending in .safetensors, or without an ending) and its card beside it; return the path of the numbers."""
    numbers = _numbers_path(Path(path))
    write_arrays(numbers, arrays_of(policy.network))
    card = json.dumps(policy.card(), indent=1, allow_nan=False, ensure_ascii=False)
    numbers.with_suffix(".json").write_text(card + "\n", encoding="utf-8")
    return numbers


def read_policy(path: str | Path) -> Learned:
    """Read a policy from its two files; nothing in them is run."""
    numbers = _numbers_path(Path(path))
    place = numbers.with_suffix(".json")
    card = _read_card(place)
    shape = card["architecture"]
    known = {"kind", "inputs", "hidden", "units", "actions"}
    if not isinstance(shape, dict) or set(shape) != known or shape["kind"] != "relu":
        raise InvalidInput(
            f"{place}: architecture must be of kind 'relu' with {', '.join(sorted(known))}"
        )
    for key in ("inputs", "units", "actions"):
        if type(shape[key]) is not int or shape[key] < 1:
            raise InvalidInput(
                f"{place}: architecture.{key} is {shape[key]!r}; it must be a whole number, 1 or more"
            )
    network = network_of(read_arrays(numbers), units=shape["units"], actions=shape["actions"])
    if network.sizes[:-1].tolist() != [shape["inputs"], *shape["hidden"]]:
        raise InvalidInput(
            f"{place}: its layers are {[shape['inputs'], *shape['hidden']]}, those of {numbers.name} {network.sizes[:-1].tolist()}"
        )
    return Learned(
        card["name"],
        network,
        card["observation"],
        card["environment"],
        card["training"],
        card["about"],
    )


def shipped() -> list[str]:
    """Names of the policies that come with weft, sorted."""
    return sorted(path.stem for path in SHIPPED.glob("*.safetensors"))


def find_policy(name_or_path: str | Path) -> Path:
    """Return the file of a shipped name or a path."""
    name = ALIASES.get(str(name_or_path), str(name_or_path))
    if name in shipped():
        return SHIPPED / f"{name}.safetensors"
    path = _numbers_path(Path(name_or_path))
    if path.is_file():
        return path
    if path.parent != Path() or name.endswith((".safetensors", ".json")):
        raise InvalidInput(f"{path}: no such file")
    raise UnknownName(f"unknown learned policy '{name}'{closest(name, shipped())}")


def _numbers_path(path: Path) -> Path:
    if path.suffix in (".safetensors", ".json"):
        return path.with_suffix(".safetensors")
    return path.with_name(path.name + ".safetensors")


def _read_card(place: Path) -> dict[str, Any]:
    try:
        card = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput(
            f"{place}: no such file; a policy is a .safetensors file with its .json beside it"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{place}: not readable as JSON ({error})") from None
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        raise InvalidInput(f"{place}: not the card of a policy (its format is not '{FORMAT}')")
    if card.get("version") != VERSION:
        raise InvalidInput(
            f"{place}: version {card.get('version')!r} of the format; this weft reads version {VERSION}"
        )
    for key in sorted(set(card) - _KEYS):
        raise UnknownName(f"{place}: unknown key '{key}'{closest(key, sorted(_KEYS))}")
    for key in sorted(_KEYS - set(card)):
        raise InvalidInput(f"{place}: key '{key}' is missing")
    for key in ("observation", "environment", "training"):
        if not isinstance(card[key], dict):
            raise InvalidInput(f"{place}: '{key}' must be a table")
    return card
