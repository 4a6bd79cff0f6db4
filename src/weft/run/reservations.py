"""Who may use a device, and how much of it: slots, memory, and a budget of seconds for each application and period.

Budgets are enforced as in TimeGraph (Kato et al., USENIX ATC 2011, section 4): *posterior* enforcement lets a command group start while the
budget is positive and carries the overdraft into later periods; *apriori* enforcement lets it start only if the budget covers its predicted
cost. A budget C is filled up every period T: to C at most, and by C at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Literal

from weft.errors import InvalidInput


@dataclass(frozen=True)
class Budget:
    """Seconds of device time an application may use in each period."""

    seconds: float
    period: float
    enforcement: Literal["posterior", "apriori"] = "posterior"

    def __post_init__(self) -> None:
        """Refuse budgets that never let anything run."""
        if not 0 < self.seconds < float("inf") or not 0 < self.period < float("inf"):
            raise InvalidInput(f"a budget of {self.seconds} s every {self.period} s; both must be finite and above zero")
        if self.enforcement not in ("posterior", "apriori"):
            raise InvalidInput(f"enforcement is '{self.enforcement}'; it must be 'posterior' or 'apriori'")


@dataclass(eq=False)
class _Account:
    budget: Budget
    left: float
    filled: int = 0
    """Periods that have begun since the start, the first one not counted."""

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
    """Budgets of the applications that jobs belong to; `applications[job]` names each job's.

    Examples
    --------
    >>> book = Reservations(["render"], {"render": Budget(2.0, 10.0)})
    >>> book.admit(0, 0, 3.0, 0.0)  # the budget is positive: it may start
    >>> book.settle(0, 0, 3.0, 3.0)  # it took 3 seconds: an overdraft of 1
    >>> book.admit(0, 0, 3.0, 3.0)  # not before the next period
    10.0
    """

    def __init__(self, applications: Sequence[str], budgets: Mapping[str, Budget]) -> None:
        self.applications = list(applications)
        self._accounts = {name: _Account(budget, budget.seconds) for name, budget in budgets.items()}
        self._under_way: dict[str, float] = {}

    def left(self, application: str, now: float) -> float:
        """What an application may still use; an overdraft is negative."""
        account = self._accounts[application]
        account.at(now)
        return account.left

    def admit(self, job: int, device: int, predicted: float, now: float) -> float | None:  # noqa: ARG002
        """None if a group of a job may start now (it counts as under way until it is settled); otherwise when to ask again."""
        name = self.applications[job]
        account = self._accounts.get(name)
        if account is None:
            return None
        account.at(now)
        promised = self._under_way.get(name, 0.0)
        free = account.left - promised
        full = account.left >= account.budget.seconds and promised == 0
        # A group that costs more than a whole budget could never start: with a full budget it may, and pays with an overdraft.
        enough = free > 0 if account.budget.enforcement == "posterior" else free >= predicted or full
        if not enough:
            return account.next()
        if account.budget.enforcement == "apriori":
            self._under_way[name] = promised + predicted
        return None

    def settle(self, job: int, device: int, seconds: float, now: float) -> None:  # noqa: ARG002
        """A group of a job ended after so many seconds: they are taken from the budget."""
        name = self.applications[job]
        account = self._accounts.get(name)
        if account is not None:
            account.at(now)
            account.left -= seconds
            self._under_way.pop(name, None)


class Space:
    """Memory and slots of devices, shared by whoever asks: a reservation is granted whole or not at all.

    Examples
    --------
    >>> space = Space(memory=[8.0], slots=[2])
    >>> space.take("a", 0, 5.0), space.take("b", 0, 5.0), space.take("c", 0, 3.0), space.take("d", 0, 0.0)
    (True, False, True, False)
    >>> space.give_back("a", 0)
    >>> space.take("b", 0, 5.0)
    True
    """

    def __init__(self, memory: Sequence[float], slots: Sequence[int]) -> None:
        if len(memory) != len(slots):
            raise InvalidInput(f"memory is given for {len(memory)} devices, slots for {len(slots)}")
        self._memory = list(memory)
        self._slots = list(slots)
        self._taken: dict[tuple[str, int], float] = {}

    def take(self, owner: str, device: int, memory: float) -> bool:
        """Reserve a slot and memory on a device; False when there is not enough. An owner has one reservation on a device."""
        if (owner, device) in self._taken:
            raise InvalidInput(f"'{owner}' has a reservation on device {device} already")
        if self._slots[device] < 1 or memory > self._memory[device]:
            return False
        self._slots[device] -= 1
        self._memory[device] -= memory
        self._taken[owner, device] = memory
        return True

    def give_back(self, owner: str, device: int) -> None:
        """Release what an owner had on a device."""
        if (owner, device) not in self._taken:
            raise InvalidInput(f"'{owner}' has no reservation on device {device}")
        self._slots[device] += 1
        self._memory[device] += self._taken.pop((owner, device))
