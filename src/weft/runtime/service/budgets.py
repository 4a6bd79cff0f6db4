"""Reservations of devices: slots, memory, and a budget of seconds per application and period.

Budgets are enforced as in TimeGraph (Kato et al., USENIX ATC 2011, section 4): *posterior*
enforcement lets a command group start while the budget is positive and carries the overdraft into
later periods; *apriori* enforcement lets it start only if the budget covers its predicted cost. A
budget C is replenished every period T, by C and to C at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, inf
from typing import Literal

from weft.errors import InvalidInput


@dataclass(frozen=True)
class Budget:
    """Seconds of device time that an application may use per period."""

    seconds: float
    period: float
    enforcement: Literal["posterior", "apriori"] = "posterior"

    def __post_init__(self) -> None:
        """Refuse budgets under which nothing could run."""
        if not 0 < self.seconds < float("inf") or not 0 < self.period < float("inf"):
            raise InvalidInput(
                f"a budget of {self.seconds} s every {self.period} s; both must be finite and "
                "above zero"
            )
        if self.enforcement not in ("posterior", "apriori"):
            raise InvalidInput(
                f"enforcement is '{self.enforcement}'; it must be 'posterior' or 'apriori'"
            )


@dataclass(eq=False)
class _Account:
    budget: Budget
    left: float
    filled: int = 0
    """Periods begun since the start, without the first."""

    def at(self, now: float) -> None:
        periods = floor(now / self.budget.period)
        while self.filled < periods:
            self.filled += 1
            if self.left >= self.budget.seconds:
                self.filled = periods
            self.left = min(self.budget.seconds, self.left + self.budget.seconds)

    def next(self) -> float:
        return (self.filled + 1) * self.budget.period


class Reservations:
    """Room on devices, and the budgets of applications.

    Parameters
    ----------
    applications : application of each job
    budgets : application -> budget; none: no limit
    space : memory and slots of devices; None: only the window limits them

    Examples
    --------
    >>> book = Reservations(["render"], {"render": Budget(2.0, 10.0)})
    >>> book.admit(0, 0, job=0, predicted=3.0, now=0.0)  # the budget is positive: it may start
    >>> book.settle(0, 0, job=0, seconds=3.0, now=3.0)  # it took 3 seconds: an overdraft of 1
    >>> book.admit(1, 0, job=0, predicted=3.0, now=3.0)  # not before the next period
    10.0
    """

    def __init__(
        self, applications: Sequence[str], budgets: Mapping[str, Budget], space: Space | None = None
    ) -> None:
        self.applications = list(applications)
        self.space = space
        self._accounts = {
            name: _Account(budget, budget.seconds) for name, budget in budgets.items()
        }
        self._promised: dict[tuple[int, int], tuple[str, float]] = {}
        """(owner, device) -> application and predicted seconds of admitted groups."""

    def begin(self) -> None:
        """Start a session: release all reservations; budgets and overdrafts stay."""
        for owner, device in list(self._promised):
            self.release(owner, device)
        self.applications = []

    def join(self, application: str, job: int) -> None:
        """Set the application of a job."""
        self.applications[job : job + 1] = [application]

    def left(self, application: str, now: float) -> float:
        """Return the remaining budget; an overdraft is negative."""
        account = self._accounts[application]
        account.at(now)
        return account.left

    def peek(self, application: str, now: float) -> float:
        """Return the remaining budget without an update, for other threads."""
        account = replace(self._accounts[application])
        account.at(now)
        return account.left

    def admit(
        self,
        owner: int,
        device: int,
        *,
        job: int,
        predicted: float,
        now: float,
        memory: float = 0.0,
    ) -> float | None:
        """Reserve room for a group; return None, or when to ask again."""
        again = self.affords(job, predicted, now)
        if again is not None:
            return again
        if self.space is not None and not self.space.take(owner, device, memory):
            return inf  # when something ends
        self._promised[owner, device] = (self.applications[job], predicted)
        return None

    def settle(self, owner: int, device: int, *, job: int, seconds: float, now: float) -> None:
        """Charge an ended group to the budget and release its reservation."""
        self.release(owner, device)
        account = self._accounts.get(self.applications[job])
        if account is not None:
            account.at(now)
            account.left -= seconds

    def release(self, owner: int, device: int) -> None:
        """Release the reservation of a group that never ran."""
        if self._promised.pop((owner, device), None) is not None and self.space is not None:
            self.space.give_back(owner, device)

    def affords(self, job: int, predicted: float, now: float) -> float | None:
        """Return None if the budget lets a group start now, or when to ask again.

        Admitted groups count by their predicted cost: a device may get one long before it starts.
        """
        name = self.applications[job]
        account = self._accounts.get(name)
        if account is None:
            return None
        account.at(now)
        promised = sum(cost for application, cost in self._promised.values() if application == name)
        if account.budget.enforcement == "posterior":
            return None if account.left - promised > 0 else account.next()
        # A group that costs more than a whole budget may start with a full one, in overdraft.
        full = account.left >= account.budget.seconds and promised == 0
        return None if full or account.left - promised >= predicted else account.next()


class Space:
    """Memory and slots of devices; a reservation is granted whole or not at all.

    Examples
    --------
    >>> space = Space(memory=[8.0], slots=[2])
    >>> space.take(1, 0, 5.0), space.take(2, 0, 5.0), space.take(3, 0, 3.0), space.take(4, 0, 0.0)
    (True, False, True, False)
    >>> space.give_back(1, 0)
    >>> space.take(2, 0, 5.0)
    True
    """

    def __init__(self, memory: Sequence[float], slots: Sequence[int]) -> None:
        if len(memory) != len(slots):
            raise InvalidInput(f"memory is given for {len(memory)} devices, slots for {len(slots)}")
        self._memory = list(memory)
        self._slots = list(slots)
        self._taken: dict[tuple[int, int], float] = {}

    def take(self, owner: int, device: int, memory: float) -> bool:
        """Reserve a slot and memory, one reservation per owner and device; False: no room."""
        if (owner, device) in self._taken:
            raise InvalidInput(f"task {owner} has a reservation on device {device} already")
        if self._slots[device] < 1 or memory > self._memory[device]:
            return False
        self._slots[device] -= 1
        self._memory[device] -= memory
        self._taken[owner, device] = memory
        return True

    def give_back(self, owner: int, device: int) -> None:
        """Release the reservation of an owner on a device."""
        if (owner, device) not in self._taken:
            raise InvalidInput(f"task {owner} has no reservation on device {device}")
        self._slots[device] += 1
        self._memory[device] += self._taken.pop((owner, device))
