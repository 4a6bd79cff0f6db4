"""A plan whose calls are made ahead of their inputs, without the driver.

An actor runs its calls in order and waits for the inputs of the next one, even if that call was
retracted. So an actor receives only a part of the plan at a time, large enough to keep it busy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import inf

from weft.runtime.backends.protocol import DeviceLost, Event, Failed, Finished
from weft.runtime.backends.ray.slots import SentCall
from weft.runtime.deciders.whole_plan import OnFinish, ParentsFirst, PlanRow

AHEAD = 12
"""Calls per actor at a time."""


class WholeCalls:
    """A plan in execution.

    Parameters
    ----------
    call : makes the call of a row, after the calls it reads
    call_off : retracts calls that do not run
    """

    def __init__(
        self,
        rows: Sequence[PlanRow],
        call: Callable[[PlanRow], SentCall],
        call_off: Callable[[Iterable[SentCall]], None],
    ) -> None:
        self._call = call
        self._call_off = call_off
        self._planned = {row.instance for row in rows}
        self._lines: dict[int, deque[PlanRow]] = {}
        """Device -> rows to call, in planned order."""
        for row in rows:
            self._lines.setdefault(row.device, deque()).append(row)
        self._called: set[int] = set()
        self._out: dict[int, dict[int, SentCall]] = {device: {} for device in self._lines}
        """Device -> order -> call without a report."""
        self._ends = ParentsFirst(rows)

    def follow(
        self,
        wait: Callable[[float], list[Event]],
        running: Callable[[], list[SentCall | None]],
        on_finish: OnFinish,
    ) -> list[Event]:
        """Process reports until the plan is done or deviates; return the other events."""
        others: list[Event] = []
        self._top_up()
        while any(self._out.values()) and not any(
            isinstance(event, DeviceLost | Failed) for event in others
        ):
            events = wait(inf)
            if not events:
                break
            for event in events:
                if isinstance(event, Finished):
                    sent = self._out[event.device].pop(event.number)
                    self._ends.add(sent.order.members[0], event)
                else:
                    others.append(event)
            go_on = [on_finish(*end) for end in self._ends.take()]
            if not all(go_on):
                self._retract(running())
            self._top_up()
        self._retract([])
        return others

    def _top_up(self) -> None:
        """Make the calls that fit and whose inputs were called."""
        progress = True
        while progress:
            progress = False
            for device, line in self._lines.items():
                while (
                    line
                    and len(self._out[device]) < AHEAD
                    and all(self._may_read(parent) for parent in line[0].parents)
                ):
                    row = line.popleft()
                    sent = self._call(row)
                    self._out[device][sent.order.number] = sent
                    self._called.add(row.instance)
                    progress = True

    def _may_read(self, instance: int) -> bool:
        return instance in self._called or instance not in self._planned

    def _retract(self, running: list[SentCall | None]) -> None:
        """Retract all calls except the running ones."""
        self._lines.clear()
        for out in self._out.values():
            gone = [number for number, sent in out.items() if sent not in running]
            self._call_off([out.pop(number) for number in gone])
