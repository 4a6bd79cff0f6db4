"""The stages: three networks of growing size; an image goes on to the next one until one is sure.

An image is 1024 bytes, or 32 rows of 32 numbers between 0 and 255.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

SHAPES = ("circle", "square", "triangle", "cross")
SIZE = 32
STEPS, PARTS = 4 * SIZE * SIZE, 32
"""Numbers that a network reads one after the other; it remembers means of so many parts."""
SURE = {"small": 0.9, "medium": 0.75}
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
    return unless_unsure("small", images, classify(model, images))


def medium(model: onnxruntime.InferenceSession, images: list[Any]) -> list[tuple[Any, str | None]]:
    return unless_unsure("medium", images, classify(model, images))


def large(model: onnxruntime.InferenceSession, images: list[Any]) -> list[tuple[Any, str | None]]:
    return [(answer, None) for answer in classify(model, images)]


def classify(model: onnxruntime.InferenceSession, images: list[Any]) -> list[dict[str, Any]]:
    """Return the answer for each image."""
    pixels = sequence(np.stack([pixels_of(image) for image in images]))
    (probability,) = model.run(["probability"], {"pixels": pixels})
    rows = zip(probability.argmax(1).tolist(), probability.max(1).tolist(), strict=True)
    return [{"shape": SHAPES[best], "probability": round(most, 4)} for best, most in rows]


def sequence(images: np.ndarray) -> np.ndarray:
    """Return images as (STEPS, images, 1): by rows, by columns, and both backwards.

    A recurrent network takes one step after the other, so that only more images give it more to do
    at once: its time grows slower than the batch.
    """
    by_row = images.reshape(len(images), -1)
    by_column = images.reshape(-1, SIZE, SIZE).transpose(0, 2, 1).reshape(len(images), -1)
    scans = np.concatenate((by_row, by_column, by_row[:, ::-1], by_column[:, ::-1]), 1)
    return np.ascontiguousarray(scans.T[:, :, None] / 128.0 - 1.0, np.float32)


def unless_unsure(
    stage: str, images: list[Any], answers: list[dict[str, Any]]
) -> list[tuple[Any, str | None]]:
    """Return an answer that is sure, or the image for the next stage."""
    return [
        (answer, "sure") if answer["probability"] >= SURE[stage] else (image, "unsure")
        for image, answer in zip(images, answers, strict=True)
    ]


def pixels_of(image: Any) -> np.ndarray:
    """Return an image as the networks take it."""
    if isinstance(image, bytes):
        image = np.frombuffer(image, np.uint8)
    return np.asarray(image, np.float32).reshape(SIZE, SIZE)
