"""Offers of a catalogue: machines to rent, and the number of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from weft.model import Cluster, Problem
from weft.planners.whatif.changes import COLUMNS


@dataclass(frozen=True)
class Offer:
    """Units that can replace each other; a unit is a device, or the devices of a node."""

    name: str
    units: tuple[tuple[int, ...], ...]
    price: float


def offers_of(problem: Problem, *, whole_nodes: bool = False) -> tuple[Offer, ...]:
    """Return the offers of a problem's cluster.

    Two units are one offer if exchanging them changes no duration, price or link.

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0, 2.0]])
    >>> [(offer.name, offer.units) for offer in offers_of(problem)]
    [('device @ d0', ((0,), (2,))), ('device @ d1', ((1,),))]
    """
    c = problem.cluster
    places = c.nodes if whole_nodes else c.names
    units = [tuple(d for d in range(c.p) if places[d] == place) for place in dict.fromkeys(places)]
    groups: list[list[tuple[int, ...]]] = []
    for unit in units:
        alike = next((g for g in groups if _alike(problem, g[0], unit)), None)
        if alike is None:
            groups.append([unit])
        else:
            alike.append(unit)
    labels = [_label(c, group[0]) for group in groups]
    twice = {label for label, count in Counter(labels).items() if count > 1}
    return tuple(
        Offer(
            f"{label} @ {places[group[0][0]]}" if label in twice else label,
            tuple(group),
            float(c.price[list(group[0])].sum()),
        )
        for label, group in zip(labels, groups, strict=True)
    )


def _alike(problem: Problem, one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether exchanging two units, device by device, keeps the problem."""
    c = problem.cluster
    if [c.kinds[d] for d in one] != [c.kinds[d] for d in other]:
        return False
    swapped = np.arange(c.p)
    swapped[[*one, *other]] = [*other, *one]
    both = np.ix_(swapped, swapped)
    links = (np.array_equal(m[both], m) for m in (c.bandwidth, c.latency))
    columns = (np.array_equal(getattr(c, k)[swapped], getattr(c, k)) for k in COLUMNS)
    return (
        all(columns)
        and np.array_equal(problem.per_work[:, swapped], problem.per_work)
        and all(links)
    )


def _label(c: Cluster, unit: tuple[int, ...]) -> str:
    """Return the kinds of a unit: ``A100``, or ``4xV100,1xCPU`` of a node."""
    if len(unit) == 1:
        return c.kinds[unit[0]]
    return ",".join(f"{n}x{kind}" for kind, n in Counter(c.kinds[d] for d in unit).items())
