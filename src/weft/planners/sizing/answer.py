"""`size`: which machines of a catalogue to rent for a deadline or a budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np

from weft.arguments import positive
from weft.errors import InvalidInput
from weft.model import Cluster, Problem, Workflow
from weft.model.explain.quantities import format_seconds
from weft.planners.planner import Planner
from weft.planners.sizing.offers import offers_of
from weft.planners.sizing.search import Rental, Search
from weft.planners.whatif.answer import refuse_invalid
from weft.progress import Track
from weft.typed import typed

ENUMERATED = 4096
"""Most clusters of a catalogue that are all examined; beyond, the search is local."""


@dataclass(frozen=True, eq=False)
class Sizing:
    """The rentals that no other one beats in both time and rent, and the chosen one.

    Attributes
    ----------
    best : the cheapest rental that meets the deadline, or the fastest one within the budget; with
        neither limit, the cheapest; None: no plan meets it
    front : rentals, the fastest first
    bound : proven. With a deadline, no schedule on any cluster of the catalogue meets it for less
        money; with only a budget, no schedule within it ends sooner. NaN if not every cluster was
        examined
    complete : whether every cluster of the catalogue was planned, or excluded by a bound
    clusters, planned, excluded : number of clusters in the catalogue, of those planned, and of
        those excluded by a bound
    """

    best: Rental | None
    front: tuple[Rental, ...] = field(repr=False)
    deadline: float
    budget: float
    bound: float
    complete: bool
    clusters: int
    planned: int
    excluded: int

    @property
    def sentence(self) -> str:
        """The answer in plain English."""
        if self.best is None:
            return f"No plan {self._limits()}; {self._nearest()}. {self._examined()}"
        found = f"Rent {self.best}: {format_seconds(self.best.seconds)} for {self.best.cost:.4g}"
        return f"{found}{self._proof()}. {self._examined()}"

    def __str__(self) -> str:
        return self.sentence

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as plain data, for JSON."""
        keys = ("deadline", "budget", "bound", "complete", "clusters", "planned", "excluded")
        return {
            "sentence": self.sentence,
            "best": None if self.best is None else _row(self.best),
            **{key: getattr(self, key) for key in keys},
            "front": [_row(rental) for rental in self.front],
        }

    def _limits(self) -> str:
        parts = []
        if np.isfinite(self.deadline):
            parts.append(f"within {format_seconds(self.deadline)}")
        if np.isfinite(self.budget):
            parts.append(f"for at most {self.budget:.4g}")
        return " ".join(["ends", *parts])

    def _nearest(self) -> str:
        fast, cheap = self.front[0], self.front[-1]
        return (
            f"the fastest is {fast} ({format_seconds(fast.seconds)} for {fast.cost:.4g}), the "
            f"cheapest {cheap} ({format_seconds(cheap.seconds)} for {cheap.cost:.4g})"
        )

    def _proof(self) -> str:
        if np.isnan(self.bound):
            return ""
        if np.isfinite(self.deadline):
            return f"; no schedule meets the deadline for less than {self.bound:.4g}"
        if np.isfinite(self.budget):
            return f"; no schedule within the budget ends before {format_seconds(self.bound)}"
        return f"; no schedule costs less than {self.bound:.4g}"

    def _examined(self) -> str:
        counts = f"{self.planned:,} planned, {self.excluded:,} excluded by bounds"
        if self.complete:
            return f"All {self.clusters:,} clusters of the catalogue were examined: {counts}."
        return f"Local search among {self.clusters:,} clusters: {counts}."


@typed
def size(
    what: Problem | Workflow,
    catalogue: Cluster | None = None,
    *,
    deadline: float | None = None,
    budget: float | None = None,
    planner: str | PathLike[str] | Planner = "heft",
    seconds: float | None = None,
    seed: int = 0,
    whole_nodes: bool = False,
    most: int = ENUMERATED,
    track: Track = iter,
) -> Sizing:
    """Choose the machines to rent from a catalogue.

    Parameters
    ----------
    what : a workflow; or a problem, whose cluster is the catalogue
    catalogue : all that could be rented, with prices per hour; any part of it is a candidate
    deadline, budget : seconds, and money; the cheapest rental that meets the deadline, or the
        fastest one within the budget
    whole_nodes : nodes are rented as a whole, not device by device
    most : number of clusters up to which all are examined; of a larger catalogue, a local search
        plans at most this number
    track : goes through the examined clusters, for example `tqdm.tqdm`

    Notes
    -----
    Which plan is made on each cluster depends on the planner; the bounds hold for all schedules.

    Examples
    --------
    >>> machines = Cluster(speed=[1.0, 1.0, 3.0], kinds=("cpu", "cpu", "gpu"), price=[1, 1, 4])
    >>> tasks = Workflow(work=[3600.0, 3600.0], src=[], dst=[], data=[])
    >>> print(size(tasks, machines, deadline=3600.0).best)
    2 cpu
    >>> print(size(tasks, machines, deadline=2400.0).best)
    1 gpu
    """
    problem = _bound_problem(what, catalogue)
    limit = positive(deadline, "deadline") or np.inf, positive(budget, "budget") or np.inf
    offers = offers_of(problem, whole_nodes=whole_nodes)
    search = Search(problem, offers, planner, seconds, seed)
    complete = search.clusters <= most
    for _ in track(search.enumerate() if complete else search.climb(most, *limit)):
        pass
    front = tuple(search.front)
    for rental in front:
        refuse_invalid(rental.plan)
    return Sizing(
        _best(front, *limit),
        front,
        *limit,
        _bound(search, *limit) if complete else np.nan,
        complete,
        search.clusters,
        len(search.planned),
        len(search.excluded),
    )


def _bound_problem(what: Problem | Workflow, catalogue: Cluster | None) -> Problem:
    if isinstance(what, Workflow):
        if catalogue is None:
            raise InvalidInput(f"workflow '{what.name}' needs a catalogue: a cluster with prices")
        problem = Problem.bind(what, catalogue)
    else:
        problem = what if catalogue is None else Problem.bind(what.workflow, catalogue)
    if not problem.cluster.price.any():
        raise InvalidInput(
            f"no device of catalogue '{problem.cluster.name}' has a price; "
            "give price = (money per hour) to its devices or nodes"
        )
    return problem


def _best(front: tuple[Rental, ...], deadline: float, budget: float) -> Rental | None:
    within = [r for r in front if r.seconds <= deadline and r.cost <= budget]
    if not within:
        return None
    fastest = np.isfinite(budget) and np.isinf(deadline)
    return within[0] if fastest else within[-1]


def _bound(search: Search, deadline: float, budget: float) -> float:
    if np.isfinite(budget) and np.isinf(deadline):
        return search.fastest_within(budget)
    return search.cheapest_within(deadline)


def _row(rental: Rental) -> dict[str, Any]:
    return {
        "machines": str(rental),
        "counts": rental.counts,
        "seconds": rental.seconds,
        "cost": rental.cost,
        "bound": rental.plan.bound,
        "price": float(rental.plan.problem.cluster.price.sum()),
    }
