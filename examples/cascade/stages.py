"""The stages: three networks of growing size; an image goes on to the next one until one is sure.

An image is 1024 bytes, or 32 rows of 32 numbers between 0 and 255.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.lib.stride_tricks import sliding_window_view

SHAPES = ("circle", "square", "triangle", "cross")
REACH = 3
"""Largest shift in pixels, each way."""
CONTRASTS = {"small": 4, "medium": 4, "large": 16}
"""Each stage looks at an image with every shift, mirrored or not, in so many contrasts."""
SURE = {"small": 0.74, "medium": 0.67}
"""Probability from which on an answer is final."""
CHUNK = 49
"""Views per call of a network: more would not fit into the caches of a core."""


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
    return unless_unsure("small", images, classify(model, images, CONTRASTS["small"]))


def medium(model: onnxruntime.InferenceSession, images: list[Any]) -> list[tuple[Any, str | None]]:
    return unless_unsure("medium", images, classify(model, images, CONTRASTS["medium"]))


def large(model: onnxruntime.InferenceSession, images: list[Any]) -> list[tuple[Any, str | None]]:
    return [(answer, None) for answer in classify(model, images, CONTRASTS["large"])]


def classify(
    model: onnxruntime.InferenceSession, images: list[Any], contrasts: int
) -> list[dict[str, Any]]:
    """Return the answer for each image: the mean of those for all views of it."""
    pixels = np.stack([pixels_of(image) for image in images])
    seen = np.stack(
        [128.0 + contrast * (pixels - 128.0) for contrast in np.linspace(1.0, 0.7, contrasts)], 1
    )
    around = np.pad(seen.astype(np.float32), ((0, 0),) * 3 + ((REACH, REACH),) * 2, mode="wrap")
    windows = sliding_window_view(around, pixels.shape[2:], (3, 4)).reshape(-1, 1, 32, 32)
    views = np.concatenate((windows, windows[..., ::-1]))
    each = [
        model.run(None, {"image": views[at : at + CHUNK]})[0] for at in range(0, len(views), CHUNK)
    ]
    by_image = np.concatenate(each).reshape(2, len(images), -1, len(SHAPES))
    probability = by_image.mean((0, 2))
    rows = zip(probability.argmax(1).tolist(), probability.max(1).tolist(), strict=True)
    return [{"shape": SHAPES[best], "probability": round(most, 4)} for best, most in rows]


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
    return np.asarray(image, np.float32).reshape(1, 32, 32)
