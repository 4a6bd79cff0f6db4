"""Measured links and speeds of a Dask cluster: `weft profile --cluster`.

A worker fetches a block of random bytes from each other worker, one pair at a time, over the
connections that results take. The block is an array, which the receiver uses in place; other
results are copied, which takes a slow processor longer than the link.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
from distributed import Client, wait
from distributed.utils_comm import gather_from_workers

from weft.errors import InvalidInput
from weft.model import Cluster
from weft.progress import Track
from weft.runtime.backends.dask.plugin import WorkerFacts, list_workers
from weft.runtime.backends.dask.worker_registry import connected

SMALL, LARGEST = 100_000, 32_000_000
"""Bytes of the first block of a pair, and of the largest block."""

SECONDS = 0.4
"""Seconds that the large block of a pair should take."""

WORK_SECONDS = 0.25
"""Seconds for which each worker computes; longer than the periods of processor quotas."""


@dataclass(frozen=True)
class LinkSample:
    """The transfers that were measured from one host to another."""

    source: str
    target: str
    sizes: tuple[float, ...]
    seconds: tuple[float, ...]

    @property
    def bandwidth(self) -> float:
        """Bytes per second: the slope between the small and the large blocks."""
        large, small = max(self.sizes), min(self.sizes)
        if large == small:
            return large / max(min(self.seconds), 1e-9)
        taken = {
            size: min(s for b, s in zip(self.sizes, self.seconds, strict=True) if b == size)
            for size in (small, large)
        }
        return (large - small) / max(taken[large] - taken[small], 1e-9)

    @property
    def latency(self) -> float:
        """Seconds that a transfer takes beside its bytes."""
        small = min(self.sizes)
        taken = min(s for b, s in zip(self.sizes, self.seconds, strict=True) if b == small)
        return max(taken - small / self.bandwidth, 0.0)


@dataclass(frozen=True)
class ClusterProfile:
    """Hosts, their speeds (the fastest has 1), and the links between them."""

    hosts: tuple[str, ...]
    names: tuple[str, ...]
    speeds: tuple[float, ...]
    links: tuple[LinkSample, ...] = field(repr=False)

    def cluster(self) -> Cluster:
        """Return the machines as a cluster: one device per host."""
        count = len(self.hosts)
        bandwidth, latency = np.full((count, count), np.inf), np.zeros((count, count))
        for link in self.links:
            pair = self.hosts.index(link.source), self.hosts.index(link.target)
            bandwidth[pair], latency[pair] = link.bandwidth, link.latency
        return Cluster(
            name="measured",
            speed=np.array(self.speeds),
            names=self.names,
            kinds=self.hosts,
            bandwidth=bandwidth,
            latency=latency,
        )

    def rows(self) -> list[tuple[str, str, float, float]]:
        """Return (source, target, bytes, seconds) of each transfer, for a history."""
        return [
            (link.source, link.target, size, seconds)
            for link in self.links
            for size, seconds in zip(link.sizes, link.seconds, strict=True)
        ]


def profile_cluster(address: str, *, repeats: int = 3, track: Track = iter) -> ClusterProfile:
    """Measure the hosts of a Dask cluster and the links between them, one at a time.

    Parameters
    ----------
    address : of the scheduler
    repeats : transfers of each size and pair
    track : goes through the pairs of hosts, for example `tqdm.tqdm`
    """
    with connected(address) as client:
        found = client.run_on_scheduler(list_workers)
        here: dict[str, WorkerFacts] = {}
        for facts in found:
            here.setdefault(facts["host"], facts)
        if not here:
            raise InvalidInput(f"the Dask scheduler at '{address}' has no workers")
        where = {host: facts["worker"] for host, facts in here.items()}
        rates = [max(client.run(work_rate, workers=[w]).values()) for w in where.values()]
        pairs = [(a, b) for a in where for b in where if a != b]
        links = [_measured(client, where[a], where[b], (a, b), repeats) for a, b in track(pairs)]
    return ClusterProfile(
        tuple(where),
        tuple(facts["name"] for facts in here.values()),
        tuple(rate / max(rates) for rate in rates),
        tuple(links),
    )


def _measured(
    client: Client, source: str, target: str, hosts: tuple[str, str], repeats: int
) -> LinkSample:
    """Fetch small blocks, then blocks that take a while, from one worker to another."""
    sizes: list[float] = []
    taken: list[float] = []

    def fetch(size: int) -> float:
        block = client.submit(random_block, size, workers=[source], pure=False)
        with client.as_current():
            wait(block)
        (seconds,) = client.run(fetch_block, block.key, source, workers=[target]).values()
        sizes.append(float(size))
        taken.append(seconds)
        block.release()
        return float(seconds)

    fetch(SMALL)  # connects
    sizes.clear()
    taken.clear()
    first = median(fetch(SMALL) for _ in range(repeats))
    probe = fetch(10 * SMALL)
    rate = 9 * SMALL / max(probe - first, 1e-4)
    sizes.pop()
    taken.pop()
    large = int(min(LARGEST, max(10 * SMALL, rate * SECONDS)))
    for _ in range(repeats):
        fetch(large)
    return LinkSample(*hosts, tuple(sizes), tuple(taken))


# -- on the workers -----------------------------------------------------------


def random_block(size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Make a block of this size, which no compression makes smaller."""
    return np.frombuffer(os.urandom(size), np.uint8)


async def fetch_block(key: str, source: str, dask_worker: Any) -> float:
    """Fetch a result from another worker; return the seconds."""
    begin = time.perf_counter()
    await gather_from_workers({key: [source]}, rpc=dask_worker.rpc)
    return time.perf_counter() - begin


def work_rate() -> float:
    """Return how many fixed pieces of work this worker does per second."""
    block = np.arange(20_000, dtype=np.float64)
    begin, rounds = time.perf_counter(), 0
    while (seconds := time.perf_counter() - begin) < WORK_SECONDS:
        block = np.sqrt(block * block + 1.0)
        rounds += 1
    return rounds / seconds
