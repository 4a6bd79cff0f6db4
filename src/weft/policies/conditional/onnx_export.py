"""Export of networks as ONNX, for other runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from weft.formats.onnx_graph import node, write_model
from weft.policies.conditional.networks import CLIP, Network, arrays_of


def export_onnx(network: Network, path: Path) -> None:
    """Write a network as an ONNX model.

    Its input is "observation" (batch, inputs), its output "logits" (batch, units, actions), both
    float32. The caller applies the mask and takes the best allowed action of each unit.
    """
    layers = len(network.sizes) - 1
    constants: dict[str, Any] = {
        **arrays_of(network),
        "low": np.float32(-CLIP),
        "high": np.float32(CLIP),
        "shape": np.array([-1, network.units, network.actions], np.int64),
    }
    nodes = [
        node("Sub", ["observation", "input.mean"], "centred"),
        node("Mul", ["centred", "input.scale"], "scaled"),
        node("Clip", ["scaled", "low", "high"], "x0"),
    ]
    for i in range(layers):
        last = i == layers - 1
        nodes.append(
            node(
                "Gemm", [f"x{i}", f"{i}.weight", f"{i}.bias"], "flat" if last else f"y{i}", transB=1
            )
        )
        if not last:
            nodes.append(node("Relu", [f"y{i}"], f"x{i + 1}"))
    nodes.append(node("Reshape", ["flat", "shape"], "logits"))
    write_model(
        path,
        nodes,
        constants=constants,
        inputs={"observation": ["batch", int(network.sizes[0])]},
        outputs={"logits": ["batch", network.units, network.actions]},
        name="policy",
    )
