"""The actors of devices on Ray: their start, their replacement, and their end."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from dataclasses import replace
from math import inf
from typing import Any

from weft.errors import WeftError
from weft.model import Cluster
from weft.runtime.backends.calls import MAX_KILLED_STARTS, Calls
from weft.runtime.backends.local.device import device_cluster, with_nodes_of
from weft.runtime.backends.protocol import Transfer
from weft.runtime.backends.ray.actor import DeviceActor, Pickled
from weft.runtime.backends.ray.links import probes
from weft.runtime.backends.ray.session import HeadGone, RayDevices, RaySession
from weft.runtime.backends.ray.slots import ActorSlot, cause_of_loss, clock_offset
from weft.runtime.backends.real import RealBackend, machine

GROUPS = {"control": 1, "watch": 1}
"""Concurrency groups of calls beside the running one."""

TICK = 0.5
"""Seconds between two checks of an own Ray."""

NO_PROCESS_SECONDS = 5.0
"""Seconds that an actor may be without a process before weft starts it again. The limit grows by
this number with each attempt, as a busy machine may take longer to start a process."""


class ActorBackend(RealBackend):
    """A backend with an actor per device, before the first order; see `RayBackend`."""

    _calls: Calls[Pickled]
    """Of the run; actors receive its functions before its clock starts."""
    _probed = False
    """Whether the links between nodes were measured."""

    def __init__(
        self,
        devices: RayDevices = None,
        *,
        address: str | None = None,
        processors: int | None = None,
    ) -> None:
        self._session = RaySession(devices, address, processors)
        self._ray = self._session.ray
        self.specs = self._session.specs
        self._cluster = with_nodes_of(device_cluster(self.specs, "ray"), devices)
        if not (self._session.started or isinstance(devices, Cluster)):
            # Ray places the actors later; until then, each counts as a node of its own.
            self._cluster = replace(self._cluster, nodes=self._cluster.names)
        self._remote = self._ray.remote(
            max_restarts=0, max_task_retries=0, concurrency_groups=GROUPS
        )(DeviceActor)
        self._dead = (self._ray.exceptions.RayActorError, self._ray.exceptions.OutOfMemoryError)
        self._slots: list[ActorSlot | None] = [None] * len(self.specs)
        self._starts = [0] * len(self.specs)
        """Device -> starts in a row at which its process died."""
        self._complete_at = self._looked_at = time.perf_counter()
        """When all actors were last seen to have a process; when that was last looked at."""

    def devices(self) -> Cluster:
        """Return the cluster of actors."""
        return self._cluster

    def pids(self) -> list[int]:
        """Return the process ids of the actors that are up, each on its own machine."""
        return [
            slot.pid for slot in self._slots if slot is not None and slot.ready and not slot.ended
        ]

    def _start_actors(self) -> dict[int, str]:
        """Start an actor for each device without one; return devices that are left out."""
        self._starts = [0] * len(self.specs)
        for device, slot in enumerate(self._slots):
            if slot is None:
                self._slots[device] = self._spawn(device)
            else:
                self._preload(slot)
        return {d: text for d in range(len(self.specs)) if (text := self._prepare(d))}

    def _spawn(self, device: int) -> ActorSlot:
        spec = self.specs[device]
        surroundings = (
            {"runtime_env": {"env_vars": dict(spec.environment)}} if spec.environment else {}
        )
        actor = self._remote.options(
            num_cpus=spec.cpus,
            num_gpus=spec.gpus,
            resources=dict(spec.resources) or None,
            **self._session.place(int(self._cluster.node[device])),
            **surroundings,
        ).remote(spec.name, spec.cores)
        watch = actor.watch.options(concurrency_group="watch").remote()
        slot = ActorSlot(
            device,
            actor,
            actor.perform.options(num_returns=2),
            actor.handshake.remote(),
            watch,
            born=time.perf_counter(),
        )
        self._preload(slot)
        return slot

    def _prepare(self, device: int) -> str:
        """Wait until an actor is up, and replace one that dies; return why it is left out."""
        text = "its process dies before it can work"
        while (slot := self._slots[device]) is not None:
            try:
                if not self._handshake(slot):
                    continue
            except self._ray.exceptions.GetTimeoutError:
                return self._not_started(slot)
            except self._dead as error:
                text = cause_of_loss(error)
                if self._left_out(device, text):
                    return text
                self._slots[device] = self._spawn(device)
            else:
                return ""
        return text

    def _not_started(self, slot: ActorSlot) -> str:
        """Leave out a device whose actor does not start in time, except the last device."""
        about = (
            f"the actor of device '{self.specs[slot.device].name}' did not start: Ray found no "
            f"place for it within {self._session.start_limit:g} s, or its node died; free are "
            f"{self._session.free()}"
        )
        self._end(slot)
        self._slots[slot.device] = None
        if not any(self._slots):
            self.close()
            raise WeftError(about)
        warnings.warn(f"{about}; the run goes on without", stacklevel=2)
        return about

    def _left_out(self, device: int, text: str) -> bool:
        """Count a start at which an actor died; return whether there were too many."""
        self._starts[device] += 1
        if self._starts[device] < MAX_KILLED_STARTS:
            return False
        self._slots[device] = None
        about = f"the actor of device '{self.specs[device].name}' dies before it can work"
        self._go_on_without(f"{about}, again and again: {text}", self._slots)
        return True

    def _handshake(self, slot: ActorSlot) -> bool:
        """Wait until an actor is up; return False if it was replaced meanwhile."""
        begun = time.perf_counter()
        while not self._ray.wait([slot.preloaded], timeout=TICK)[0]:
            if dead := self._session.gone():
                raise HeadGone(f"Ray's {dead} is gone before its actors were up")
            late = time.perf_counter() > begun + self._session.start_limit
            if late or not self._session.has(self.specs[slot.device].amounts):  # its node died
                raise self._ray.exceptions.GetTimeoutError
            self._replace_unstarted()
            if self._slots[slot.device] is not slot:
                return False
        self._ray.get(slot.preloaded)
        slot.pid, where, _ = self._ray.get(slot.handshake)
        slot.node = self._ray.get(slot.actor.node.remote())
        if where != machine() and not slot.ready:
            slot.offset = clock_offset(self._ray, slot)
        slot.ready = True
        return True

    def _replace_unstarted(self) -> None:
        """Replace actors whose processes died before they reached Ray.

        Ray itself waits for minutes.

        It is unknown which process belongs to which actor, but Ray gives the next process that is
        up to the actor that waits longest, so the newest actors are replaced.
        """
        now = time.perf_counter()
        slots = [slot for slot in self._slots if slot is not None]
        starting = sorted((s for s in slots if not s.ready), key=lambda slot: -slot.born)
        if starting and now < self._looked_at + TICK:
            return
        self._looked_at = now
        missing = len(slots) - self._session.workers() if starting else 0
        if missing <= 0:
            self._complete_at = now
            return
        for slot in starting[: int(missing)]:
            patience = NO_PROCESS_SECONDS * (1 + self._starts[slot.device])
            if now > max(self._complete_at, slot.born) + patience:
                self._replace_dead(slot, WeftError("no process"))

    def _preload(self, slot: ActorSlot) -> None:
        """Send functions before the clock starts: imports do not count as run time.

        Actors begin in new processes, unlike Ray's own tasks, which use processes of earlier tasks.
        Without preloading, the first task of a kind on each device would be slow, which no plan
        expects.
        """
        functions = dict(enumerate(self._calls.preload()))
        slot.preloaded = slot.actor.preload.remote([p for p in sys.path if p], functions)
        slot.loaded_functions = set(functions)
        slot.free_at = -inf

    def _probe_links(self) -> list[tuple[int, Transfer]]:
        """Measure the links between the nodes of the actors, once."""
        if self._probed or self._session.started:
            return []
        self._probed = True
        first: dict[str, ActorSlot] = {}
        for slot in self._slots:
            if slot is not None:
                first.setdefault(slot.node, slot)
        return list(probes(self._ray, first))

    def _replace_dead(self, slot: ActorSlot, error: Any) -> None:
        """Report a dead actor and start another."""
        raise NotImplementedError

    def _end(self, slot: ActorSlot) -> None:
        slot.ended = True
        if self._session.gone():
            return
        with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(slot.actor, no_restart=True)
