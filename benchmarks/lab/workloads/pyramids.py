"""Pyramids of images: each level is half as large; features of all, and a contact sheet."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

Image = np.ndarray[Any, Any]
LEVELS = 5


def image(number: int, size: int) -> Image:
    """Make a picture of blobs and noise, 3 bytes per pixel."""
    rng = np.random.default_rng([5, number])
    y, x = np.mgrid[0:size, 0:size].astype(np.float32) / size
    made = np.zeros((size, size, 3), np.float32)
    for _ in range(3):
        cx, cy, r = rng.random(3)
        blob = np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / (0.02 + 0.1 * r))
        made += blob[:, :, None] * rng.random(3).astype(np.float32)
    made += rng.random((size, size, 1), dtype=np.float32) * 0.2
    return (np.clip(made, 0, 1) * 255).astype(np.uint8)


def half(picture: Image) -> Image:
    """Blur with the binomial kernel of five, and drop every other pixel."""
    wide = picture.astype(np.float32)
    for axis in (0, 1):
        moved = [np.roll(wide, k, axis=axis) for k in (-2, -1, 0, 1, 2)]
        wide = (moved[0] + 4 * moved[1] + 6 * moved[2] + 4 * moved[3] + moved[4]) / 16
    return wide[::2, ::2].astype(np.uint8)


def features(picture: Image) -> Image:
    """Return a histogram of the directions of gradients, weighted by their lengths."""
    grey = picture.astype(np.float32).mean(axis=2)
    dy, dx = np.gradient(grey)
    angle = np.arctan2(dy, dx)
    return np.histogram(angle, 64, (-np.pi, np.pi), weights=np.hypot(dx, dy))[0]


def packed(picture: Image) -> int:
    """Return the bytes of a compressed level."""
    return len(zlib.compress(picture.tobytes(), 1))


def sheet(*thumbnails: Image) -> int:
    """Return a check sum of a contact sheet."""
    return zlib.crc32(np.concatenate(thumbnails, axis=1).tobytes())


def catalogue(total: int, *rows: Any) -> dict[str, float]:
    numbers = [float(np.sum(row)) for row in rows]
    return {"sheet": float(total), "rows": float(len(rows)), "sum": round(sum(numbers), 3)}


def pyramids(call: Any, scale: float = 1.0) -> Any:
    """Make the pyramids of 12 images of 7 MB."""
    images, size = (12, 1536) if scale >= 1 else (3, max(64, round(1536 * scale) // 32 * 32))
    rows, thumbnails = [], []
    for number in range(images):
        level = call(image, number, size)
        rows.append(call(features, level))
        for _ in range(LEVELS - 1):
            level = call(half, level)
            rows += [call(features, level), call(packed, level)]
        thumbnails.append(level)
    return call(catalogue, call(sheet, *thumbnails), *rows)
