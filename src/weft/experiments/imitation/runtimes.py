"""DeepSched's networks in ONNX files, and planning by torch or onnxruntime.

In every runtime, a plan calls the encoder once, and the scorer once per task.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weft.experiments.imitation.paper import PaperNet
from weft.experiments.onnx_session import onnx_session
from weft.formats.onnx_graph import node, write_model
from weft.learn.imitation.deepsched.training import DeepNet
from weft.model import Problem, ProblemArrays
from weft.model.columns import FloatArray, Numbers
from weft.planners.imitation.deepsched.features import (
    PAIR_FEATURES,
    TASK_FEATURES,
    earliest_starts,
    pair_features,
    task_features,
)
from weft.planners.imitation.deepsched.network import HEADS, DeepNetwork
from weft.planners.lists.insertion import Rows, arrivals, durations_of, empty_rows, place
from weft.planners.lists.ranks import rank_order
from weft.sim.kernel.gaps import Timeline, free_from, idle_timeline
from weft.sim.kernel.jit import njit

Encoder = Callable[[Numbers], Numbers]
Scorer = Callable[[Numbers, Numbers], Numbers]


def write_deep_onnx(network: DeepNetwork, folder: Path) -> tuple[Path, Path]:
    """Write the files of the encoder and the scorer.

    The encoder maps "tasks" to "outputs", the scorer "context" and "pairs" to "score".
    """
    encoder, scorer = folder / "deepsched-encoder.onnx", folder / "deepsched-scorer.onnx"
    outputs, hidden = network.out_bias.size, network.vote.size
    nodes = [
        node("Sub", ["tasks", "mean"], "centred"),
        node("Mul", ["centred", "scale"], "x"),
        node("Gemm", ["x", "first", "first_bias"], "a"),
        node("Relu", ["a"], "b"),
        node("Gemm", ["b", "second", "second_bias"], "c"),
        node("Relu", ["c"], "d"),
        node("Gemm", ["d", "out", "out_bias"], "e"),
        node("MatMul", ["x", "skip"], "f"),
        node("Add", ["e", "f"], "outputs"),
    ]
    constants = {
        name: array
        for name, array in network._asdict().items()
        if name not in {"pair", "vote", "direct"}
    }
    write_model(
        encoder,
        nodes,
        constants=constants,
        inputs={"tasks": ["n", len(TASK_FEATURES)]},
        outputs={"outputs": ["n", outputs]},
        name="deepsched-encoder",
    )
    nodes = [
        node("MatMul", ["pair", "pairs"], "a"),
        node("Add", ["a", "context"], "b"),
        node("Relu", ["b"], "c"),
        node("MatMul", ["vote", "c"], "d"),
        node("MatMul", ["direct", "pairs"], "e"),
        node("Add", ["d", "e"], "score"),
    ]
    write_model(
        scorer,
        nodes,
        constants={
            "pair": network.pair,
            "vote": network.vote[None],
            "direct": network.direct[None],
        },
        inputs={"context": [hidden, 1], "pairs": [len(PAIR_FEATURES), "p"]},
        outputs={"score": [1, "p"]},
        name="deepsched-scorer",
    )
    return encoder, scorer


def write_paper_onnx(net: PaperNet, path: Path) -> Path:
    """Write the document's network: "machines" and "tasks" -> "machine" and "times"."""
    weights: dict[str, Any] = {
        name: value.detach().numpy() for name, value in net.state_dict().items()
    }
    hidden = net.task_gru.hidden_size
    gru = {
        key: _gates(weights, key, hidden)
        for key in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    }
    constants = {name: value for name, value in weights.items() if "gru" not in name} | {
        "gru_w": gru["weight_ih"],
        "gru_r": gru["weight_hh"],
        "gru_b": np.concatenate([gru["bias_ih"], gru["bias_hh"]], axis=1),
        "one": np.array([1], np.int64),
        "flat": np.array([-1, 2 * hidden], np.int64),
    }
    nodes = [
        node("Conv", ["machines", "machine_conv.weight", "machine_conv.bias"], "m0"),
        node("Relu", ["m0"], "m1"),
        node("Flatten", ["m1"], "m2", axis=1),
        node("Gemm", ["m2", "machine_full.weight", "machine_full.bias"], "m3", transB=1),
        node("Relu", ["m3"], "m4"),
        node("Transpose", ["tasks"], "t0", perm=[1, 0, 2]),
        node(
            "GRU",
            ["t0", "gru_w", "gru_r", "gru_b"],
            ["", "t1"],
            hidden_size=hidden,
            direction="bidirectional",
            linear_before_reset=1,
        ),
        node("Transpose", ["t1"], "t2", perm=[1, 0, 2]),
        node("Reshape", ["t2", "flat"], "t3"),
        node("Gemm", ["t3", "task_full.weight", "task_full.bias"], "t4", transB=1),
        node("Relu", ["t4"], "t5"),
        node("Unsqueeze", ["m4", "one"], "s0"),
        node("Unsqueeze", ["t5", "one"], "s1"),
        node("Concat", ["s0", "s1"], "s", axis=1),
        node("Conv", ["s", "classifier.weight", "classifier.bias"], "machine"),
        node("Conv", ["s", "regressor.weight", "regressor.bias"], "times"),
    ]
    write_model(
        path,
        nodes,
        constants=constants,
        inputs={
            "machines": ["batch", 3, net.machines],
            "tasks": ["batch", net.tasks, net.machines + 3],
        },
        outputs={"machine": ["batch", net.machines, net.tasks], "times": ["batch", 2, net.tasks]},
        name="deepsched-paper",
    )
    return path


def _gates(weights: dict[str, Any], key: str, hidden: int) -> Any:
    """Stack both directions, with the gates in ONNX's order.

    torch orders them reset, update, new; ONNX update, reset, new.
    """
    both = []
    for end in ("", "_reverse"):
        whole = weights[f"task_gru.{key}_l0{end}"]
        both.append(
            np.concatenate([whole[hidden : 2 * hidden], whole[:hidden], whole[2 * hidden :]])
        )
    return np.stack(both)


def onnx_runtime(network: DeepNetwork, folder: Path) -> tuple[Encoder, Scorer]:
    """Return the encoder and the scorer in onnxruntime."""
    encoder, scorer = (onnx_session(path) for path in write_deep_onnx(network, folder))

    def encode(rows: Numbers) -> Numbers:
        found: Numbers = encoder.run(None, {"tasks": rows})[0]
        return found

    def score(context: Numbers, pairs: Numbers) -> Numbers:
        found: Numbers = scorer.run(None, {"context": context[:, None], "pairs": pairs})[0][0]
        return found

    return encode, score


def use_one_thread() -> None:
    """Make torch compute on one thread, as the other runtimes do here."""
    torch.set_num_threads(1)


def net_of(network: DeepNetwork) -> DeepNet:
    """Return the torch module with the weights of a network."""
    made = DeepNet(
        network.mean, 1.0 / network.scale, wide=network.first_bias.size, hidden=network.vote.size
    )
    with torch.no_grad():
        made.get_buffer("scale").copy_(torch.as_tensor(network.scale))
        for name, layer in (("first", made.first), ("second", made.second), ("out", made.out)):
            layer.weight.copy_(torch.as_tensor(getattr(network, name).T.copy()))
            layer.bias.copy_(torch.as_tensor(getattr(network, f"{name}_bias")))
        made.skip.weight.copy_(torch.as_tensor(network.skip.T.copy()))
        made.pair.weight.copy_(torch.as_tensor(network.pair))
        made.vote.weight.copy_(torch.as_tensor(network.vote[None]))
        made.direct.weight.copy_(torch.as_tensor(network.direct[None]))
    return made


def torch_runtime(net: DeepNet) -> tuple[Encoder, Scorer]:
    """Return the encoder and the scorer in torch."""

    @torch.inference_mode()
    def encode(rows: Numbers) -> Numbers:
        return np.asarray(torch.cat(net.encode(torch.from_numpy(rows)), 1).numpy())

    @torch.inference_mode()
    def score(context: Numbers, pairs: Numbers) -> Numbers:
        return np.asarray(
            net.score(torch.from_numpy(context)[None], torch.from_numpy(pairs)[None])[0].numpy()
        )

    return encode, score


def plan_through(problem: Problem, encode: Encoder, score: Scorer) -> Rows:
    """Plan as `deepsched` does, with the network in another runtime."""
    features = task_features(problem)
    outputs = encode(features.rows)
    context = np.ascontiguousarray(outputs[:, HEADS:])
    a, n, p = problem.arrays, problem.n, problem.p
    rows, timeline = empty_rows(n), idle_timeline(p, n)
    ready, seconds, begin, free = np.empty(p), np.empty(p), np.empty(p), np.zeros(p)
    pairs = np.empty((len(PAIR_FEATURES), p), np.float32)
    for task in rank_order(problem, outputs[:, 0].astype(np.float64)).tolist():
        _look(a, task, rows, timeline, features.scale, ready, seconds, begin, free, pairs)
        found = score(context[task], pairs)
        device = int(np.where(seconds < np.inf, found, -np.inf).argmax())
        _put(timeline, rows, task, device, begin, seconds, free)
    return rows


@njit
def _look(
    a: ProblemArrays,
    task: int,
    rows: Rows,
    timeline: Timeline,
    scale: FloatArray,
    ready: FloatArray,
    seconds: FloatArray,
    begin: FloatArray,
    free: FloatArray,
    pairs: Numbers,
) -> None:
    arrivals(a, task, rows, ready)
    durations_of(a, task, seconds)
    earliest_starts(timeline, ready, seconds, begin)
    pair_features(ready, begin, free, seconds, scale[task], pairs)


@njit
def _put(
    timeline: Timeline,
    rows: Rows,
    task: int,
    device: int,
    begin: FloatArray,
    seconds: FloatArray,
    free: FloatArray,
) -> None:
    place(timeline, rows, task, device, begin[device], seconds[device])
    free[device] = free_from(timeline, device)
