"""When transfers end on shared links, by the oracle's own arithmetic."""

from __future__ import annotations

import numpy as np

from weft.model.cluster import Cluster
from weft.model.columns import BoolArray, FloatArray, IntArray

_SLACK = 1.0 + 1e-12


def transfer_ends(
    cluster: Cluster, source: IntArray, target: IntArray, data: FloatArray, begin: FloatArray
) -> FloatArray:
    """Return the ends of transfers between nodes that begin at these times, in order.

    Examples
    --------
    >>> from weft.model import Device, Topology
    >>> star = Topology.star("ab", up=10.0)
    >>> two = Cluster.of([Device("d0", node="a"), Device("d1", node="b")], network=star)
    >>> zero, one = np.array([0, 0]), np.array([1, 1])
    >>> transfer_ends(two, zero, one, np.array([50.0, 100.0]), np.array([0.0, 2.0])).tolist()
    [8.0, 15.0]
    """
    assert cluster.network is not None
    latency, bandwidth = cluster.latency[source, target], cluster.bandwidth[source, target]
    moving = np.flatnonzero((data > 0) & np.isfinite(bandwidth))
    end = begin + latency
    if cluster.network.one_port:
        seconds = latency + data / bandwidth
        free: dict[tuple[str, int], float] = {}
        for i in moving.tolist():
            ports = ("up", int(cluster.node[source[i]])), ("down", int(cluster.node[target[i]]))
            end[i] = max(begin[i], *(free.get(port, -np.inf) for port in ports)) + seconds[i]
            free |= dict.fromkeys(ports, float(end[i]))
        return end
    uses = link_use(cluster, source[moving], target[moving])
    end[moving] = _fair_ends(link_rates(cluster), uses, data[moving], end[moving])
    return end


def link_use(cluster: Cluster, source: IntArray, target: IntArray) -> BoolArray:
    """Return (transfers, links) whether a transfer uses a link."""
    assert cluster.routes is not None
    path = cluster.routes.path[cluster.node[source], cluster.node[target]]
    uses = np.zeros((len(path), len(link_rates(cluster)) + 1), bool)  # -1 fills the last column
    np.put_along_axis(uses, path, values=True, axis=1)
    return uses[:, :-1]


def link_rates(cluster: Cluster) -> FloatArray:
    """Return (links,) bytes per second of the links of a network."""
    assert cluster.routes is not None
    return cluster.routes.rate


def _fair_ends(
    rate: FloatArray, uses: BoolArray, data: FloatArray, start: FloatArray
) -> FloatArray:
    """Move the data in steps from one start or end to the next, with constant rates."""
    end, left = np.full(len(data), np.inf), data.copy()
    ahead = np.argsort(start, kind="stable")
    active = np.zeros(0, np.int64)
    now, at = -np.inf, 0
    while len(active) or at < len(ahead):
        begins = start[ahead[at]] if at < len(ahead) else np.inf
        speed = _max_min(rate, uses[active])
        seconds = left[active] / speed
        step = float(seconds.min(initial=np.inf))
        if now + step <= begins:
            now += step
            over = active[seconds <= step * _SLACK]
            end[over] = now
        else:
            step, now, over = begins - now, begins, active[:0]
        left[active] -= speed * step if len(active) else 0.0
        active = active[~np.isin(active, over)]
        while at < len(ahead) and start[ahead[at]] <= now:
            active = np.append(active, ahead[at])
            at += 1
    return end


def _max_min(rate: FloatArray, uses: BoolArray) -> FloatArray:
    """Return max-min fair rates: raise all equally, stop those on links that are full."""
    speed, left = np.zeros(len(uses)), np.array(rate)
    rising = np.ones(len(uses), bool)
    while rising.any():
        users = uses[rising].sum(axis=0)
        share = np.where(users > 0, left / np.maximum(users, 1), np.inf)
        full = share <= share.min() * _SLACK
        stopped = rising & uses[:, full].any(axis=1)
        speed[stopped] = share.min()
        with np.errstate(invalid="ignore"):
            left = left - share.min() * uses[stopped].sum(axis=0)
        rising &= ~stopped
    return speed
