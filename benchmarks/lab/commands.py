"""Commands of the system: `ip` and `tc`, with their errors in one line."""

from __future__ import annotations

import os
import shutil
import subprocess

from weft.errors import WeftError


def missing() -> str:
    """Return why no lab can be made here; empty: it can."""
    if os.geteuid() != 0:
        return "a lab needs root"
    for program in ("ip", "tc", "nsenter"):
        if shutil.which(program) is None:
            return f"a lab needs the program '{program}'"
    from benchmarks.lab.control_groups import controllers

    if controllers() is None:
        return "a lab needs the cpu and memory controllers of control groups"
    return _no_namespaces()


def _no_namespaces() -> str:
    """Try a namespace with a shaped link: containers may forbid them."""
    name = f"weft-try-{os.getpid()}"
    try:
        call("ip", "netns", "add", name)
        call("ip", "-n", name, "link", "add", "one", "type", "veth", "peer", "name", "other")
        call(
            *("tc", "-n", name, "qdisc", "add", "dev", "one", "root", "tbf"),
            *("rate", "1mbit", "burst", "64kb", "latency", "1ms"),
        )
    except WeftError as error:
        return f"a lab needs network namespaces and tbf: {error}"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
    return ""


def call(*command: str) -> str:
    """Run a command and return its output; raise an error with its own words."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        words = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise WeftError(f"'{' '.join(command)}' failed: {words}")
    return done.stdout
