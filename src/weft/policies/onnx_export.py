"""`weft.export_onnx`: the networks of a policy as one ONNX file.

The file has the names of the inputs. Each network of a policy is one input and one output of the
file; rows are independent. The metadata holds, as JSON, the names of the numbers in each input row
under ``features``, and what the caller does with the outputs under ``use``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import Unsupported
from weft.formats.onnx_graph import node, write_model
from weft.policies.conditional.network_policy import NetworkPolicy
from weft.policies.conditional.networks import CLIP, Network, arrays_of
from weft.policies.conditional.pair_network import PAIR_FEATURES
from weft.policies.conditional.pair_view import PairNetworkPolicy
from weft.policies.graph.network import WIDTH, ReadyFeatures
from weft.policies.graph.policy import GraphPolicy
from weft.policies.load import load_policy
from weft.policies.q_network import QNetwork
from weft.policies.replanning.policy import SwitchPolicy
from weft.policies.replanning.shrinkage import FEATURES as SPREAD_FEATURES
from weft.policies.replanning.switch import FEATURES as SWITCH_FEATURES
from weft.policies.search.policy import SearchPolicy
from weft.policies.two_stage.decision import DeviceFeatures, TaskFeatures
from weft.policies.two_stage.dqn import TwoStageDqn
from weft.sim.view import Policy
from weft.typed import typed

Array = NDArray[Any]


class OnnxPart(NamedTuple):
    """One network: an input of named numbers, an output, and its arrays.

    The arrays have the names of `arrays_of`.
    """

    input: str
    output: str
    arrays: dict[str, Array]
    features: list[str]
    shape: tuple[int, ...]


@typed
def export_onnx(policy: str | PathLike[str] | Policy, path: str | PathLike[str]) -> Path:
    """Write the networks of a policy to an ONNX file; return its path.

    The policy is a name, a path or an object. Inputs and outputs are float32 with one row per
    observation, candidate or task:

    - a network for one stream: "observation" -> "logits" (units, actions); mask the actions, then
      each unit takes the best
    - `conditional-any` and tuned scores: "pairs" -> "score"; the best pair above 0 is taken
    - `dqn`: "task" -> "task_value", "device" -> "device_value"; the highest value is taken
    - `replan-switch`: "option" -> "value" of planning again and of keeping
    - `search-replanning`: "pair_spread" -> "pair_prior", "device_spread" -> "device_prior": the
      logarithm of the observations that an estimate counts for
    - `decima`, `lachesis`: each of the eight networks of the message passing by its name

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_onnx("conditional-pi4", f"{folder}/pi4.onnx").name
    'pi4.onnx'
    """
    found = load_policy(policy)
    parts, use = _parts(found), _USES.get(type(found), "take the best")
    target = Path(fspath(path))
    constants: dict[str, Array] = {}
    nodes: list[bytes] = []
    for part in parts:
        _add_network(part, nodes, constants)
    metadata = {
        "policy": found.name,
        "use": use,
        "features": json.dumps({part.input: part.features for part in parts}),
    }
    write_model(
        target,
        nodes,
        constants=constants,
        inputs={part.input: ["rows", len(part.features)] for part in parts},
        outputs={part.output: ["rows", *part.shape] for part in parts},
        name="policy",
        metadata=metadata,
    )
    return target


_USES: dict[type, str] = {
    NetworkPolicy: "mask the actions; each unit takes its best (kinds in order, then to wait)",
    PairNetworkPolicy: "the pair of unit and kind with the highest score above 0, repeatedly",
    TwoStageDqn: "the task, then the device, with the highest value",
    SwitchPolicy: "keep the plan if its value beats that of planning again",
    SearchPolicy: "exp(prior), from exp(-5) to exp(5), is the number of observations that the "
    "estimate of a duration counts for",
    GraphPolicy: "message passing from the last tasks to the first; the highest score first",
}


def _parts(policy: Policy) -> list[OnnxPart]:
    if isinstance(policy, PairNetworkPolicy):
        names = [name.replace("_", " ") for name in PAIR_FEATURES]
        return [OnnxPart("pairs", "score", arrays_of(policy.network), names, (1,))]
    if isinstance(policy, NetworkPolicy):
        n = policy.network
        names = _observation_names(policy)
        return [OnnxPart("observation", "logits", arrays_of(n), names, (n.units, n.actions))]
    if isinstance(policy, TwoStageDqn):
        return [
            _q_part(policy.network, 0, "task", "task_value", TaskFeatures._fields),
            _q_part(policy.network, 1, "device", "device_value", DeviceFeatures._fields),
        ]
    if isinstance(policy, SwitchPolicy) and policy.switch_network is not None:
        return [_q_part(policy.switch_network, 0, "option", "value", SWITCH_FEATURES)]
    if isinstance(policy, SearchPolicy) and policy.shrinkage_network is not None:
        return [
            _q_part(policy.shrinkage_network, k, f"{what}_spread", f"{what}_prior", SPREAD_FEATURES)
            for k, what in enumerate(("pair", "device"))
        ]
    if isinstance(policy, GraphPolicy):
        network = policy.learned.network
        return [
            _graph_part(name, part) for name, part in zip(network._fields, network, strict=True)
        ]
    raise Unsupported(f"policy '{policy.name}' has no network to export")


def _q_part(network: QNetwork, which: int, given: str, made: str, names: Sequence[str]) -> OnnxPart:
    last = network.w3[which]
    arrays = {
        "0.weight": network.w1[which].T,
        "0.bias": network.b1[which],
        "1.weight": network.w2[which].T,
        "1.bias": network.b2[which],
        "2.weight": last[None, :],
        "2.bias": np.zeros(1, np.float32),
    }
    return OnnxPart(given, made, arrays, list(names), (1,))


def _graph_part(name: str, network: Network) -> OnnxPart:
    size = int(network.sizes[0])
    names = [f"{name} input {k}" for k in range(size)]
    if name == "score":  # the present features come first, then three summaries
        seen = size - 3 * WIDTH
        names[:seen] = ReadyFeatures._fields[:seen]
    return OnnxPart(name, f"{name}_out", arrays_of(network), names, (int(network.sizes[-1]),))


def _observation_names(policy: NetworkPolicy) -> list[str]:
    """Return the name of each number of an observation, in the order of `observe`."""
    o, n = policy.options, policy.network
    kinds, units = range(n.actions - 1), range(n.units)
    names = [f"queue of kind {k}" for k in kinds]
    names += [f"mean age of kind {k}" for k in kinds]
    names += [f"age of task {i} of kind {k}" for k in kinds for i in range(o.ages)]
    tail: list[str] = []
    if o.units:
        for d in units:
            tail += [f"unit {d} busy", *(f"unit {d} runs kind {k}" for k in kinds)]
        tail += ["jobs", *(["since the last arrival"] if o.detail else [])]
    estimates = int(n.sizes[0]) - len(names) - len(tail)
    return names + [f"estimate {k}" for k in range(estimates)] + tail


def _add_network(part: OnnxPart, nodes: list[bytes], constants: dict[str, Array]) -> None:
    """Append the operators of one network, with names that begin with its input's."""
    own = {
        f"{part.input}.{key}": np.ascontiguousarray(array, np.float32)
        for key, array in part.arrays.items()
    }
    constants |= own
    here = part.input
    if f"{part.input}.input.mean" in own:
        low, high = f"{part.input}.low", f"{part.input}.high"
        constants |= {low: np.asarray(-CLIP), high: np.asarray(CLIP)}
        nodes.append(node("Sub", [here, f"{part.input}.input.mean"], f"{part.input}.centred"))
        scale = [f"{part.input}.centred", f"{part.input}.input.scale"]
        nodes.append(node("Mul", scale, f"{part.input}.scaled"))
        here = f"{part.input}.x0"
        nodes.append(node("Clip", [f"{part.input}.scaled", low, high], here))
    layers = sum(key.endswith(".weight") for key in part.arrays)
    for i in range(layers):
        out = f"{part.input}.y{i}"
        weights = [f"{part.input}.{i}.weight", f"{part.input}.{i}.bias"]
        nodes.append(node("Gemm", [here, *weights], out, transB=1))
        here = out
        if i < layers - 1:
            here = f"{part.input}.x{i + 1}"
            nodes.append(node("Relu", [out], here))
    constants[f"{part.input}.shape"] = np.array([-1, *part.shape], np.int64)
    nodes.append(node("Reshape", [here, f"{part.input}.shape"], part.output))
