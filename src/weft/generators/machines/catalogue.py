"""Published devices and links, from `catalogue.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple

from weft.arguments import one_of
from weft.errors import InvalidInput, UnknownName
from weft.registry import closest
from weft.typed import typed, typed_dataclass

PRECISIONS = ("fp64", "fp32", "fp16")


class LinkModel(NamedTuple):
    """A link: bytes per second in one direction, seconds of latency."""

    name: str
    bandwidth: float
    latency: float


@typed_dataclass(frozen=True)
class DeviceModel:
    """A published device, in weft's units: TFLOP/s, bytes, bytes per second, watts.

    `peer` is the link between two of its kind in a node, `host` the one to anything else there.
    """

    name: str
    title: str
    fp64: float
    fp32: float
    fp16: float | None
    memory: float
    memory_bandwidth: float
    tdp: float
    host: LinkModel
    peer: LinkModel | None
    cores: int
    source: str

    def peak(self, precision: str) -> float:
        """Return the peak TFLOP/s in a precision."""
        rate: float | None = getattr(self, one_of(precision, "precision", PRECISIONS))
        if rate is None:
            raise InvalidInput(
                f"device '{self.name}' has no {precision} matrix units; choose fp32 or fp64"
            )
        return rate


@typed
@cache
def catalogue() -> Mapping[str, DeviceModel]:
    """Return all device models by name.

    Examples
    --------
    >>> catalogue()["V100"].fp32, catalogue()["T4"].memory
    (15.7, 16000000000.0)
    """
    return MappingProxyType(
        {name: _device(name, row) for name, row in _tables()["devices"].items()}
    )


@typed
def device_model(name: str) -> DeviceModel:
    """Return a device model by one of its names, in upper or lower case.

    Examples
    --------
    >>> device_model("a100-40").title
    'NVIDIA A100 SXM4 40GB'
    >>> device_model("V10")
    Traceback (most recent call last):
    ...
    weft.errors.UnknownName: unknown device 'V10'; did you mean 'V100'?
    """
    names = {known.lower(): known for known in catalogue()}
    names |= {other.lower(): known for other, known in _tables()["aliases"].items()}
    if name.lower() not in names:
        known = [*catalogue(), *_tables()["aliases"]]
        raise UnknownName(
            f"unknown device '{name}'{closest(name, known, listing='weft list devices')}"
        )
    return catalogue()[names[name.lower()]]


def link_model(name: str) -> LinkModel:
    """Return a link by name.

    Examples
    --------
    >>> link_model("Ethernet-10G").bandwidth
    1250000000.0
    """
    links = _tables()["links"]
    if name not in links:
        raise UnknownName(f"unknown link '{name}'{closest(name, links)}")
    return LinkModel(name, links[name]["bandwidth"] * 1e9, links[name]["latency"] / 1e6)


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(
        (files("weft.generators.machines") / "catalogue.toml").read_text(encoding="utf-8")
    )


def _device(name: str, row: dict[str, Any]) -> DeviceModel:
    return DeviceModel(
        name=name,
        title=row["title"],
        fp64=row["fp64"],
        fp32=row["fp32"],
        fp16=row.get("fp16"),
        memory=row["memory"] * 1e9,
        memory_bandwidth=row["memory_bandwidth"] * 1e9,
        tdp=row["tdp"],
        host=link_model(row["host"]),
        peer=link_model(row["peer"]) if "peer" in row else None,
        cores=row.get("cores", 1),
        source=row["source"],
    )
