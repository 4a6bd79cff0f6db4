"""Decima-DEFT and Lachesis: a graph network picks the task, DEFT the device."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.errors import InvalidInput
from weft.formats.safetensors_file import read_arrays, write_arrays
from weft.model import Workload
from weft.policies.graph.deft import (
    DeftPolicy,
    PlacementBuffers,
    commit_decisions,
    dispatch,
    observe,
)
from weft.policies.graph.network import (
    GraphNetwork,
    GraphState,
    graph_arrays_of,
    graph_network_of,
    layer_sizes,
    make_graph_state,
    sort_by_rating,
)
from weft.policies.policy import POLICIES
from weft.sim.kernel.events import MOMENT, advance
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.tables import Sim

FORMAT, VERSION = "weft-graph-policy", 1
GRAPHS = Path(__file__).parents[1] / "bundled"
"""Where the networks that come with weft are."""

_KEYS = {"format", "version", "name", "kind", "about", "layers", "training"}


@dataclass(frozen=True, eq=False)
class LearnedGraph:
    """A graph network with its card: its kind ("decima" or "lachesis") and how it was trained."""

    name: str
    kind: str
    network: GraphNetwork
    training: dict[str, Any]
    about: str = ""


class GraphPolicy(DeftPolicy):
    """Place ready tasks by DEFT, in the order of their rating by a graph network.

    Ratings are made once per moment. A network trained with softmax choices picks without
    replacement; the order by rating is its most probable order.
    """

    def __init__(self, learned: LearnedGraph) -> None:
        self.learned = learned
        self.name = learned.name

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Embed every task."""
        super().begin(workload, seed=seed)
        sim, learned = self._tables.sim, self.learned
        self._graph = make_graph_state(workload, learned.network, sim, learned.kind)
        self._buffers.key[:] = 0.0

    def _place(self) -> None:
        _rate_and_dispatch(self._tables.sim, self._buffers, self.learned.network, self._graph)

    def live(self, sim: Sim) -> int:
        """Make all decisions of a simulation in compiled code; the same ones as `decide`."""
        return int(_run(sim, self._buffers, self.learned.network, self._graph))


@njit_noalloc
def _rate_and_dispatch(
    sim: Sim, buffers: PlacementBuffers, network: GraphNetwork, graph: GraphState
) -> None:
    sort_by_rating(sim, buffers, network, graph)
    dispatch(sim, buffers)


@njit_noalloc
def _run(sim: Sim, buffers: PlacementBuffers, network: GraphNetwork, graph: GraphState) -> int:
    while True:
        answer = advance(sim)
        if answer != MOMENT:
            return answer
        if sim.world[0].ready > 0 and observe(sim, buffers):
            _rate_and_dispatch(sim, buffers, network, graph)
            commit_decisions(sim, buffers)


# -- on disk -----------------------------------------------------------------


def save_graph(learned: LearnedGraph, path: str | Path) -> Path:
    """Write the numbers (.safetensors) and the card (.json).

    Return the path of the numbers.
    """
    numbers = Path(path).with_suffix(".safetensors")
    numbers.parent.mkdir(parents=True, exist_ok=True)
    write_arrays(numbers, graph_arrays_of(learned.network))
    card = {
        "format": FORMAT,
        "version": VERSION,
        "name": learned.name,
        "kind": learned.kind,
        "about": learned.about,
        "layers": {
            part: one.sizes.tolist()
            for part, one in zip(GraphNetwork._fields, learned.network, strict=True)
        },
        "training": learned.training,
    }
    numbers.with_suffix(".json").write_text(
        json.dumps(card, indent=1, allow_nan=False, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    return numbers


def read_graph(path: str | Path) -> LearnedGraph:
    """Read a graph network from its two files; nothing in them is run."""
    numbers = Path(path).with_suffix(".safetensors")
    card = _read_card(numbers.with_suffix(".json"))
    network = graph_network_of(read_arrays(numbers))
    layers = {
        part: one.sizes.tolist() for part, one in zip(GraphNetwork._fields, network, strict=True)
    }
    needed = layer_sizes(card["kind"])
    ends = {part: (sizes[0], sizes[-1]) for part, sizes in needed.items()}
    if (
        layers != card["layers"]
        or {part: (sizes[0], sizes[-1]) for part, sizes in layers.items()} != ends
    ):
        raise InvalidInput(
            f"{numbers}: its layers are {layers}; the card says {card['layers']}, and "
            f"'{card['kind']}' needs {ends}"
        )
    return LearnedGraph(card["name"], card["kind"], network, card["training"], card["about"])


def _read_card(place: Path) -> dict[str, Any]:
    try:
        card = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput(
            f"{place}: no such file; a graph policy is a .safetensors file with its .json beside it"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{place}: not readable as JSON ({error})") from None
    if not isinstance(card, dict) or (card.get("format"), card.get("version")) != (FORMAT, VERSION):
        raise InvalidInput(
            f"{place}: not the card of a graph policy (format '{FORMAT}', version {VERSION})"
        )
    if set(card) != _KEYS:
        raise InvalidInput(
            f"{place}: its keys are {', '.join(sorted(card))}; expected {', '.join(sorted(_KEYS))}"
        )
    return card


@POLICIES.register("decima")
def decima() -> GraphPolicy:
    """Decima-DEFT: a graph network by mean durations picks the task, DEFT the device."""
    return GraphPolicy(read_graph(GRAPHS / "decima"))


@POLICIES.register("lachesis")
def lachesis() -> GraphPolicy:
    """Lachesis: a graph network with device features picks the task, DEFT the device."""
    return GraphPolicy(read_graph(GRAPHS / "lachesis"))
