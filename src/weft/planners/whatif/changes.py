"""Changes of a problem as small values; each one makes a new problem."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from weft.errors import InvalidInput, UnknownName, Unsupported
from weft.formats.parsing.limits import check_devices
from weft.generators.machines.catalogue import catalogue, device_model, link_model
from weft.model import Cluster, Problem
from weft.model.columns import BoolArray, frozen
from weft.registry import closest
from weft.typed import description

COLUMNS = {"memory": np.inf, "cores": 1, "batch": 1, "cache": np.inf} | dict.fromkeys(
    ("switch", "speed", "power", "idle_power", "price"), 0.0
)
"""Columns of devices, with the values of a new kind that has no published ones."""
NETWORK = "Ethernet-25G"
"""Link of a new kind of device to a cluster that has no links between nodes."""


class Change(Protocol):
    """A change of a problem; `str` gives the text that `parse_change` reads."""

    def apply(self, problem: Problem) -> Problem:
        """Return the changed problem."""
        ...

    @property
    def words(self) -> str:
        """The change within a sentence."""
        ...


@description
@dataclass(frozen=True)
class AddDevice:
    """More devices of a kind.

    A device of a kind that the cluster has joins the node of the last one and has its links. Any
    other kind comes on a node of its own, from the workflow's measured durations or the catalogue
    of published devices (`weft list devices`).

    Parameters
    ----------
    price : money per hour of each device; None: the price of its kind in the cluster
    """

    kind: str
    count: int = 1
    price: float | None = None

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InvalidInput(f"{self}: the count must be 1 or more")
        if self.price is not None and not 0 <= self.price < np.inf:
            raise InvalidInput(f"add {self.kind}: the price is {self.price}; it must be 0 or more")

    def __str__(self) -> str:
        return f"add {self.count}x{self.kind}" + ("" if self.price is None else f"@{self.price!r}")

    @property
    def words(self) -> str:
        """The change within a sentence."""
        return f"{self.count} more {self.kind}"

    def apply(self, problem: Problem) -> Problem:
        """Return the changed problem."""
        cluster, kind = problem.cluster, _kind(self.kind, problem)
        check_devices(cluster.p + self.count)
        names = (*cluster.names, *_fresh(cluster, kind, self.count))
        if kind not in cluster.kinds:
            return _with_new_kind(problem, kind, names, self.price)
        like = cluster.p - 1 - cluster.kinds[::-1].index(kind)
        columns = [*range(cluster.p), *[like] * self.count]
        made = select_devices(problem, columns, names=names)
        twins = np.flatnonzero(np.array(columns) == like)
        link = _twin_link(cluster, like)
        changed: dict[str, Any] = {}
        for key, value in zip(("bandwidth", "latency"), link, strict=True):
            changed[key] = np.array(getattr(made.cluster, key))
            changed[key][np.ix_(twins, twins)] = value
        if self.price is not None:
            changed["price"] = np.append(cluster.price, np.full(self.count, self.price))
        return replace(made, cluster=replace(made.cluster, **changed))


@description
@dataclass(frozen=True)
class RemoveDevice:
    """Fewer devices: one by its name, or the last ones of a kind."""

    name: str
    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InvalidInput(f"remove {self.name}: the count must be 1 or more")

    def __str__(self) -> str:
        return f"remove {self.count}x{self.name}" if self.count > 1 else f"remove {self.name}"

    @property
    def words(self) -> str:
        """The change within a sentence."""
        return f"{self.count} {self.name} fewer" if self.count > 1 else f"{self.name} gone"

    def apply(self, problem: Problem) -> Problem:
        """Return the changed problem."""
        c = problem.cluster
        mine = np.flatnonzero(_matching(c, self.name, nodes=False)).tolist()
        if len(mine) < self.count or self.count == c.p:
            raise InvalidInput(
                f"cannot {self}: cluster '{c.name}' has {len(mine)} of {c.p} devices"
            )
        gone = mine[-self.count :]
        return select_devices(problem, [d for d in range(c.p) if d not in gone])


class FactorChange:
    """A change by a factor; its two texts are formats of its fields."""

    texts: ClassVar[tuple[str, str]]
    """The change as `parse_change` reads it, and within a sentence."""
    factor: float

    def __post_init__(self) -> None:
        if not 0 < self.factor < np.inf:
            raise InvalidInput(f"{self}: the factor must be a finite number above zero")

    def __str__(self) -> str:
        return self.texts[0].format(self)

    @property
    def words(self) -> str:
        """The change within a sentence."""
        return self.texts[1].format(self)


@description
@dataclass(frozen=True)
class LinkChange(FactorChange):
    """A change of links: of all, of all of one name, or of those between two names.

    A name is that of a node, a kind of devices or a device.
    """

    factor: float
    between: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """The names, as `parse_change` reads them."""
        return f"{','.join(self.between)}=" if self.between else ""

    @property
    def links(self) -> str:
        """The links, within a sentence."""
        if len(self.between) == 2:
            return f"between {self.between[0]} and {self.between[1]}"
        return f"of the links of {self.between[0]}" if self.between else "of all links"


class Bandwidth(LinkChange):
    """Links faster by a factor."""

    texts = ("bandwidth {0.where}x{0.factor!r}", "{0.factor:g} times the bandwidth {0.links}")

    def apply(self, problem: Problem) -> Problem:
        """Return the changed problem."""
        c = problem.cluster
        if c.network is not None:
            _refuse_links_of_network(self, self.between)
            inside = np.where(c.node[:, None] == c.node, c.bandwidth * self.factor, c.bandwidth)
            faster_network = c.network.faster(self.factor)
            return replace(problem, cluster=replace(c, bandwidth=inside, network=faster_network))
        chosen = _links(c, self.between)
        faster = np.where(chosen, c.bandwidth * self.factor, c.bandwidth)
        return replace(problem, cluster=replace(c, bandwidth=faster))


class Latency(LinkChange):
    """The latency of links times a factor."""

    texts = ("latency {0.where}x{0.factor!r}", "{0.factor:g} times the latency {0.links}")

    def apply(self, problem: Problem) -> Problem:
        """Return the changed problem."""
        c = problem.cluster
        if c.network is not None:
            _refuse_links_of_network(self, self.between or ("all links",))
        slower = np.where(_links(c, self.between), c.latency * self.factor, c.latency)
        return replace(problem, cluster=replace(c, latency=slower))


@description
@dataclass(frozen=True)
class SpeedChange(FactorChange):
    """A change of the speed of a device, or of a kind of devices or tasks."""

    name: str
    factor: float


class Faster(SpeedChange):
    """Tasks of a kind faster by a factor on every device."""

    texts = ("faster {0.name}={0.factor!r}", "tasks of kind '{0.name}' {0.factor:g} times as fast")

    def apply(self, problem: Problem) -> Problem:
        """Return the changed problem."""
        kinds = problem.workflow.kinds
        if self.name not in kinds:
            raise UnknownName(f"no task has the kind '{self.name}'{closest(self.name, kinds)}")
        mine = problem.workflow.kind == kinds.index(self.name)
        return replace(
            problem, work=frozen(np.where(mine, problem.work / self.factor, problem.work))
        )


class DeviceSpeed(SpeedChange):
    """A device, or all of a kind, faster by a factor for every task."""

    texts = ("speed {0.name}={0.factor!r}", "{0.name} {0.factor:g} times as fast")

    def apply(self, problem: Problem) -> Problem:
        """Return the changed problem."""
        c = problem.cluster
        by = np.where(_matching(c, self.name, nodes=False), self.factor, 1.0)
        rates = {kind: rate * by for kind, rate in c.throughput.items()}
        cluster = replace(c, speed=c.speed * by, throughput=rates)
        return replace(
            problem, cluster=cluster, per_work=frozen(np.ascontiguousarray(problem.per_work / by))
        )


def _refuse_links_of_network(change: object, between: tuple[str, ...]) -> None:
    if between:
        raise Unsupported(
            f"cannot apply '{change}': the links between nodes follow from the network; "
            "change its ports and trunks in the cluster"
        )


def select_devices(
    problem: Problem, columns: list[int], *, names: tuple[str, ...] | None = None
) -> Problem:
    """Return the problem on some devices; a device listed twice needs new names.

    Examples
    --------
    >>> p = select_devices(Problem.from_arrays([[2.0, 1.0, 3.0]]), [0, 2])
    >>> p.cluster.names, p.durations().tolist()
    (('d0', 'd2'), [[2.0, 3.0]])
    """
    c, at = problem.cluster, np.array(columns, np.int64)
    kept: dict[str, Any] = {key: getattr(c, key)[at] for key in COLUMNS}
    kept |= {key: getattr(c, key)[np.ix_(at, at)] for key in ("bandwidth", "latency")}
    labels: dict[str, Any] = {
        key: tuple(getattr(c, key)[d] for d in columns) for key in ("names", "kinds", "nodes")
    }
    labels["names"] = labels["names"] if names is None else names
    kept |= {key: {k: v[at] for k, v in getattr(c, key).items()} for key in ("throughput", "setup")}
    most, here = int(c.batch[at].max()), tuple(dict.fromkeys(labels["nodes"]))
    nodes = [c.node_names.index(node) for node in here]
    cluster = replace(
        c,
        batch_curve={k: v[at, :most] for k, v in c.batch_curve.items()},
        capacity={k: v[nodes] for k, v in c.capacity.items()},
        network=c.network and c.network.of_nodes(here),
        **kept,
        **labels,
    )
    per_work = frozen(np.ascontiguousarray(problem.per_work[:, at]))
    stranded = np.isinf(per_work.min(axis=1))[problem.row]
    if stranded.any():
        task = problem.workflow.task_name(int(np.flatnonzero(stranded)[0]))
        raise InvalidInput(f"task '{task}' fits none of the devices {', '.join(cluster.names)}")
    return Problem(problem.workflow, cluster, problem.work, problem.row, per_work)


def _kind(name: str, problem: Problem) -> str:
    """Return the kind of an added device: of cluster, workflow or catalogue."""
    kinds = tuple(dict.fromkeys(problem.cluster.kinds))
    if name in kinds or name in problem.workflow.durations:
        return name
    try:
        return device_model(name).name
    except UnknownName:
        known = tuple(dict.fromkeys((*kinds, *problem.workflow.durations, *catalogue())))
        raise UnknownName(f"unknown kind of device '{name}'{closest(name, known)}") from None


def _with_new_kind(
    problem: Problem, kind: str, names: tuple[str, ...], price: float | None
) -> Problem:
    old, count = problem.cluster, len(names) - problem.p
    again = Problem.bind(problem.workflow, old)
    same = all(
        np.array_equal(getattr(again, k), getattr(problem, k)) for k in ("work", "row", "per_work")
    )
    if not same:
        raise InvalidInput(
            f"cannot add a {kind}: the durations of '{problem.name}' were changed or estimated; "
            f"add one of: {', '.join(dict.fromkeys(old.kinds))}"
        )
    if price is None and old.price.any():
        raise InvalidInput(f"add {kind}: other devices have prices; give one, as in 1x{kind}@2.50")
    speed, extra = _published(problem, kind)
    far = np.array([[a != b for b in old.nodes] for a in old.nodes])
    network = link_model(NETWORK)
    bandwidth = float(old.bandwidth[far].min(initial=np.inf)) if far.any() else network.bandwidth
    latency = float(old.latency[far].max(initial=0.0)) if far.any() else network.latency
    grown: dict[str, Any] = {
        key: np.append(getattr(old, key), np.full(count, extra.get(key, default)))
        for key, default in {**COLUMNS, "speed": speed, "price": price or 0.0}.items()
    }
    for key, value in (("bandwidth", bandwidth), ("latency", latency)):
        grown[key] = np.full((len(names), len(names)), value)
        grown[key][: old.p, : old.p] = getattr(old, key)
    cluster = replace(
        old,
        names=names,
        kinds=(*old.kinds, *[kind] * count),
        nodes=(*old.nodes, *(f"added {name}" for name in names[old.p :])),
        throughput={k: np.append(v, np.full(count, np.nan)) for k, v in old.throughput.items()},
        setup={k: np.append(v, np.zeros((count, 3)), axis=0) for k, v in old.setup.items()},
        batch_curve={
            k: np.append(v, np.ones((count, v.shape[1])), axis=0)
            for k, v in old.batch_curve.items()
        },
        capacity={k: np.append(v, np.full(count, np.inf)) for k, v in old.capacity.items()},
        **grown,
    )
    return Problem.bind(problem.workflow, cluster)


def _published(problem: Problem, kind: str) -> tuple[float, dict[str, float]]:
    """Return speed, on the scale of the cluster's, and other columns of a device."""
    c = problem.cluster
    if kind in problem.workflow.durations:
        return 1.0, {"cores": float(c.cores.max())}
    model, known = device_model(kind), catalogue()
    scale = [c.speed[d] / known[name].fp32 for d, name in enumerate(c.kinds) if name in known]
    if not scale or problem.workflow.durations:
        raise InvalidInput(
            f"the speed of a {kind} in cluster '{c.name}' is not known; "
            f"add one of: {', '.join(dict.fromkeys((*c.kinds, *problem.workflow.durations)))}"
        )
    idle = float(np.median(c.idle_power / np.maximum(c.power, 1e-300)))
    columns = {"memory": model.memory, "cores": float(model.cores), "power": model.tdp}
    return float(np.median(scale)) * model.fp32, {**columns, "idle_power": idle * model.tdp}


def _fresh(cluster: Cluster, kind: str, count: int) -> list[str]:
    """Return names of new devices that no other device has."""
    names = (f"{kind}:{number}" for number in itertools.count())
    return list(itertools.islice((n for n in names if n not in cluster.names), count))


def _twin_link(c: Cluster, like: int) -> tuple[float, float]:
    """Return the link between a device and a new one of its kind on the same node."""
    others = [d for d in range(c.p) if d != like]
    alike = [d for d in others if (c.nodes[d], c.kinds[d]) == (c.nodes[like], c.kinds[like])]
    near = alike or [d for d in others if c.nodes[d] == c.nodes[like]] or others
    if not near:
        return np.inf, 0.0
    best = max(near, key=lambda d: float(c.bandwidth[like, d]))
    return float(c.bandwidth[like, best]), float(c.latency[like, best])


def _links(c: Cluster, between: tuple[str, ...]) -> BoolArray:
    """Return the links (p, p) that a change is about."""
    if not between:
        return np.ones((c.p, c.p), bool)
    if len(between) > 2:
        raise InvalidInput(f"a link has two ends, not {len(between)}: {', '.join(between)}")
    one = _matching(c, between[0])
    other = _matching(c, between[1]) if len(between) == 2 else np.ones(c.p, bool)
    return np.asarray((one[:, None] & other) | (other[:, None] & one))


def _matching(c: Cluster, name: str, *, nodes: bool = True) -> BoolArray:
    labels = [(c.names[d], c.kinds[d], *((c.nodes[d],) if nodes else ())) for d in range(c.p)]
    found = np.array([name in label for label in labels])
    if not found.any():
        known = tuple(dict.fromkeys(x for label in labels for x in label))
        raise UnknownName(f"no device or kind is called '{name}'{closest(name, known)}")
    return found
