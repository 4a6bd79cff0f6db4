"""Options of a search at every event."""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Options of a search at every event.

    Parameters
    ----------
    work : placements of tasks per event, in all futures together; 10,000 take about 1 ms
    first_work : the same when a job has arrived
    futures : the expected future and sampled ones, in which a plan is judged; while durations are
        as estimated, the expected one alone
    warmth : first temperature of the annealing, as a share of the value; 0: no plan gets worse
    copies : whether a device may run a parent again instead of waiting for its data
    planned_copies : whether plans have such copies too; else tasks get them when they start
    occupancy : in streams, the value of a second of a device for the jobs that will come: the
        share of the devices times so many jobs that wait a second longer
    job_moves : whether to try each job ahead of all others, behind them, and ahead of each other
        one
    pinned : whether tasks start the search on the device of the plan, not on that of the earliest
        finish; a placement takes less work then
    imagined : jobs that will come in the futures of a stream, twins of those that have arrived, at
        the observed rate
    haste : weight of the mean finish of the tasks, beside the end of a job
    """

    work: float = 8_000.0
    first_work: float = 200_000.0
    futures: int = 1
    warmth: float = 0.0
    copies: bool = True
    planned_copies: bool = False
    occupancy: float = 0.0
    haste: float = 0.0
    job_moves: bool = False
    pinned: bool = False
    imagined: int = 0

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        limits = {"work": 0, "first_work": 0, "futures": 1, "warmth": 0, "occupancy": 0, "haste": 0}
        limits["imagined"] = 0
        for name, least in limits.items():
            if not least <= getattr(self, name) < 1e15:
                raise InvalidInput(
                    f"{name} is {getattr(self, name)}; it must be a finite number from {least}"
                )
