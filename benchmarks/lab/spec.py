"""The description of a lab: hosts, their speeds and memory, and the rates of their links."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.errors import InvalidInput
from weft.registry import closest

HEAD = "head"
"""Name of the host of the scheduler and the driver."""

UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
RATE = re.compile(r"([\d.]+)\s*([kmg]?)bit", re.IGNORECASE)
SIZE = re.compile(r"([\d.]+)\s*([kmg]?)b", re.IGNORECASE)


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
    with Path(path).open("rb") as file:
        return parse_spec(tomllib.load(file), str(path))


def parse_spec(document: dict[str, Any], where: str = "the lab") -> LabSpec:
    """Make a lab of a parsed TOML document; unknown keys are refused."""
    _known(document, ("core", "head_link", "host", "pair"), where)
    hosts = tuple(_host(entry, where) for entry in document.get("host", ()))
    names = [host.name for host in hosts]
    if not hosts or len(set(names)) < len(names) or HEAD in names:
        raise InvalidInput(f"{where}: hosts need different names, none of them '{HEAD}'")
    pairs = {}
    for entry in document.get("pair", ()):
        _known(entry, ("between", "link"), f"{where}, pair")
        one, other = entry["between"]
        for name in (one, other):
            if name not in names:
                raise InvalidInput(f"{where}: a pair names '{name}'{closest(name, names)}")
        pairs[one, other] = bits(entry["link"])
    return LabSpec(
        hosts, float(document.get("core", 1.0)), bits(document.get("head_link", "1gbit")), pairs
    )


def _host(entry: dict[str, Any], where: str) -> Host:
    _known(entry, ("name", "speed", "cores", "memory", "link"), f"{where}, host")
    name = str(entry.get("name", ""))
    if not re.fullmatch(r"[a-z][a-z0-9]{0,7}", name):
        raise InvalidInput(
            f"{where}: a host is called '{name}'; write up to 8 small letters and digits"
        )
    host = Host(
        name,
        float(entry.get("speed", 1.0)),
        int(entry.get("cores", 1)),
        amount(entry.get("memory", "2gb")),
        bits(entry.get("link", "1gbit")),
    )
    if host.speed <= 0 or host.cores < 1:
        raise InvalidInput(f"{where}: host '{name}' needs a speed above 0 and a core")
    return host


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
    match = form.fullmatch(str(text).strip())
    value = float(match[1]) * UNITS[match[2].lower()] if match else 0.0
    if value <= 0:
        raise InvalidInput(f"'{text}' is not {what}")
    return value


def _known(entry: dict[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in entry:
        if key not in keys:
            raise InvalidInput(f"{where}: unknown key '{key}'{closest(key, keys)}")
