"""Budgets: seconds of device time per application and period.

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
from weft.typed import description


@description
@dataclass(frozen=True)
class Budget:
    """Seconds of device time that an application may use per period."""

    seconds: float
    period: float
    enforcement: Literal["posterior", "apriori"] = "posterior"

    def __post_init__(self) -> None:
        """Refuse budgets under which nothing could run."""
        if not 0 < self.seconds < inf or not 0 < self.period < inf:
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
    """The budgets of applications, and the predicted costs of admitted groups.

    Parameters
    ----------
    applications : application of each job
    budgets : application -> budget; none: no limit

    Examples
    --------
    >>> book = Reservations(["render"], {"render": Budget(2.0, 10.0)})
    >>> book.admit(0, 0, job=0, predicted=3.0, now=0.0)  # the budget is positive: it may start
    >>> book.settle(0, 0, job=0, seconds=3.0, now=3.0)  # it took 3 seconds: an overdraft of 1
    >>> book.admit(1, 0, job=0, predicted=3.0, now=3.0)  # not before the next period
    10.0
    """

    def __init__(self, applications: Sequence[str], budgets: Mapping[str, Budget]) -> None:
        self.applications = list(applications)
        self._accounts = {
            name: _Account(budget, budget.seconds) for name, budget in budgets.items()
        }
        self._promised: dict[tuple[int, int], tuple[str, float]] = {}
        """(owner, device) -> application and predicted seconds of admitted groups."""

    def begin(self) -> None:
        """Start a session: release all reservations; budgets and overdrafts stay."""
        self._promised.clear()
        self.applications.clear()

    def join(self, application: str, job: int) -> None:
        """Set the application of a job."""
        self.applications[job : job + 1] = [application]

    def left(self, application: str, now: float) -> float:
        """Return the remaining budget; an overdraft is negative. Safe for other threads."""
        account = replace(self._accounts[application])
        account.at(now)
        return account.left

    def admit(
        self, owner: int, device: int, *, job: int, predicted: float, now: float
    ) -> float | None:
        """Reserve the predicted cost of a group; return None, or when to ask again."""
        again = self.affords(job, predicted, now)
        if again is None:
            self._promised[owner, device] = (self.applications[job], predicted)
        return again

    def settle(self, owner: int, device: int, *, job: int, seconds: float, now: float) -> None:
        """Charge an ended group to the budget and release its reservation."""
        self.release(owner, device)
        account = self._accounts.get(self.applications[job])
        if account is not None:
            account.at(now)
            account.left -= seconds

    def release(self, owner: int, device: int) -> None:
        """Release the reservation of a group that never ran."""
        self._promised.pop((owner, device), None)

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
