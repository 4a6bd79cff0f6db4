"""Decima-DEFT and Lachesis: a graph network picks the task, DEFT the device."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from weft.errors import InvalidInput
from weft.formats.model_file import Model, save_model
from weft.formats.parsing.record import Record
from weft.model import Workload
from weft.policies.graph.deft import (
    DeftPolicy,
    PlacementBuffers,
    commit_decisions,
    dispatch,
    observe,
)
from weft.policies.graph.network import GraphNetwork, graph_arrays_of, graph_network_of, layer_sizes
from weft.policies.graph.passes import GraphState, make_graph_state, sort_by_rating
from weft.policies.policy import POLICIES, bundled_policy, register_kind
from weft.sim.kernel.events import MOMENT, advance
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.tables import Sim
from weft.typed import typed_class, typed_dataclass

KIND = "graph-network"


@typed_dataclass(frozen=True, eq=False)
class TrainedGraph:
    """A graph network with its card: kind ("decima" or "lachesis") and training."""

    name: str
    kind: str
    network: GraphNetwork
    training: dict[str, Any]
    about: str = ""


@typed_class
class GraphPolicy(DeftPolicy):
    """Place ready tasks by DEFT, in the order of their rating by a graph network.

    Ratings are made once per moment. A network trained with softmax choices picks without
    replacement; the order by rating is its most probable order.
    """

    def __init__(self, learned: TrainedGraph) -> None:
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


# -- as a model ----------------------------------------------------------------


def save_graph(learned: TrainedGraph, path: str | Path) -> Path:
    """Write a graph network as a model; return the path of its card."""
    model = Model(
        name=learned.name,
        kind=KIND,
        about=learned.about,
        settings={"architecture": learned.kind, "layers": _layers(learned.network)},
        arrays=graph_arrays_of(learned.network),
        training=learned.training,
    )
    return save_model(model, path)


def graph_of(model: Model) -> TrainedGraph:
    """Build the graph network of a model, or say what is wrong with its card."""
    settings = Record(dict(model.settings))
    settings.only(("architecture", "layers"))
    kind = settings.text("architecture")
    needed = {part: (sizes[0], sizes[-1]) for part, sizes in layer_sizes(kind).items()}
    network = graph_network_of(model.arrays)
    layers = _layers(network)
    if layers != settings.child("layers").content:
        raise InvalidInput("its layers are not those that its card lists")
    if {part: (sizes[0], sizes[-1]) for part, sizes in layers.items()} != needed:
        raise InvalidInput(f"its layers do not fit a network of kind '{kind}'; train it again")
    return TrainedGraph(model.name, kind, network, dict(model.training), model.about)


def _layers(network: GraphNetwork) -> dict[str, list[int]]:
    return {
        part: one.sizes.tolist() for part, one in zip(GraphNetwork._fields, network, strict=True)
    }


@register_kind(KIND)
def graph_policy_of(model: Model) -> GraphPolicy:
    """Build the policy of a graph network."""
    return GraphPolicy(graph_of(model))


for _name, _summary in (
    ("decima", "Decima-DEFT: a graph network over mean durations picks the task, DEFT the device."),
    (
        "lachesis",
        "Lachesis: a graph network that sees how devices differ picks the task, DEFT the device.",
    ),
):
    POLICIES.register(_name, family="graph", summary=_summary)(partial(bundled_policy, _name))
