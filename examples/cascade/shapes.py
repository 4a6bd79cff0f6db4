"""Images of shapes, drawn with numpy: 32 x 32 bytes each, from clear to hardly visible."""

from __future__ import annotations

import numpy as np

SIZE = 32
SHAPES = ("circle", "square", "triangle", "cross")


def draw(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images (count, 32, 32) of uint8, and the number of the shape of each."""
    rng = np.random.default_rng(seed)
    shape = rng.integers(0, len(SHAPES), count)
    x0, y0 = rng.uniform(12, 19, (2, count, 1, 1))
    radius = rng.uniform(6, 10, (count, 1, 1))
    angle = rng.uniform(-0.5, 0.5, (count, 1, 1))
    y, x = np.mgrid[:SIZE, :SIZE][:, None].astype(float)
    u = ((x - x0) * np.cos(angle) + (y - y0) * np.sin(angle)) / radius
    v = ((y - y0) * np.cos(angle) - (x - x0) * np.sin(angle)) / radius
    wide, high = np.abs(u), np.abs(v)
    inside = np.stack(
        [
            u * u + v * v < 1,
            np.maximum(wide, high) < 0.9,
            (v < 0.8) & (v > 2.2 * wide - 1.1),
            (np.minimum(wide, high) < 0.3) & (np.maximum(wide, high) < 1),
        ]
    )[shape, np.arange(count)]
    contrast = rng.uniform(40, 120, (count, 1, 1))
    noise = rng.normal(0, 1, inside.shape) * rng.uniform(5, 40, (count, 1, 1))
    image = 128 + contrast * (inside - 0.3) + noise
    return np.clip(image, 0, 255).astype(np.uint8), shape
