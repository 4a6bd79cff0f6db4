"""The HyperQueue backend: a device is a task of a server, and runs weft's tasks.

HyperQueue decides on which host a device gets its cores, GPUs and memory; weft decides which task a
device runs next, in the order of its plan or policy. A task then costs a message instead of the
start of a process.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.errors import InvalidInput, Unsupported, WeftError
from weft.runtime.backends.hyperqueue.server import OwnServer, connected, hyperqueue, request
from weft.runtime.backends.pilots.backend import START_SECONDS, PilotBackend
from weft.runtime.backends.pilots.device import PilotDevice, PilotDevices, pilot_devices
from weft.runtime.costs.profiler import cores_here

MEGABYTE = 2**20
"""HyperQueue counts the resource "mem" in these."""

ENDED = re.compile(r"exit code (-?\d+)(?:.*?signal (\d+))?", re.DOTALL)


class HyperQueueBackend(PilotBackend):
    """Devices that are tasks of a HyperQueue server.

    Parameters
    ----------
    devices : a number of single cores, or one `PilotDevice` each; by default one per core of this
        machine
    address : folder of a running server; without it, a server and a worker start on this machine
        and end with `close`
    host : address of this machine that workers connect to; by default loopback for an own server,
        the name of this machine for a running one
    start_seconds : seconds in which HyperQueue must start each device
    logs : folder for the output of workers; by default it is dropped
    """

    name = "hyperqueue"

    def __init__(
        self,
        devices: PilotDevices = None,
        *,
        address: str | Path | None = None,
        host: str | None = None,
        start_seconds: float = START_SECONDS,
        logs: str | Path | None = None,
    ) -> None:
        self._hq = hyperqueue()
        if devices is None and address is not None:
            raise InvalidInput(
                "devices is not given, and a HyperQueue server does not say what its workers have; "
                "give the number of devices, or one PilotDevice each"
            )
        specs = pilot_devices(len(cores_here()) if devices is None else devices)
        for spec in specs:
            _refuse_unknown(spec, own=address is None)
        default = "127.0.0.1" if address is None else socket.gethostname()
        super().__init__(specs, host=host or default, start_seconds=start_seconds)
        self._logs = None if logs is None else Path(logs).resolve()
        self._server = OwnServer(sum(spec.cpus for spec in specs)) if address is None else None
        try:
            self._client = connected(address) if address is not None else self._own().client()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all pilots, and an own server."""
        super().close()
        if self._server is not None:
            self._server.close()
            self._server = None

    def _own(self) -> OwnServer:
        assert self._server is not None
        return self._server

    def launch(
        self, spec: PilotDevice, argv: Sequence[str], facts: bytes, variables: Mapping[str, str]
    ) -> HyperQueueJob:
        """Submit a job of one task."""
        job = self._hq.Job(name=f"weft-{spec.name}", max_fails=None)
        shown = None if self._logs is None else str(self._logs / f"{spec.name}.%{{JOB_ID}}.log")
        job.program(
            list(argv),
            env=dict(variables),
            stdin=facts,
            stdout=shown,
            stderr=shown,
            priority=spec.priority,
            resources=request(_amounts(spec, own=self._server is not None), spec.cpus),
            crash_limit=1,  # after a crash, the driver submits another pilot
        )
        try:
            return HyperQueueJob(self._client, self._client.submit(job).id)
        except Exception as error:  # noqa: BLE001  # HyperQueue raises no own class
            self.close()
            text = " ".join(str(error).split())[:300]
            raise WeftError(f"the HyperQueue server takes no tasks any more: {text}") from None


class HyperQueueJob:
    """A job of one pilot."""

    def __init__(self, client: Any, number: int) -> None:
        self._connection, self._number = client.connection, number

    def exit_code(self) -> int | None:
        """Return the exit code that HyperQueue reports for a failed task, if any."""
        try:
            failed = self._connection.get_failed_tasks([self._number]).get(self._number, {})
        except Exception:  # noqa: BLE001  # the server is gone
            return None
        text = " ".join(context.error for context in failed.values())
        found = ENDED.search(text)
        if found is None:
            return -9 if failed else None
        return -int(found[2]) if found[2] else int(found[1])

    def cancel(self) -> None:
        """Do nothing: a pilot ends with its connection, and a later one cannot connect."""


def _amounts(spec: PilotDevice, *, own: bool) -> list[tuple[str, float]]:
    if own:
        return []  # weft's own worker offers cores only; the pilot limits its memory itself
    memory = [] if spec.memory is None else [("mem", float(-(-spec.memory // MEGABYTE)))]
    gpus = [("gpus/nvidia", float(spec.gpus))] if spec.gpus else []
    return [*gpus, *memory, *((name, float(a)) for name, a in spec.resources.items())]


def _refuse_unknown(spec: PilotDevice, *, own: bool) -> None:
    if spec.node:
        raise Unsupported(
            f"device '{spec.name}' asks for node '{spec.node}'; HyperQueue chooses the node: give "
            "its workers a resource of that name, and ask for it in resources="
        )
    if own and (spec.gpus or spec.resources):
        raise Unsupported(
            f"device '{spec.name}' asks for {spec}; the server that weft starts offers cores only: "
            "start your own (hq server start, hq worker start) and give address="
        )
