"""The best of several list planners."""

from __future__ import annotations

from collections.abc import Sequence

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.model import Problem
from weft.planners.planner import PLANNERS, Planner, Solution, refuse_choices, solve
from weft.typed import typed_dataclass


@PLANNERS.register(
    "list-portfolio", summary="The best plan of HEFT, PEFT, lookahead and one device."
)
@typed_dataclass(frozen=True)
class ListPortfolio:
    """The best plan of HEFT, PEFT, lookahead and a single device.

    None of them is best everywhere: HEFT is short-sighted if results are large, the others if
    results are small, and with slow links a single device may beat them all. With set-ups and
    shared links, replay decides.
    """

    name: str = "list-portfolio"
    members: Sequence[str] = ("heft", "peft", "lookahead", "single-device")

    def __post_init__(self) -> None:
        """Check the options."""
        members = self.members
        if isinstance(members, str) or not members or self.name in members:
            raise InvalidInput(f"members is {shown(members)}; give names of other planners")

    @property
    def supports(self) -> frozenset[str]:
        """The features that all members support."""
        return frozenset.intersection(*(p.supports for p in self.planners))

    @property
    def planners(self) -> list[Planner]:
        """The members; `solve` plans by each of them."""
        return [PLANNERS.create(name) for name in self.members]

    def solve(self, problem: Problem, *, seconds: float | None = None, seed: int = 0) -> Solution:
        """Plan by all members; return the shortest plan, the first among equals."""
        refuse_choices(problem, self.name)
        found = [solve(planner, problem, seconds, seed) for planner in self.planners]
        return min(found, key=lambda solution: solution.schedule.makespan)
