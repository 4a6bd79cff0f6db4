"""Choosing sets of weights that complete one another: the policy `portfolio`. The whole loop in one file.

A pool is drawn around the weights of a rule. Sets are added one at a time: the one that helps most together with those chosen so far
(greedy, as Xu, Hoos and Leyton-Brown 2010 build portfolios of solvers). Every step has cases of its own, so that nothing is learned by
heart: all of the pool play a few of them, the best go on to more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from weft.errors import InvalidInput
from weft.generators import Instance, draw_instance
from weft.learn.workflow.rule import copied, draw_cases
from weft.model.columns import FloatArray
from weft.policies.replanning.placement import WEIGHTS
from weft.policies.replanning.policy import weights_of
from weft.policies.replanning.portfolio import SIGHT, live_by_plans, make_plans
from weft.rng import generator
from weft.sim.kernel.events import ENDED
from weft.sim.kernel.tables import make_sim

SPREAD: Mapping[str, float] = {
    "least": 0.4,
    "moving": 0.5,
    "work": 0.65,
    "path": 0.5,
    "age": 0.13,
    "slack": 0.13,
    "priority": 0.13,
    "rank": 0.4,
    "ahead": 0.45,
    "longer": 0.26,
    "together": 0.26,
    "gap": 0.4,
    "slowed": 0.26,
}
"""How far sets of the pool lie from the rule, by weight; each weight changes in two sets of five."""
HAND: tuple[Mapping[str, float], ...] = (
    {"ahead": 0.3, "together": 0.05},
    {"ahead": 1.1},
    {"least": 0.0, "gap": 0.1},
    {"together": 0.5},
    {"moving": 0.6, "longer": -0.1},
    {"ahead": 0.0, "together": 0.0, "gap": 0.0, "longer": 0.0, "least": 0.0, "moving": 0.0},
    {"ahead": 1.0, "together": 0.4, "gap": 0.0},
)
"""Changes made by hand, for their difference; the sixth is near to HEFT. They are in the pool too."""

LEADS, CCRS, LOADS = 9_000_000, (0.1, 1.0, 5.0), (0.8, 0.95)
"""Of the streams that show which set is to lead: first seed, CCRs and loads in turn."""


@dataclass(frozen=True, kw_only=True)
class PortfolioSearch:
    """What the loop can be told.

    Parameters
    ----------
    size : sets to be chosen, the rule's own among them; pool : how many are drawn
    leads : longer streams that show which of the sets is to lead where promises cannot be compared
    alone, streams : cases all of the pool play at each step; finals : how many times as many the best `finalists` play
    """

    size: int = 8
    pool: int = 40
    alone: int = 30
    streams: int = 2
    finals: int = 3
    finalists: int = 8
    leads: int = 24
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name in ("size", "finals", "finalists"):
            if getattr(self, name) < 1:
                raise InvalidInput(
                    f"portfolio search: {name} is {getattr(self, name)}; it must be 1 or more"
                )
        if self.alone + self.streams < 1:
            raise InvalidInput(
                "portfolio search: there must be a case to play; raise alone or streams"
            )


@dataclass
class FoundPortfolio:
    """The sets chosen, and how the search went; the score is what the last addition gained over the rule alone."""

    sets: list[dict[str, float]]
    search: PortfolioSearch
    score: float = 0.0
    seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)

    def record(self) -> dict[str, object]:
        """Plain values, to be kept beside the weights."""
        counts = {"seed": self.search.seed, "cpu_seconds": round(self.seconds, 1)}
        settings = {"settings": asdict(self.search)}
        return {
            "algorithm": "greedy choice of sets of weights",
            "score": self.score,
            **counts,
            **settings,
            "curve": self.curve,
        }


class Games:
    """Cases that are played by several portfolios."""

    def __init__(self, cases: Sequence[Instance]) -> None:
        self.cases = list(cases)
        self._blank = [
            make_sim(case.workload, case.scenario, None, eager=True) for case in self.cases
        ]

    def play(self, sets: Sequence[FloatArray]) -> FloatArray:
        """Log of the mean completion time of every case."""
        found = np.full(len(self.cases), np.inf)
        for k, case in enumerate(self.cases):
            sim = copied(self._blank[k])
            if (
                live_by_plans(sim, make_plans(case.workload, sim, sets, most=SIGHT, homes=True))
                == ENDED
            ):
                found[k] = np.log((sim.job["finish"][:-1] - sim.job["arrival"][:-1]).mean())
        return found


def search_portfolio(
    rule: Mapping[str, float],
    search: PortfolioSearch | None = None,
    *,
    draw: Callable[[int, int, int], list[Instance]] | None = None,
    watch: Callable[[dict[str, float]], None] | None = None,
) -> FoundPortfolio:
    """Choose until there are enough; `draw(seed, alone, streams)` gives the cases, `watch` gets each step."""
    search = search or PortfolioSearch()
    draw = draw or (lambda seed, alone, streams: draw_cases(seed, alone, streams, jobs=8))
    began = time.process_time()
    pool = draw_pool(rule, search)
    arrays = [weights_of(given) for given in pool]
    chosen = [0]
    found = FoundPortfolio([pool[0]], search)
    for step in range(1, search.size):
        seed = search.seed * 100_000 + 80_000 + 2 * step
        first = Games(draw(seed, search.alone, search.streams))
        more = Games(draw(seed + 1, search.finals * search.alone, search.finals * search.streams))
        left = [k for k in range(len(pool)) if k not in chosen]
        if not left:
            break
        before = [arrays[k] for k in chosen]
        gain = _gains(first, before, {k: arrays[k] for k in left})
        finalists = sorted(left, key=lambda k: gain[k].mean())[: search.finalists]
        again = _gains(more, before, {k: arrays[k] for k in finalists})
        gain = {k: np.concatenate([gain[k], again[k]]) for k in finalists}
        best = min(finalists, key=lambda k: gain[k].mean())
        chosen.append(best)
        found.sets.append(pool[best])
        found.score += float(gain[best].mean())
        found.seconds = time.process_time() - began
        found.curve.append(
            {
                "step": step,
                "gain": float(gain[best].mean()),
                "score": found.score,
                "seconds": round(found.seconds, 1),
            }
        )
        if watch is not None:
            watch(found.curve[-1])
    found.sets = _best_lead_first(found.sets, search)
    found.seconds = time.process_time() - began
    return found


def _best_lead_first(
    sets: list[dict[str, float]], search: PortfolioSearch
) -> list[dict[str, float]]:
    """The same sets; the one that leads best in longer streams comes first."""
    if search.leads == 0:
        return sets
    games = Games(
        [
            draw_instance("stream", seed=LEADS + k, jobs=40, ccr=CCRS[k % 3], load=LOADS[k % 2])
            for k in range(search.leads)
        ]
    )
    orders = [[sets[k], *sets[:k], *sets[k + 1 :]] for k in range(len(sets))]
    return min(
        orders, key=lambda order: float(games.play([weights_of(given) for given in order]).mean())
    )


def draw_pool(rule: Mapping[str, float], search: PortfolioSearch) -> list[dict[str, float]]:
    """The rule itself, changes by hand, and changes at random."""
    rng = generator(search.seed, "portfolio search")
    full = dict(zip(WEIGHTS, weights_of(rule).tolist(), strict=True))
    pool = [full, *({**full, **change} for change in HAND)]
    for _ in range(search.pool):
        steps = rng.standard_normal(len(SPREAD)) * (rng.random(len(SPREAD)) < 0.4)
        pool.append(
            {
                **full,
                **{
                    name: round(full[name] + SPREAD[name] * float(x), 4)
                    for name, x in zip(SPREAD, steps, strict=True)
                },
            }
        )
    return pool


def _gains(
    games: Games, before: list[FloatArray], added: Mapping[int, FloatArray]
) -> dict[int, FloatArray]:
    """What adding each set changes in each case; a single case counts for at most a factor of two."""
    base = games.play(before)
    return {
        k: np.clip(games.play([*before, weights]) - base, -np.log(2), np.log(2))
        for k, weights in added.items()
    }
