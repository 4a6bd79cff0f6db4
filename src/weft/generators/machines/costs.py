"""How machines differ: related speeds, full matrices of costs, affinity of kinds."""

from __future__ import annotations

import dataclasses

import numpy as np

from weft.arguments import number, one_of, whole
from weft.model import Cluster, Problem, Workflow
from weft.model.columns import FloatArray
from weft.rng import generator
from weft.typed import typed

METHODS = ("uniform", "gamma")


@typed
def related_speeds(
    devices: int, *, heterogeneity: float = 1.0, speed: float = 1.0, seed: int = 0
) -> FloatArray:
    """Draw speeds uniform in ``speed * [1 - h / 2, 1 + h / 2]``, 0 <= h < 2.

    Examples
    --------
    >>> related_speeds(3, heterogeneity=0.0, speed=2.0)
    array([2., 2., 2.])
    """
    h = _heterogeneity(heterogeneity)
    low_high = (1.0 - h / 2, 1.0 + h / 2)
    return number(speed, "speed", above=True) * generator(seed, "costs", "related").uniform(
        *low_high, whole(devices, "devices")
    )


@typed
def unrelated_problem(
    workflow: Workflow,
    cluster: Cluster,
    *,
    heterogeneity: float = 1.0,
    method: str = "uniform",
    consistent: bool = False,
    seed: int = 0,
) -> Problem:
    """Bind with (n, p) random costs: work / speed * a random factor of mean 1.

    Parameters
    ----------
    heterogeneity : of the factors. `uniform`: they lie in [1 - h / 2, 1 + h / 2], 0 <= h < 2
        (Topcuoglu et al. 2002, beta). `gamma`: h is their coefficient of variation (Ali et al.
        2000)
    consistent : a device with a lower number has the lower factor for every task (Braun et al.
        2001)

    Examples
    --------
    >>> w, c = Workflow(work=[2.0], src=[], dst=[], data=[]), Cluster(speed=[1.0, 2.0])
    >>> unrelated_problem(w, c, heterogeneity=0.0).durations()
    array([[2., 1.]])
    """
    factor = _factors(workflow.n, cluster.p, heterogeneity, one_of(method, "method", METHODS), seed)
    if consistent:
        factor = np.sort(factor, axis=1)
    seconds = Problem.bind(workflow, cluster).durations() * factor
    columns = {
        name: np.where(np.isfinite(seconds[:, d]), seconds[:, d], np.nan)
        for d, name in enumerate(cluster.names)
    }
    return Problem.bind(dataclasses.replace(workflow, durations=columns), cluster)


@typed
def with_affinity(
    cluster: Cluster,
    kinds: tuple[str, ...],
    *,
    heterogeneity: float = 1.0,
    method: str = "uniform",
    seed: int = 0,
) -> Cluster:
    """Give each task kind a throughput on each device kind: speed / random factor.

    Examples
    --------
    >>> c = with_affinity(Cluster(speed=[1.0, 1.0], kinds=("a", "b")), ("fft", "sort"), seed=1)
    >>> sorted(c.throughput), bool(c.throughput["fft"][0] != c.throughput["fft"][1])
    (['fft', 'sort'], True)
    """
    models = list(dict.fromkeys(cluster.kinds))
    factor = _factors(
        len(kinds), len(models), heterogeneity, one_of(method, "method", METHODS), seed
    )
    column = np.array([models.index(kind) for kind in cluster.kinds])
    return dataclasses.replace(
        cluster,
        throughput={kind: cluster.speed / factor[k, column] for k, kind in enumerate(kinds)},
    )


def _factors(rows: int, columns: int, heterogeneity: float, method: str, seed: int) -> FloatArray:
    rng = generator(seed, "costs", method)
    if method == "uniform":
        h = _heterogeneity(heterogeneity)
        return rng.uniform(1.0 - h / 2, 1.0 + h / 2, (rows, columns))
    h = number(heterogeneity, "heterogeneity")
    if h == 0:
        return np.ones((rows, columns))
    # A duration of 0 would be no duration.
    return np.maximum(rng.gamma(1.0 / h**2, h**2, (rows, columns)), 1e-6)


def _heterogeneity(value: float) -> float:
    return number(value, "heterogeneity", high=1.999)
