"""A plan of which all calls are made at once; Ray hands results from one to the other, without a word from the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf

from weft.run.backend import DeviceLost, Event, Failed, Finished
from weft.run.ray_seat import Sent
from weft.run.whole_plan import Row, Tell


class WholeCalls:
    """A plan under way.

    Parameters
    ----------
    made : instance -> its call
    call_off : takes back calls that do not run
    """

    def __init__(self, rows: Sequence[Row], made: dict[int, Sent], call_off: Callable[[Iterable[Sent]], None]) -> None:
        self._parents = {row.instance: row.parents for row in rows}
        self._made = made
        self._call_off = call_off
        self._numbers = {sent.order.number: instance for instance, sent in made.items()}
        self._open = dict.fromkeys(made)
        """Instances that are to be heard of."""
        self._untold = dict.fromkeys(made)
        self._heard: dict[int, Finished] = {}

    def follow(self, wait: Callable[[float], list[Event]], running: Callable[[], list[Sent | None]], tell: Tell) -> list[Event]:
        """Listen until all of it is done, or something is not as planned; return what happened to actors."""
        others: list[Event] = []
        while self._open and not any(isinstance(event, DeviceLost | Failed) for event in others):
            events = wait(inf)
            if not events:
                break
            for event in events:
                if isinstance(event, Finished):
                    instance = self._numbers[event.number]
                    self._heard[instance] = event
                    self._open.pop(instance, None)
                else:
                    others.append(event)
            if not self._tell(tell):
                self._retract(running())
        self._retract([])
        return others

    def _tell(self, tell: Tell) -> bool:
        """Parents first: reports of several actors come in any order."""
        go_on = True
        while ready := [i for i in self._heard if not any(parent in self._untold for parent in self._parents[i])]:
            for i in ready:
                del self._untold[i]
                go_on &= tell(i, self._heard.pop(i))
        return go_on

    def _retract(self, running: list[Sent | None]) -> None:
        """Take back all but what runs."""
        gone = [i for i in self._open if self._made[i] not in running]
        for i in gone:
            del self._open[i]
        self._call_off([self._made[i] for i in gone])
