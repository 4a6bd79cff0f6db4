"""`Cluster`: the machines. Devices on nodes, and the links between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from weft.arguments import refuse, refuse_negative, refuse_not_positive, unique_names, whole
from weft.errors import InvalidInput
from weft.model.columns import FloatArray, IntArray, assign, floats, frozen, integers
from weft.model.machines.device import LARGEST_CURVE, MOST_CORES, Device, Links, curves_of
from weft.model.machines.setup import ANY_KIND, checked_setup, setup_columns, setup_of_kinds
from weft.model.network.topology import Routes, Topology
from weft.registry import closest
from weft.typed import typed, typed_dataclass


@typed_dataclass(frozen=True, eq=False)
class Cluster:
    """Devices in columns and the (p, p) links between them, frozen and validated once.

    Parameters
    ----------
    speed : (p,) work per second
    bandwidth : scalar or (p, p) bytes per second; latency : scalar or (p, p) seconds. The diagonal
        is free.
    names, kinds, nodes : names of devices, their kind and node, one entry per device
    throughput : task kind -> (p,) work per second on that kind; NaN: `speed` holds; 0: cannot run
    memory : (p,) bytes; cores : (p,); batch : (p,) the most tasks of one kind run together
    batch_curve : task kind, or "*" for all others -> (p, largest batch) seconds of a batch of 1, 2,
        ... tasks over those of a batch of one; NaN beyond `batch`. Without: a full batch takes as
        long as its longest task
    setup : task kind, or "*" for all others -> (p, 3) seconds to load the kind, bytes of the cache
        that it takes, and 1 if it is pinned: always loaded
    cache : (p,) bytes for loaded kinds; the kind used least recently is dropped from a full one
    switch : (p,) seconds before a group of another kind than the one before it
    power, idle_power : (p,) watts, busy and idle
    price : (p,) money per hour of rent, of any currency
    capacity : name -> amount per node, as {node: amount} or one number for each of `node_names`;
        tasks that run at the same time on devices of a node share it. A capacity that is left out
        has no limit. On a node with the capacity "cores", `cores` of its devices do not count
    network : links between nodes that transfers share. Bandwidth and latency between nodes are then
        those of its routes. None: links are independent

    Examples
    --------
    >>> c = Cluster(speed=[1.0, 2.0], bandwidth=1e9, kinds=("cpu", "gpu"))
    >>> c.p, c.names, c.transfer_time(0, 1, 5e8)
    (2, ('d0', 'd1'), 0.5)
    """

    speed: FloatArray
    bandwidth: FloatArray = np.inf  # type: ignore[assignment]  # a scalar fills the matrix
    latency: FloatArray = 0.0  # type: ignore[assignment]  # a scalar fills the matrix
    names: tuple[str, ...] = None  # type: ignore[assignment]  # made up where not given
    kinds: tuple[str, ...] = None  # type: ignore[assignment]  # made up where not given
    nodes: tuple[str, ...] = None  # type: ignore[assignment]  # made up where not given
    throughput: Mapping[str, FloatArray] = field(default_factory=dict)
    memory: FloatArray = np.inf  # type: ignore[assignment]  # a scalar fills the column
    cores: IntArray = 1  # type: ignore[assignment]  # a scalar fills the column
    batch: IntArray = 1  # type: ignore[assignment]  # a scalar fills the column
    batch_curve: Mapping[str, FloatArray] = field(default_factory=dict)
    setup: Mapping[str, FloatArray] = field(default_factory=dict)
    cache: FloatArray = np.inf  # type: ignore[assignment]  # a scalar fills the column
    switch: FloatArray = 0.0  # type: ignore[assignment]  # a scalar fills the column
    power: FloatArray = 0.0  # type: ignore[assignment]  # a scalar fills the column
    idle_power: FloatArray = 0.0  # type: ignore[assignment]  # a scalar fills the column
    price: FloatArray = 0.0  # type: ignore[assignment]  # a scalar fills the column
    capacity: Mapping[str, FloatArray] = field(default_factory=dict)
    network: Topology | None = None
    name: str = "cluster"

    def __post_init__(self) -> None:
        """Validate everything once and freeze the columns."""
        p = int(np.size(self.speed))
        if p and isinstance(np.ravel(np.asarray(self.speed, dtype=object))[0], Device):
            raise InvalidInput("speed holds devices; make a cluster of them with Cluster.of")
        if p == 0:
            raise InvalidInput(f"cluster '{self.name}' has no devices")
        assign(
            self,
            names=self._labels(self.names, [f"d{i}" for i in range(p)], "device names"),
            kinds=self._labels(self.kinds, ["device"] * p, "device kinds"),
            nodes=self._labels(self.nodes, ["node0"] * p, "device nodes"),
            **{
                c: floats(getattr(self, c), c, shape=(p,))
                for c in ("speed", "memory", "cache", "switch", "power", "idle_power", "price")
            },
            **{c: integers(getattr(self, c), c, shape=(p,)) for c in ("cores", "batch")},
            throughput={
                str(k): floats(v, f"throughput of '{k}'", shape=(p,))
                for k, v in self.throughput.items()
            },
        )
        most = int(self.batch.max())
        if self.batch_curve and most > LARGEST_CURVE:
            raise InvalidInput(
                f"a batch curve has at most {LARGEST_CURVE} sizes; the largest batch is {most}"
            )
        assign(
            self,
            batch_curve={
                str(k): self._within_batch(floats(v, f"batch curve of '{k}'", shape=(p, most)))
                for k, v in self.batch_curve.items()
            },
        )
        assign(self, setup=checked_setup(self.setup, self.cache, self.names))
        amounts = {str(k): self._amounts(str(k), v) for k, v in self.capacity.items()}
        assign(self, capacity={k: v for k, v in amounts.items() if np.isfinite(v).any()})
        unique_names(self.names, "device")
        self._check_devices()
        self._check_curves()
        assign(
            self,
            bandwidth=self._matrix(self.bandwidth, "bandwidth", np.inf),
            latency=self._matrix(self.latency, "latency", 0.0),
        )
        if self.routes is not None:
            for key in ("bandwidth", "latency"):
                between = getattr(self.routes, key)[np.ix_(self.node, self.node)]
                same = self.node[:, None] == self.node[None, :]
                assign(self, **{key: frozen(np.where(same, getattr(self, key), between))})
        refuse_not_positive(self.bandwidth, "bandwidth", self._pair, finite=False)
        refuse_negative(self.latency, "latency", self._pair)

    @classmethod
    @typed
    def of(
        cls,
        devices: Sequence[Device],
        links: Links | None = None,
        *,
        capacity: Mapping[str, Mapping[str, float]] | None = None,
        network: Topology | None = None,
        name: str = "cluster",
    ) -> Cluster:
        """Gather devices, node-level links and capacities of nodes into a cluster.

        Examples
        --------
        >>> gpus = [Device(f"g{i}", kind="A100", node=f"n{i // 2}", speed=9.7) for i in range(4)]
        >>> c = Cluster.of(gpus, Links(bandwidth=1e9, node_bandwidth=300e9))
        >>> float(c.bandwidth[0, 1]), float(c.bandwidth[0, 2])
        (300000000000.0, 1000000000.0)
        """
        nodes = tuple(d.node for d in devices)
        number = {n: i for i, n in enumerate(dict.fromkeys(nodes))}
        bandwidth, latency = (links or Links()).matrices(
            np.array([number[n] for n in nodes], np.int64)
        )
        rated = dict.fromkeys(k for d in devices for k in d.throughput)
        numbers = ("speed", "memory", "cache", "switch", "power", "idle_power", "price")
        return cls(
            name=name,
            names=tuple(d.name for d in devices),
            kinds=tuple(d.kind for d in devices),
            nodes=nodes,
            **{key: np.array([getattr(d, key) for d in devices], float) for key in numbers},
            throughput={
                k: np.array([d.throughput.get(k, np.nan) for d in devices], float) for k in rated
            },
            cores=np.array([d.cores for d in devices]),
            batch=np.array([d.batch for d in devices]),
            batch_curve=curves_of(devices),
            setup=setup_columns([d.setup for d in devices]),
            bandwidth=bandwidth,
            latency=latency,
            capacity=dict(capacity or {}),  # type: ignore[arg-type]  # amounts by node
            network=network,
        )

    @classmethod
    @typed
    def host(
        cls, *, cores: int, memory: float | None = None, name: str = "host", **others: float
    ) -> Cluster:
        """Return one machine that runs up to `cores` tasks at once, if their needs fit.

        `memory` is in bytes; `others` are further capacities, such as ``licence=1``.

        Examples
        --------
        >>> machine = Cluster.host(cores=4, memory=8e9, licence=1)
        >>> machine.p, {k: float(v[0]) for k, v in machine.capacity.items()}
        (4, {'cores': 4.0, 'memory': 8000000000.0, 'licence': 1.0})
        """
        cores = whole(cores, f"cores of '{name}'", most=MOST_CORES)
        amounts = {"cores": float(cores), "memory": np.inf if memory is None else memory, **others}
        return cls.of(
            [Device(f"{name}/{i}", kind="cpu", node=name) for i in range(cores)],
            capacity={key: {name: amount} for key, amount in amounts.items()},
            name=name,
        )

    @property
    def p(self) -> int:
        """Number of devices."""
        return len(self.speed)

    @cached_property
    def node_names(self) -> tuple[str, ...]:
        """Names of the nodes, in the order of their first device."""
        return tuple(dict.fromkeys(self.nodes))

    @cached_property
    def node(self) -> IntArray:
        """(p,) number of each device's node among `node_names`."""
        number = {name: i for i, name in enumerate(self.node_names)}
        return frozen(np.array([number[name] for name in self.nodes], np.int64))

    @cached_property
    def routes(self) -> Routes | None:
        """Links of the network and routes between nodes; None without a network."""
        return None if self.network is None else self.network.routes(self.node_names)

    @cached_property
    def per_byte(self) -> FloatArray:
        """(p, p) seconds per byte; 0 on the diagonal and where bandwidth is infinite."""
        with np.errstate(over="ignore"):  # a problem with an infinite transfer is refused
            return frozen(1.0 / self.bandwidth)

    @cached_property
    def extreme_links(self) -> tuple[float, float, float, float]:
        """Least positive and largest latency, least positive and largest seconds per byte."""
        columns = (self.latency, self.per_byte)
        ends = [(np.where(x > 0, x, np.inf).min(), x.max()) for x in columns]
        (near, far), (quick, slow) = ends
        return float(near), float(far), float(quick), float(slow)

    def transfer_time(self, source: int, target: int, data: float) -> float:
        """Return the seconds to move `data` bytes; none within one device."""
        return float(self.latency[source, target] + data * self.per_byte[source, target])

    def energy(self, busy: FloatArray, seconds: float) -> float:
        """Return the joules over some seconds: power while busy, idle power otherwise.

        Examples
        --------
        >>> c = Cluster(speed=[1.0, 1.0], power=100.0, idle_power=10.0)
        >>> c.energy(np.array([3.0, 0.0]), 5.0)  # 3 x 100 + 7 x 10
        370.0
        """
        return float((self.power * busy + self.idle_power * (seconds - busy)).sum())

    def rent(self, seconds: float) -> float:
        """Return the money for all devices over some seconds, busy or not.

        Examples
        --------
        >>> Cluster(speed=[1.0, 1.0], price=[3.0, 1.0]).rent(1800.0)
        2.0
        """
        return float(self.price.sum()) * seconds / 3600.0

    def batch_growth(self, kinds: Sequence[str]) -> FloatArray:
        """Return (kinds, p, largest batch) seconds of a batch over those of one task.

        Without any curve the last axis has length 1: batches of every size take as long as one.

        Examples
        --------
        >>> c = Cluster.of([Device("gpu", batch=3, batch_curve={"detect": 0.5})])
        >>> c.batch_growth(["detect", "read"]).tolist()
        [[[1.0, 1.5, 2.0]], [[1.0, 1.0, 1.0]]]
        """
        flat = np.ones((self.p, int(self.batch.max()) if self.batch_curve else 1))
        other = self.batch_curve.get(ANY_KIND, flat)
        growth = np.array([self.batch_curve.get(k, other) for k in kinds]).reshape(-1, *flat.shape)
        return frozen(np.where(np.isnan(growth), 1.0, growth))

    @cached_property
    def has_setup(self) -> bool:
        """Whether a device takes time before it runs a kind of task."""
        return bool(self.setup) or bool(self.switch.any())

    def setup_of(self, kinds: Sequence[str]) -> FloatArray:
        """Return (kinds, p, 3) the set-up of each kind on each device.

        The three numbers are the seconds to load the kind, its bytes of the cache, and whether it
        is pinned.

        Examples
        --------
        >>> from weft import Setup
        >>> c = Cluster.of([Device("gpu", setup={"detect": Setup(2.0, memory=1e9)})])
        >>> c.setup_of(["detect", "read"]).tolist()
        [[[2.0, 1000000000.0, 0.0]], [[0.0, 0.0, 0.0]]]
        """
        return setup_of_kinds(self.setup, kinds, self.p)

    def _labels(
        self, given: Sequence[str] | None, default: list[str], what: str
    ) -> tuple[str, ...]:
        labels = tuple(str(x) for x in (default if given is None else given))
        if len(labels) != len(default):
            raise InvalidInput(
                f"cluster '{self.name}' has {len(default)} devices but {len(labels)} {what}"
            )
        return labels

    def _matrix(self, values: ArrayLike, what: str, diagonal: float) -> FloatArray:
        matrix = np.array(floats(values, what, shape=(self.p, self.p)))
        np.fill_diagonal(matrix, diagonal)
        return frozen(matrix)

    def _check_devices(self) -> None:

        def name(d: int) -> str:
            return f"device '{self.names[d]}'"

        refuse_not_positive(self.speed, "speed", name)
        refuse_not_positive(self.memory, "memory", name, finite=False)
        refuse_not_positive(self.cache, "cache", name, finite=False)
        refuse_negative(self.switch, "switch", name)
        refuse_negative(self.power, "power", name)
        refuse_negative(self.idle_power, "idle power", name)
        refuse_negative(self.price, "price", name)
        refuse(self.cores < 1, self.cores, "cores", "1 or more", name)
        refuse(self.batch < 1, self.batch, "batch", "1 or more", name)
        for kind, rate in self.throughput.items():
            refuse(
                (rate < 0) | np.isinf(rate),
                rate,
                f"throughput of '{kind}'",
                "a finite number, zero or more",
                name,
            )

    def _amounts(self, what: str, given: Mapping[str, float] | ArrayLike) -> FloatArray:
        """Return the capacity of each node; inf where none is given."""
        if isinstance(given, Mapping):
            for node in given:
                if node not in self.node_names:
                    raise InvalidInput(
                        f"capacity '{what}' names the unknown node '{node}'"
                        f"{closest(node, self.node_names)}"
                    )
            given = [given.get(node, np.inf) for node in self.node_names]
        amounts = floats(given, f"capacity '{what}'", shape=(len(self.node_names),))
        refuse(
            ~(amounts >= 0.0),
            amounts,
            f"capacity '{what}'",
            "zero or more",
            lambda i: f"node '{self.node_names[i]}'",
        )
        return amounts

    def _within_batch(self, curve: FloatArray) -> FloatArray:
        """Return a curve with NaN beyond the largest batch of each device."""
        inside = np.arange(curve.shape[1])[None, :] < self.batch[:, None]
        return frozen(np.where(inside, curve, np.nan))

    def _check_curves(self) -> None:
        if not self.batch_curve:
            return
        sizes = np.arange(int(self.batch.max()))[None, :]
        for kind, curve in self.batch_curve.items():
            inside = sizes < self.batch[:, None]
            bad = inside & ~((curve > 0.0) & np.isfinite(curve))
            bad[:, 0] |= np.abs(curve[:, 0] - 1.0) > 1e-9
            if bad.any():
                d, size = (int(x) for x in np.argwhere(bad)[0])
                rule = "it must be 1" if size == 0 else "it must be a finite number above zero"
                raise InvalidInput(
                    f"the batch curve of '{kind}' on device '{self.names[d]}' is "
                    f"{curve[d, size]:g} for {size + 1} tasks; {rule}"
                )

    def _pair(self, flat: int) -> str:
        i, j = divmod(flat, self.p)
        return f"link '{self.names[i]}' -> '{self.names[j]}'"
