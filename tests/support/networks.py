"""Networks with drawn weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def drawn_arrays(
    seed: int, features: int, *, hidden: int, scale: float = 1.0, networks: int = 2
) -> dict[str, NDArray[np.float32]]:
    """Draw the arrays of networks with two hidden layers, as models store them."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "w1": (features, hidden),
        "b1": (hidden,),
        "w2": (hidden, hidden),
        "b2": (hidden,),
        "w3": (hidden,),
    }
    return {
        name: (scale * rng.standard_normal((networks, *shape))).astype(np.float32)
        for name, shape in shapes.items()
    }
