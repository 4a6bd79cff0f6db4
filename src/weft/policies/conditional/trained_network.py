"""Networks for conditional streams with their card, as a `Model` and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.formats.model_file import Model, find_model, read_model, save_model
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import naming
from weft.policies.conditional.networks import Network, arrays_of, network_of
from weft.policies.conditional.pair_network import PAIR_FEATURES
from weft.typed import typed_dataclass

NETWORK, PAIRS = "conditional-network", "conditional-pairs"
"""Kinds of model: a network for one stream, and a network over pairs of unit and kind for any."""


@typed_dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A network with its card.

    Attributes
    ----------
    name : of the policy
    network : see `weft.policies.conditional.networks`
    observation : name and version of its observation, e.g. ``{"name": "steps", "version": 1}``
    environment : the training environment
    training : seeds, samples, seconds, settings, curve
    """

    name: str
    network: Network
    observation: dict[str, Any]
    environment: dict[str, Any]
    training: dict[str, Any]
    about: str = ""

    @property
    def idle(self) -> Any:
        """Return how idle units waited in training: "event" or "block"."""
        return self.environment.get("idle", "event")

    def to_model(self) -> Model:
        """Return the network as a model for a file."""
        sizes = self.network.sizes.tolist()
        architecture = {
            "layers": "relu",
            "inputs": sizes[0],
            "hidden": sizes[1:-1],
            "units": self.network.units,
            "actions": self.network.actions,
        }
        return Model(
            name=self.name,
            kind=PAIRS if self.observation.get("name") == "pairs" else NETWORK,
            about=self.about,
            settings={
                "architecture": architecture,
                "observation": self.observation,
                "environment": self.environment,
            },
            arrays=arrays_of(self.network),
            training=self.training,
        )


def network_of_model(model: Model) -> TrainedNetwork:
    """Build the network of a model; raise if its card is invalid."""
    settings = Record(dict(model.settings))
    settings.only(("architecture", "observation", "environment"))
    shape = settings.child("architecture")
    shape.only(("layers", "inputs", "hidden", "units", "actions"))
    if shape.text("layers") != "relu":
        raise InvalidInput(f"architecture.layers is '{shape.text('layers')}'; it must be 'relu'")
    units, actions = (_count(shape, key) for key in ("units", "actions"))
    network = network_of(model.arrays, units=units, actions=actions)
    if network.sizes[:-1].tolist() != [shape.raw("inputs"), *_hidden(shape)]:
        raise InvalidInput(
            f"architecture does not fit the arrays, whose layers are {network.sizes.tolist()}"
        )
    observation = settings.child("observation").content
    if (observation.get("name") == "pairs") != (model.kind == PAIRS):
        raise InvalidInput(f"a model of kind '{model.kind}' cannot read {shown(observation)}")
    watched = observation.get("watched", [])
    if not isinstance(watched, list) or not all(isinstance(name, str) for name in watched):
        raise InvalidInput(f"observation.watched is {shown(watched)}; it must be a list of tasks")
    environment = settings.child("environment").content
    network, observation = _with_new_features(network, observation)
    return TrainedNetwork(
        model.name, network, observation, environment, dict(model.training), model.about
    )


def _with_new_features(
    network: Network, observation: dict[str, Any]
) -> tuple[Network, dict[str, Any]]:
    """Add features of pairs that came later than a network; it ignores them."""
    known, given = list(PAIR_FEATURES), observation.get("features")
    size = int(network.sizes[0])
    new = len(known) - size
    if observation.get("name") != "pairs" or new <= 0 or given != known[:size]:
        return network, observation
    arrays = arrays_of(network)
    arrays["input.mean"] = np.append(arrays["input.mean"], np.zeros(new))
    arrays["input.scale"] = np.append(arrays["input.scale"], np.ones(new))
    first = arrays["0.weight"]
    arrays["0.weight"] = np.column_stack((first, np.zeros((len(first), new))))
    wider = network_of(arrays, units=network.units, actions=network.actions)
    return wider, {**observation, "features": known}


def _count(record: Record, key: str) -> int:
    value = record.raw(key)
    if type(value) is not int or not 1 <= value <= 10**6:
        raise InvalidInput(f"{record.path(key)} is {shown(value)}; it must be 1 to 1,000,000")
    return value


def _hidden(shape: Record) -> list[Any]:
    hidden = shape.raw("hidden")
    if not isinstance(hidden, list):
        raise InvalidInput(f"{shape.path('hidden')} is {shown(hidden)}; it must be a list of sizes")
    return hidden


def read_network(name_or_path: str | Path) -> TrainedNetwork:
    """Read a bundled network by name, or one from its files.

    Examples
    --------
    >>> read_network("conditional-pi4").network.sizes.tolist()
    [31, 64, 64, 28]
    """
    card = find_model(name_or_path)
    model = read_model(card, NETWORK, PAIRS)
    with naming(str(card)):
        return network_of_model(model)


def save_network(network: TrainedNetwork, path: str | Path) -> Path:
    """Write a network as a model; return the path of its card."""
    return save_model(network.to_model(), path)
