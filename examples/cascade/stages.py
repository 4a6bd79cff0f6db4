"""The stages: three networks of growing size; an image goes on to the next one until one is sure.

An image is 1024 bytes, or 32 rows of 32 numbers between 0 and 255.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

SHAPES = ("circle", "square", "triangle", "cross")
SURE = 0.9
"""Probability from which on an answer is final."""


def load_small(unit: Any) -> onnxruntime.InferenceSession:
    return load("small", unit.threads)


def load_medium(unit: Any) -> onnxruntime.InferenceSession:
    return load("medium", unit.threads)


def load_large(unit: Any) -> onnxruntime.InferenceSession:
    return load("large", unit.threads)


def load(name: str, threads: int) -> onnxruntime.InferenceSession:
    """Load a network for a number of threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    path = str(Path(__file__).with_name(f"{name}.onnx"))
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def classify(model: onnxruntime.InferenceSession, images: list[Any]) -> list[tuple[Any, str]]:
    """Return the answer for each image, or the image itself if the network is not sure."""
    pixels = np.stack([pixels_of(image) for image in images])
    (probability,) = model.run(None, {"image": pixels})
    best, most = probability.argmax(1).tolist(), probability.max(1).tolist()
    answers = [
        {"shape": SHAPES[b], "probability": round(p, 4)} for b, p in zip(best, most, strict=True)
    ]
    return [
        (answer, "sure") if p >= SURE else (image, "unsure")
        for image, answer, p in zip(images, answers, most, strict=True)
    ]


def decide(model: onnxruntime.InferenceSession, images: list[Any]) -> list[tuple[Any, None]]:
    """Return the answer for each image, sure or not."""
    (probability,) = model.run(None, {"image": np.stack([pixels_of(image) for image in images])})
    rows = zip(probability.argmax(1).tolist(), probability.max(1).tolist(), strict=True)
    return [({"shape": SHAPES[b], "probability": round(p, 4)}, None) for b, p in rows]


def pixels_of(image: Any) -> np.ndarray:
    """Return an image as the networks take it."""
    if isinstance(image, bytes):
        image = np.frombuffer(image, np.uint8)
    return np.asarray(image, np.float32).reshape(1, 32, 32)
