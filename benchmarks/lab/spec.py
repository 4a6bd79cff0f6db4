"""The description of a lab: hosts, their speeds and memory, and the rates of their links."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.formats.native.cluster_toml import parse_toml
from weft.formats.parsing.quantity import quantity
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import decode_text, naming, read_bytes
from weft.registry import closest

HEAD = "head"
"""Name of the host of the scheduler and the driver."""

UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
RATE = re.compile(r"(\d+\.?\d*)\s*([kmg]?)bit", re.IGNORECASE | re.ASCII)
SIZE = re.compile(r"(\d+\.?\d*)\s*([kmg]?)b", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class Host:
    """A host: `speed` in cores of this machine per core, its cores, bytes, and bits per second."""

    name: str
    speed: float = 1.0
    cores: int = 1
    memory: float = 2e9
    link: float = 1e9

    @property
    def quota(self) -> float:
        """Cores of this machine that the host may use."""
        return self.speed * self.cores


@dataclass(frozen=True)
class LabSpec:
    """The hosts of a lab, the rate of the head's link, and links of their own between two hosts.

    `core` is the share of a core of this machine that a host of speed 1 gets.
    """

    hosts: tuple[Host, ...]
    core: float = 1.0
    head_link: float = 1e9
    pairs: dict[tuple[str, str], float] = field(default_factory=dict)

    def rate(self, one: str, other: str) -> float:
        """Bits per second that a transfer between two hosts can reach."""
        own = self.pairs.get((one, other)) or self.pairs.get((other, one))
        return own or min(self.link(one), self.link(other))

    def link(self, name: str) -> float:
        """Bits per second of the link between a host and the switch."""
        return (
            self.head_link if name == HEAD else next(h.link for h in self.hosts if h.name == name)
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts with workers."""
        return tuple(host.name for host in self.hosts)


def load_spec(path: str | Path) -> LabSpec:
    """Read a lab from a TOML file."""
    with naming(str(path)):
        return parse_spec(parse_toml(decode_text(read_bytes(Path(path)))))


def parse_spec(document: dict[str, Any]) -> LabSpec:
    """Make a lab of a parsed TOML document; unknown keys are refused."""
    record = Record(document)
    record.only(("core", "head_link", "host", "pair"))
    hosts = tuple(_host(entry) for entry in record.children("host"))
    names = [host.name for host in hosts]
    if not hosts or len(set(names)) < len(names) or HEAD in names:
        raise InvalidInput(f"hosts need different names, none of them '{HEAD}'")
    pairs = {}
    for entry in record.children("pair") if "pair" in record else ():
        entry.only(("between", "link"))
        ends = entry.strings("between")
        if len(ends) != 2:
            raise InvalidInput(f"{entry.path('between')} has {len(ends)} names; give two hosts")
        for name in ends:
            if name not in names:
                raise InvalidInput(f"a pair names '{name}'{closest(name, names)}")
        pairs[ends[0], ends[1]] = bits(entry.text("link"))
    return LabSpec(
        hosts, _above_zero(record, "core"), bits(record.text("head_link", "1gbit")), pairs
    )


def _host(entry: Record) -> Host:
    entry.only(("name", "speed", "cores", "memory", "link"))
    name = entry.text("name")
    if not re.fullmatch(r"[a-z][a-z0-9]{0,7}", name):
        raise InvalidInput(f"a host is called '{name}'; write up to 8 small letters and digits")
    return Host(
        name,
        _above_zero(entry, "speed"),
        _cores(entry),
        amount(entry.text("memory", "2gb")),
        bits(entry.text("link", "1gbit")),
    )


def _above_zero(record: Record, key: str) -> float:
    value = quantity(record.raw(key, 1.0), "work per second", record.path(key))
    if not 0.0 < value < math.inf:
        raise InvalidInput(f"{record.path(key)} is {value:g}; it must be a number above 0")
    return value


def _cores(entry: Record) -> int:
    cores = _above_zero(entry, "cores")
    if not cores.is_integer():
        raise InvalidInput(f"{entry.path('cores')} is {cores:g}; it must be a whole number")
    return int(cores)


def bits(text: str) -> float:
    """Return bits per second.

    >>> bits("80mbit")
    80000000.0
    """
    return _amount(RATE, text, "a rate such as '80mbit'")


def amount(text: str) -> float:
    """Return bytes.

    >>> amount("1.5gb")
    1500000000.0
    """
    return _amount(SIZE, text, "an amount such as '2gb'")


def _amount(form: re.Pattern[str], text: str, what: str) -> float:
    match = form.fullmatch(text.strip())
    value = float(match[1]) * UNITS[match[2].lower()] if match else 0.0
    if not 0.0 < value < math.inf:
        raise InvalidInput(f"{shown(text)} is not {what}")
    return value
