"""Measured links between the nodes of Ray, when actors start.

Ray does not report transfers. In a run, few transfers can be distinguished from waiting. Without
probes, a first run would leave links unknown and plans would treat them as free.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from weft.runtime.backends.protocol import Transfer
from weft.runtime.backends.ray.slots import ActorSlot

SIZE = 4_000_000
"""Bytes of a probe."""

ROUNDS = 8
"""Most rounds of probes; in a round each node has one partner."""

PROBE_SECONDS = 20.0
"""Seconds after which a round of probes is abandoned."""


def probes(ray: Any, slots: Mapping[str, ActorSlot]) -> Iterator[tuple[int, Transfer]]:
    """Yield (target, transfer) between nodes, by an actor per node; none for one node."""
    nodes = list(slots)
    data = {node: slots[node].actor.make.remote(SIZE) for node in nodes if len(nodes) > 1}
    for pairs in pairings(nodes):
        both = [*pairs, *((b, a) for a, b in pairs)]
        calls = [slots[target].actor.fetch.remote([data[source]]) for source, target in both]
        done, _ = ray.wait(calls, num_returns=len(calls), timeout=PROBE_SECONDS)
        if len(done) < len(calls):
            return
        for (source, target), call in zip(both, calls, strict=True):
            try:
                seconds = ray.get(call)
            except ray.exceptions.RayError:
                return  # an actor died, which the run notices
            yield slots[target].device, Transfer(slots[source].device, float(SIZE), seconds)


def pairings(nodes: Sequence[str]) -> Iterator[list[tuple[str, str]]]:
    """Yield rounds in which each node meets another one (the circle method).

    Examples
    --------
    >>> list(pairings("abcd"))
    [[('a', 'd'), ('b', 'c')], [('a', 'c'), ('d', 'b')], [('a', 'b'), ('c', 'd')]]
    >>> list(pairings("abc"))
    [[('b', 'c')], [('a', 'c')], [('a', 'b')]]
    """
    circle: list[str | None] = [*nodes, *([None] if len(nodes) % 2 else [])]
    half = len(circle) // 2
    for _ in range(min(len(circle) - 1, ROUNDS)):
        ends = zip(circle[:half], reversed(circle[half:]), strict=True)
        yield [(a, b) for a, b in ends if a is not None and b is not None]
        circle = [circle[0], circle[-1], *circle[1:-1]]
