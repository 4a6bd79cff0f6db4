"""Observers of a run, its source of jobs, and the meaning of events of backends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Protocol

import numpy as np

from weft.errors import InvalidInput
from weft.model import Scenario, Workload
from weft.runtime.backends.protocol import DeviceAdded, DeviceLost, Event, Failed, Finished, Started
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.device_state import Group

if TYPE_CHECKING:
    from weft.runtime.engine.driver import Driver


ENDS = (Finished, Failed)
"""Events that end an order.

A tuple: `isinstance` is faster with it than with a union.
"""


class Observer:
    """Receiver of run events: journal, history, progress. It must not change the run."""

    def started(self, life: LiveLifecycle, event: Started) -> None:
        """Handle the start of an order."""

    def finished(
        self, life: LiveLifecycle, group: Group, event: Finished, outcomes: Mapping[int, int]
    ) -> None:
        """Handle the end of a group; `outcomes` maps choices to branches."""

    def failed(self, life: LiveLifecycle, instance: int, device: int, text: str) -> None:
        """Handle a failed attempt of an instance."""

    def lost(self, life: LiveLifecycle, event: DeviceLost) -> None:
        """Handle the loss of a device."""

    def added(self, life: LiveLifecycle, event: DeviceAdded) -> None:
        """Handle a device that is up again, or new."""

    def ended(self, life: LiveLifecycle, now: float) -> None:
        """Handle the regular end of the run."""

    def close(self) -> None:
        """Release resources; called however the run ends."""


class Intake(Protocol):
    """Source of more jobs during a run."""

    def take(self, driver: Driver) -> bool:
        """Add jobs by `Driver.add` and deliver ended ones; return whether any were added."""
        ...

    def due(self) -> float:
        """Return when to ask for decisions again; inf: at the next event."""
        ...


def ordered_ends(events: Sequence[Event]) -> list[Finished | Failed]:
    """Return ends by device, devices with failures last, as these may cancel orders."""
    ends = [event for event in events if isinstance(event, ENDS)]
    if len(ends) < 2:
        return ends
    bad = {event.device for event in ends if isinstance(event, Failed)}
    return sorted(ends, key=lambda end: (end.device in bad, end.device))


def restricted_to(event: Finished, members: Sequence[int], kept: Sequence[int]) -> Finished:
    """Drop the parts of an event that concern members cancelled while their batch ran."""
    if len(members) == len(kept):
        return event
    which = [k for k, i in enumerate(members) if i in kept]
    return replace(
        event,
        data=tuple(event.data[k] for k in which if k < len(event.data)),
        branches=tuple(event.branches[k] for k in which if k < len(event.branches)),
    )


def outcomes_of(life: LiveLifecycle, group: Group, event: Finished) -> dict[int, int]:
    """Map each choice of a group to its branch; `InvalidInput` without a branch."""
    found: dict[int, int] = {}
    for k, i in enumerate(group.members if life.conditional else ()):
        numbers = life.choices_of(i)
        if numbers:
            named = event.branches[k] if k < len(event.branches) else ()
            found.update(zip(numbers, _branches(life, i, numbers, named), strict=True))
    return found


def _branches(
    life: LiveLifecycle, instance: int, numbers: list[int], named: tuple[str | int, ...]
) -> list[int]:
    choices = life.problem(instance).workflow.choices
    first = int(life.workload.first_choice[life.place[instance][0]])
    labels = [[choices.labels[b] for b in choices.branches(c - first)] for c in numbers]
    if len(named) != len(numbers):
        known = " and one of ".join(map(str, labels))
        raise InvalidInput(f"it named {len(named)} branches; it must return one of {known}")
    return [_branch_number(name, known) for name, known in zip(named, labels, strict=True)]


def _branch_number(name: str | int, known: list[str]) -> int:
    if isinstance(name, str) and name in known:
        return known.index(name)
    if isinstance(name, int) and 0 <= name < len(known):
        return name
    raise InvalidInput(f"it returned the branch {name!r}; it must be one of {known}")


def scenario_so_far(
    life: LiveLifecycle,
    workload: Workload,
    cancels: Sequence[float],
    changes: Sequence[tuple[float, int, float]],
    now: float,
) -> Scenario:
    """Return branches, changes of devices and cancellations of a run until now."""
    cancel = [now if failed else at for failed, at in zip(life.failed, cancels, strict=True)]
    if not life.modelled:  # a job may finish just before the driver cancels it
        cancel = [
            inf if done < inf else at for done, at in zip(life.job_finish, cancel, strict=True)
        ]
    return Scenario.of(
        workload,
        outcome=np.maximum(life.outcome, 0),
        changes=np.array(changes, float).reshape(-1, 3),
        cancel=np.array(cancel),
    )
