"""Network namespaces of hosts, joined by a bridge in a namespace of its own, with shaped links."""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchmarks.lab.commands import call
from benchmarks.lab.spec import HEAD, LabSpec

SWITCH = "switch"
NET = "10.77.0"
"""Addresses inside the namespaces; no route leads out of them."""

NAMESPACES = Path("/run/netns")

BURST_SECONDS, LEAST_BURST = 0.001, 65536
"""Bytes that may pass at once: the rate over this time, at least one packet of the kernel."""


def address(spec: LabSpec, host: str) -> str:
    """Return the address of a host."""
    return f"{NET}.{1 if host == HEAD else 2 + spec.names.index(host)}"


def port(host: str) -> str:
    """Return the name of the switch's end of the link of a host."""
    return f"to-{host}"


def build(lab: str, spec: LabSpec) -> None:
    """Make the namespaces, the bridge and the links."""
    switch = f"{lab}-{SWITCH}"
    call("ip", "netns", "add", switch)
    call("ip", "-n", switch, "link", "add", "bridge", "type", "bridge")
    call("ip", "-n", switch, "link", "set", "bridge", "up")
    for host in (HEAD, *spec.names):
        space = f"{lab}-{host}"
        call("ip", "netns", "add", space)
        call("ip", "-n", space, "link", "set", "lo", "up")
        call(
            *("ip", "-n", switch, "link", "add", "name", port(host), "type", "veth"),
            *("peer", "name", "eth0", "netns", space),
        )
        call("ip", "-n", switch, "link", "set", port(host), "master", "bridge", "up")
        call("ip", "-n", space, "addr", "add", f"{address(spec, host)}/24", "dev", "eth0")
        call("ip", "-n", space, "link", "set", "eth0", "up")
        shape(space, "eth0", spec.link(host))
        shape(switch, port(host), spec.link(host))
    for k, ((one, other), rate) in enumerate(spec.pairs.items()):
        _join(lab, spec, one, other, f"pair{k}", rate)


def _join(lab: str, spec: LabSpec, one: str, other: str, device: str, rate: float) -> None:
    """Give two hosts a link of their own."""
    spaces = (f"{lab}-{one}", f"{lab}-{other}")
    call(
        *("ip", "-n", spaces[0], "link", "add", "name", device, "type", "veth"),
        *("peer", "name", device, "netns", spaces[1]),
    )
    for space, target in ((spaces[0], other), (spaces[1], one)):
        call("ip", "-n", space, "link", "set", device, "up")
        shape(space, device, rate)
        call("ip", "-n", space, "route", "add", f"{address(spec, target)}/32", "dev", device)


def shape(space: str, device: str, rate: float) -> None:
    """Limit what a device sends, in bits per second."""
    burst = max(LEAST_BURST, round(rate / 8 * BURST_SECONDS))
    call(
        *("tc", "-n", space, "qdisc", "replace", "dev", device, "root", "tbf"),
        *("rate", f"{round(rate)}bit", "burst", str(burst), "latency", "200ms"),
    )


def cut(lab: str, host: str) -> None:
    """Take the link of a host down: its traffic vanishes, without a word to either side."""
    call("ip", "-n", f"{lab}-{SWITCH}", "link", "set", port(host), "down")


def mend(lab: str, host: str) -> None:
    """Take the link of a host up again."""
    call("ip", "-n", f"{lab}-{SWITCH}", "link", "set", port(host), "up")


def names() -> list[str]:
    """Return the names of all namespaces."""
    return sorted(p.name for p in NAMESPACES.iterdir()) if NAMESPACES.is_dir() else []


def remove(lab: str) -> None:
    """Remove the namespaces of a lab; links and bridge go with them."""
    for name in names():
        if name.startswith(f"{lab}-"):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
