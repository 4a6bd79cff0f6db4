"""Conditional task graphs (Debner, Krahn and Hirvisalo 2024): mean job completion time of rules over the probability p(c)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.model.columns import FloatArray
from weft.model.stream import Stream
from weft.policies.conditional_rules import ConditionalRule
from weft.sim.fleet import StepFleet, StepOptions

PROBABILITIES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
PUBLISHED = (105.65, 99.95, 93.42, 87.22, 80.83, 74.58, 67.65, 60.89, 52.60, 43.23, 34.69)
"""Mean job completion time in ms of the authors' best policy, pi4, at these p(c): constants in their repository."""


def mean_times(
    stream: Stream,
    rule: ConditionalRule,
    *,
    task: str = "D",
    probabilities: Sequence[float] = PROBABILITIES,
    seeds: Sequence[int] = range(1, 41),
    options: StepOptions | None = None,
    authors: bool = True,
) -> FloatArray:
    """(probabilities, seeds) mean job completion time in seconds; the branches of `task` are taken with p and 1 - p.

    Examples
    --------
    >>> from weft.formats.stream_toml import load_stream
    >>> stream = load_stream("conditional-paper").with_jobs(500)
    >>> mean_times(stream, ConditionalRule("fifo"), probabilities=[0.0, 1.0], seeds=[1]).round(3).tolist()
    [[0.135], [0.036]]
    """
    fleet = StepFleet(stream, 1, options, authors=authors)
    times = np.zeros((len(probabilities), len(seeds)))
    for i, p in enumerate(probabilities):
        variant = stream.with_probability(task, [p, 1.0 - p])
        for j, seed in enumerate(seeds):
            fleet.place(0, *variant.draw_ticks(seed, authors=authors))
            rule.play(fleet)
            times[i, j] = fleet.jct(0).mean()
    return times
