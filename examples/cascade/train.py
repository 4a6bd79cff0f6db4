"""Train the three networks of the cascade and write them as ONNX: python train.py [NAME ...]

Each is an echo state network (Jaeger 2001): a recurrent network (a GRU) with random weights reads
the image pixel by pixel, and a linear layer is fitted to what its units have seen. It prints the
accuracy on fresh images. The files that ship with weft were made by this script.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime
from shapes import SHAPES, draw
from stages import PARTS, STEPS, sequence

from weft.formats.onnx_graph import node, write_model

HERE = Path(__file__).parent
MODELS = {"small": (64, 8000), "medium": (128, 8000), "large": (256, 5000)}
"""Units of the recurrent network, and images that the linear layer is fitted to."""
RIDGE = 30.0
SHARP = np.linspace(1.0, 12.0, 45)
"""Factors of the outputs, of which the one with the best probabilities is taken."""


def reservoir(units: int) -> dict[str, np.ndarray]:
    """Return random weights: inputs of unlike strength, gates that mostly stay as they are."""
    rng = np.random.default_rng(units)
    weight = rng.normal(0.0, 1.0, (1, 3 * units, 1))
    recurrent = rng.normal(0.0, 1.0 / np.sqrt(units), (1, 3 * units, units))
    bias = np.zeros((1, 6 * units))
    bias[0, :units] = rng.uniform(0.0, 4.0, units)  # of the update gates: memories of many lengths
    return {
        name: array.astype(np.float32)
        for name, array in (("weight", weight), ("recurrent", recurrent), ("bias", bias))
    }


def export(units: int, readout: np.ndarray, offset: np.ndarray, path: Path) -> None:
    """Write a network that takes the numbers of `sequence` and returns probabilities."""
    constants = {
        **reservoir(units),
        "parts": np.array([PARTS, STEPS // PARTS, -1, units], np.int64),
        "flat": np.array([-1, PARTS * units], np.int64),
        "readout": readout.astype(np.float32),
        "offset": offset.astype(np.float32),
    }
    nodes = [
        node("GRU", ["pixels", "weight", "recurrent", "bias"], "states", hidden_size=units),
        node("Reshape", ["states", "parts"], "by_part"),
        node("ReduceMean", ["by_part"], "means", axes=[1], keepdims=0),
        node("Transpose", ["means"], "by_image", perm=[1, 0, 2]),
        node("Reshape", ["by_image", "flat"], "seen"),
        node("Gemm", ["seen", "readout", "offset"], "score"),
        node("Softmax", ["score"], "probability", axis=1),
    ]
    write_model(
        path,
        nodes,
        constants=constants,
        inputs={"pixels": [STEPS, "batch", 1]},
        outputs={"probability": ["batch", len(SHAPES)], "seen": ["batch", PARTS * units]},
        name=path.stem,
    )


def run(path: Path, images: np.ndarray) -> list[np.ndarray]:
    """Return the probabilities and what the units have seen."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    found = [
        session.run(None, {"pixels": sequence(images[at : at + 8])})
        for at in range(0, len(images), 8)
    ]
    return [np.concatenate(column) for column in zip(*found, strict=True)]


def fitted(seen: np.ndarray, shape: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the readout of ridge regression, and its offset."""
    mean = seen.mean(0)
    x, y = seen - mean, np.eye(len(SHAPES))[shape]
    spread = np.sqrt((x * x).mean())
    gram = x @ x.T / spread**2 + RIDGE * np.eye(len(x))
    readout = x.T @ np.linalg.solve(gram, y - y.mean(0)) / spread**2
    return readout, y.mean(0) - mean @ readout


def likelihood(score: np.ndarray, shape: np.ndarray) -> float:
    """Return the mean logarithm of the probability of the right shape."""
    top = score - score.max(1, keepdims=True)
    log = top - np.log(np.exp(top).sum(1, keepdims=True))
    return float(log[np.arange(len(shape)), shape].mean())


if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        path, (units, count) = HERE / f"{name}.onnx", MODELS[name]
        nothing = np.zeros((PARTS * units, len(SHAPES)))
        export(units, nothing, np.zeros(len(SHAPES)), path)
        images, shape = draw(count + 1000, seed=2)
        seen = run(path, images)[1].astype(float)
        readout, offset = fitted(seen[:count], shape[:count])
        held_back = seen[count:] @ readout + offset
        sharp = max(SHARP, key=lambda s: likelihood(s * held_back, shape[count:]))
        export(units, sharp * readout, sharp * offset, path)
        images, shape = draw(600, seed=1)
        probability = run(path, images)[0]
        right = float((probability.argmax(1) == shape).mean())
        print(
            f"{name}: {right:.1%} right, {path.stat().st_size / 1024:.0f} kB; half are at least "
            f"{np.median(probability.max(1)):.2f} probable",
            flush=True,
        )
