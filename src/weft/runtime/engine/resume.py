"""Taking over what an earlier process of the same run finished."""

from __future__ import annotations

from collections.abc import Sequence

from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.journal import JournalEntry
from weft.sim.device_state import Group


def take_over(life: LiveLifecycle, records: Sequence[JournalEntry]) -> list[Group]:
    """Live through what is on record again; return what was taken over. What a task needed must come before it, as in a journal."""
    names = {name: d for d, name in enumerate(life.workload.cluster.names)}
    groups = []
    for record in records:
        device = _device(life, record, names)
        if record.instance not in life.ready or device is None:
            continue  # what it needed is not there any more, or no device can run it: it is not done
        life.commit([record.instance], device, record.decided)
        groups.append(life.begin(device, record.start))
        life.finish(device, record.finish, record.outcomes)
    return groups


def _device(life: LiveLifecycle, record: JournalEntry, names: dict[str, int]) -> int | None:
    """The device a task ran on; if that is gone, one that could have run it: the trace must say something."""
    own = names.get(record.device, -1)
    if own >= 0 and life.can_run(record.instance, own):
        return own
    return next((d for d in range(len(life.machines)) if life.can_run(record.instance, d)), None)
