"""The stages: three networks of growing size; an image goes on to the next one until one is sure.

An image is 1024 bytes, or 32 rows of 32 numbers between 0 and 255.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

SHAPES = ("circle", "square", "triangle", "cross")
SHIFTS = sorted(
    ((dy, dx) for dy in range(-3, 4) for dx in range(-3, 4)),
    key=lambda shift: abs(shift[0]) + abs(shift[1]),
)
"""Shifts in pixels, the smallest first: larger stages look at more shifted copies of an image."""
SURE = 0.8
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
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # cores are shared
    path = str(Path(__file__).with_name(f"{name}.onnx"))
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def small(model: onnxruntime.InferenceSession, images: list[Any]) -> list[tuple[Any, str | None]]:
    return unless_unsure(images, classify(model, images, SHIFTS[:1]))


def medium(model: onnxruntime.InferenceSession, images: list[Any]) -> list[tuple[Any, str | None]]:
    return unless_unsure(images, classify(model, images, SHIFTS[:25]))


def large(model: onnxruntime.InferenceSession, images: list[Any]) -> list[tuple[Any, str | None]]:
    return [(answer, None) for answer in classify(model, images, SHIFTS, mirrored=True)]


def classify(
    model: onnxruntime.InferenceSession,
    images: list[Any],
    shifts: list[tuple[int, int]],
    *,
    mirrored: bool = False,
) -> list[dict[str, Any]]:
    """Return the answer for each image: the mean of those for the image, shifted, or mirrored."""
    pixels = np.stack([pixels_of(image) for image in images])
    copies = [np.roll(pixels, shift, (2, 3)) for shift in shifts]
    if mirrored:
        copies += [copy[..., ::-1] for copy in copies]
    (each,) = model.run(None, {"image": np.concatenate(copies)})
    probability = each.reshape(len(copies), len(images), -1).mean(0)
    rows = zip(probability.argmax(1).tolist(), probability.max(1).tolist(), strict=True)
    return [{"shape": SHAPES[best], "probability": round(most, 4)} for best, most in rows]


def unless_unsure(images: list[Any], answers: list[dict[str, Any]]) -> list[tuple[Any, str | None]]:
    """Return an answer that is sure, or the image for the next stage."""
    return [
        (answer, "sure") if answer["probability"] >= SURE else (image, "unsure")
        for image, answer in zip(images, answers, strict=True)
    ]


def pixels_of(image: Any) -> np.ndarray:
    """Return an image as the networks take it."""
    if isinstance(image, bytes):
        image = np.frombuffer(image, np.uint8)
    return np.asarray(image, np.float32).reshape(1, 32, 32)
