"""Greedy choice of complementary weight sets: the policy `portfolio`.

A pool is drawn around the weights of `tuned-list`. Sets are added one at a time: the one that helps
most together with those chosen so far (as Xu, Hoos and Leyton-Brown 2010 build portfolios of
solvers). Every step has its own instances, so that the choice does not overfit: the whole pool is
scored on a few of them, the best sets on more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from weft.generators import Instance, draw_instance
from weft.learn.settings import Count, InstanceSettings, TrainingRecord
from weft.learn.workflow.tuned_list import Trial, clip_ratio, draw_instances
from weft.model.columns import FloatArray
from weft.policies.replanning.portfolio import WINDOW, PlanOptions
from weft.policies.replanning.weights import WEIGHTS, weights_of
from weft.progress import Progress, silent
from weft.rng import generator
from weft.typed import typed_dataclass

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
"""Standard deviation of the pool by weight; each weight changes in two sets of five."""
HAND: tuple[Mapping[str, float], ...] = (
    {"ahead": 0.3, "together": 0.05},
    {"ahead": 1.1},
    {"least": 0.0, "gap": 0.1},
    {"together": 0.5},
    {"moving": 0.6, "longer": -0.1},
    {"ahead": 0.0, "together": 0.0, "gap": 0.0, "longer": 0.0, "least": 0.0, "moving": 0.0},
    {"ahead": 1.0, "together": 0.4, "gap": 0.0},
)
"""Hand-made changes that add diversity to the pool; the sixth is close to HEFT."""

LEADS, CCRS, LOADS = 9_000_000, (0.1, 1.0, 5.0), (0.8, 0.95)
"""First seed, CCRs and loads (in turn) of the streams that decide which set comes first."""


@dataclass
class FoundPortfolio(TrainingRecord):
    """The chosen sets and their curve; the score is the gain over the first alone."""

    algorithm: ClassVar[str] = "greedy choice of sets of weights"
    sets: list[dict[str, float]]
    settings: PortfolioSearch
    score: float = 0.0
    seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)


@typed_dataclass(frozen=True, kw_only=True)
class PortfolioSearch(InstanceSettings):
    """Settings of the choice.

    Parameters
    ----------
    size : sets to choose, the given weights among them; pool : random sets
    alone, streams : instances per step for the whole pool, of single workflows and of streams
    finals, finalists : the best `finalists` sets are scored on `finals` times the instances
    leads : number of longer streams that decide which set comes first; that set is used alone while
        too many tasks wait for predictions to be compared
    """

    size: Count = 8
    pool: int = 40
    finals: Count = 3
    finalists: Count = 8
    leads: int = 24


class PortfolioTrial(Trial):
    """Costs of portfolios on the same instances."""

    def costs(self, sets: Sequence[FloatArray]) -> FloatArray:
        """Return the log of the mean completion time of every instance."""
        options = PlanOptions(window=WINDOW, affinity=True)
        return np.array([self.cost(k, sets, options) for k in range(len(self.instances))])


def search_portfolio(
    weights: Mapping[str, float],
    search: PortfolioSearch | None = None,
    *,
    draw: Callable[[int, int, int], list[Instance]] | None = None,
    progress: Progress[dict[str, float]] = silent,
) -> FoundPortfolio:
    """Choose sets around given weights.

    `draw(seed, alone, streams)` draws the instances; `progress` receives each step.
    """
    search = search or PortfolioSearch()
    draw = draw or (lambda seed, alone, streams: draw_instances(seed, alone, streams, jobs=8))
    began = time.process_time()
    pool = draw_pool(weights, search)
    arrays = [weights_of(given) for given in pool]
    chosen = [0]
    found = FoundPortfolio([pool[0]], search)
    for step in range(1, search.size):
        seed = search.seed * 100_000 + 80_000 + 2 * step
        first = PortfolioTrial(draw(seed, search.alone, search.streams))
        more = PortfolioTrial(
            draw(seed + 1, search.finals * search.alone, search.finals * search.streams)
        )
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
        progress(found.curve[-1])
    found.sets = _best_lead_first(found.sets, search)
    found.seconds = time.process_time() - began
    return found


def _best_lead_first(
    sets: list[dict[str, float]], search: PortfolioSearch
) -> list[dict[str, float]]:
    """Put first the set that does best in first place, on longer streams."""
    if search.leads == 0:
        return sets
    trial = PortfolioTrial(
        [
            draw_instance("stream", seed=LEADS + k, jobs=40, ccr=CCRS[k % 3], load=LOADS[k % 2])
            for k in range(search.leads)
        ]
    )
    orders = [[sets[k], *sets[:k], *sets[k + 1 :]] for k in range(len(sets))]
    costs = [trial.costs([weights_of(given) for given in order]).mean() for order in orders]
    return orders[int(np.argmin(costs))]


def draw_pool(weights: Mapping[str, float], search: PortfolioSearch) -> list[dict[str, float]]:
    """Return the weights themselves, with hand-made changes, and with random changes."""
    rng = generator(search.seed, "portfolio search")
    full = dict(zip(WEIGHTS, weights_of(weights).tolist(), strict=True))
    pool = [full, *({**full, **change} for change in HAND)]
    for _ in range(search.pool):
        steps = rng.standard_normal(len(SPREAD)) * (rng.random(len(SPREAD)) < 0.4)
        changed = {
            name: round(full[name] + SPREAD[name] * float(x), 4)
            for name, x in zip(SPREAD, steps, strict=True)
        }
        pool.append({**full, **changed})
    return pool


def _gains(
    trial: PortfolioTrial, before: list[FloatArray], added: Mapping[int, FloatArray]
) -> dict[int, FloatArray]:
    """Return the change of the cost of every instance that each added set makes."""
    base = trial.costs(before)
    return {k: clip_ratio(trial.costs([*before, each]) - base) for k, each in added.items()}
