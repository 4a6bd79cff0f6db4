"""Devices that are pilots: local backends with workers that a batch system starts."""

from __future__ import annotations

import pickle
import secrets
import select
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from weft.runtime.backends.leftover_processes import VARIABLE
from weft.runtime.backends.local.backend import LocalBackend
from weft.runtime.backends.local.device import device_cluster
from weft.runtime.backends.local.process import ONE_THREAD, WorkerLink
from weft.runtime.backends.pilots.device import PilotDevice
from weft.runtime.backends.pilots.link import PilotJob, PilotLink
from weft.runtime.backends.pilots.listener import PilotListener
from weft.runtime.backends.pilots.program import BOOTSTRAP, PilotFacts
from weft.typed import typed_class

START_SECONDS = 120.0
"""Seconds in which the batch system must start a pilot."""


class PilotBackend(LocalBackend):
    """Devices that are pilots of a batch system, each with its share of the resources.

    Workers of this machine exchange large arrays through shared memory; results of others travel
    through the driver. Durations are measured in the worker, around the call. A worker is lost when
    its connection ends: at once if its process dies, after 30 s if its host is cut off.
    """

    def __init_subclass__(cls) -> None:
        typed_class(cls)

    def __init__(self, specs: Sequence[PilotDevice], *, host: str, start_seconds: float) -> None:
        super().__init__(1)
        self.pilots = list(specs)
        self.specs = list(specs)  # type: ignore[arg-type]  # pilots stand in for local devices
        self._cluster = device_cluster(
            specs,
            self.name,
            nodes=tuple(spec.node or self.name for spec in specs),
            cores=[spec.cpus for spec in specs],
        )
        self._workers: list[WorkerLink | None] = [None] * len(self.specs)
        self._start_seconds = start_seconds
        self._host = host
        self._listener: PilotListener | None = None
        self._marker = secrets.token_hex(8)
        self._expected: dict[int, PilotLink] = {}
        """Number of a pilot that has not connected yet -> its link."""

    @abstractmethod
    def launch(
        self, spec: PilotDevice, argv: Sequence[str], facts: bytes, variables: Mapping[str, str]
    ) -> PilotJob:
        """Ask the batch system to run a command with this input and these variables."""

    def close(self) -> None:
        """End all pilots, and stop listening."""
        for w in self._workers:
            if w is not None:
                w.kill()  # all at once, before each is waited for
        super().close()
        if self._listener is not None:
            self._poll.unregister(self._listener.wake_read)
            self._listener.close()
            self._listener = None

    def _spawn(self, device: int) -> None:
        assert self._folder is not None
        (self._folder / self._marker).touch()
        listener = self._listening()
        self._spawned += 1
        spec = self.pilots[device]
        token = f"{self._token}.{self._spawned}."
        w = PilotLink(
            device, spec, token, start_seconds=self._start_seconds, arrivals=self._wait_for_arrivals
        )
        facts = PilotFacts(
            self._spawned, listener.address, listener.key, str(self._folder / self._marker)
        )
        path = [p or str(Path.cwd()) for p in sys.path]
        threads = dict.fromkeys(ONE_THREAD, str(spec.cpus))
        w.job = self.launch(
            spec,
            [sys.executable, "-P", "-c", BOOTSTRAP],
            pickle.dumps((path, sys.argv, tuple(facts))),
            {**threads, **spec.environment, VARIABLE: token},
        )
        self._workers[device] = w
        self._expected[self._spawned] = w

    def _listening(self) -> PilotListener:
        if self._listener is None:
            self._listener = PilotListener(self._host)
            self._poll.register(self._listener.wake_read)
        return self._listener

    def _connect_arrivals(self) -> None:
        assert self._listener is not None
        for handshake, connection in self._listener.arrivals():
            w = self._expected.pop(handshake.number, None)
            if w is None or w.ended:
                connection.close()
                continue
            w.connect(handshake, connection, str(self._folder))
            self._watch(w)
            self._unsent[w] = None

    def _receive_all(self, seconds: float) -> bool:
        found = super()._receive_all(min(seconds, 1.0) if self._expected else seconds)
        self._connect_arrivals()
        for number, w in list(self._expected.items()):
            if w.ended:
                del self._expected[number]
            elif w.exit_code() is not None or w.overdue:
                del self._expected[number]
                self._replace_dead(w)
        return found

    def _wait_for_arrivals(self, seconds: float) -> None:
        poll = select.poll()
        poll.register(self._listening().wake_read, select.POLLIN)
        poll.poll(1000.0 * seconds)
        self._connect_arrivals()

    def _left_out(self, w: WorkerLink, text: str, fault: str) -> bool:
        """Leave out at once a device that the batch system does not start."""
        if not isinstance(w, PilotLink) or not w.overdue:
            return super()._left_out(w, text, fault)
        about = (
            f"device '{w.spec.name}' did not start within {self._start_seconds:g} s; it asks for "
            f"{w.spec}"
        )
        self._go_on_without(about, self._workers)
        return True
