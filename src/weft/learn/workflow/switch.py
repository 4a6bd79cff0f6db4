"""Values of keeping a plan and of making plans anew, for `replan-switch`: a Q-network learns them from outcomes. The whole loop in one file.

A round plays cases by the policy so far. Each is stopped here and there; from where it stands both ways of planning are followed to the
end, in the same future. What either was worth, against the mean of both, is what the network learns to tell from what it is told of the
world (`policies/replanning/switch.py`). The policy of the next round takes at every event what the network says is worth more: with true values
that is never worse than either way (Sutton, Precup and Singh 1999, theorem 2). Values of going on in one way to the end do not depend
on the policy, so what was learned from in earlier rounds stays; it is the places a policy gets to that change. Targets are complete
outcomes: nothing is bootstrapped, and what chance does to both ways alike cancels out.
"""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weft.errors import InvalidInput
from weft.generators import Instance, draw_instance
from weft.learn.workflow.rule import ALONE, VALIDATION, copied
from weft.model.columns import FloatArray
from weft.policies.replanning.placement import TRUST, learn_durations
from weft.policies.replanning.portfolio import (
    KEEPING,
    SIGHT,
    Plans,
    copy_plans,
    desk_at,
    judged_by,
    live_by_plans,
    live_to_choice,
    make_plans,
    plan_anew,
    start_planned,
)
from weft.policies.replanning.switch import TOLD, describe_world, no_judge, plan_judge
from weft.policies.two_stage.policy import MOVES
from weft.rng import generator
from weft.sim.kernel.events import ENDED, MOMENT
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.tables import Sim, make_sim

CAUTIONS = (0.0, 0.05, 0.1, 0.2)
"""By how much keeping a plan must look better, in tenths of a logarithm; tried at every validation."""
MOST_WORTH = 2.0
"""What either way can be worth at most, and at least minus that: a factor of 1.5 between them."""

Numbers = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class SwitchSettings:
    """What the loop can be told.

    Parameters
    ----------
    rounds : of playing and fitting; alone, streams : cases of each
    stops : of a run, on average; in the first round the way of planning is drawn at random there
    hidden, epochs, rate, decay, batch : of fitting
    judges : cases of single workflows to validate with, and an eighth as many streams
    processes : that play at the same time; results do not depend on it
    """

    rounds: int = 3
    alone: int = 1500
    streams: int = 100
    stops: int = 6
    hidden: int = 32
    epochs: int = 60
    rate: float = 2e-3
    decay: float = 1e-4
    batch: int = 256
    judges: int = 240
    processes: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name in ("rounds", "stops", "hidden", "epochs", "batch", "judges", "processes"):
            if getattr(self, name) < 1:
                raise InvalidInput(
                    f"values of plans: {name} is {getattr(self, name)}; it must be 1 or more"
                )
        if self.alone + self.streams < 1:
            raise InvalidInput(
                "values of plans: there must be a case to play; raise alone or streams"
            )


class SwitchJudge(NamedTuple):
    """A network that decides between the two ways: its arrays, and the caution it acts with."""

    arrays: Mapping[str, Numbers]
    caution: float


@dataclass
class TrainedSwitch:
    """The best network by validation, and how it went; the score is the mean log of the objective over that of making plans anew."""

    arrays: dict[str, Numbers]
    caution: float
    settings: SwitchSettings
    score: float = math.inf
    seconds: float = 0.0
    lessons: int = 0
    curve: list[dict[str, float]] = field(default_factory=list)

    def record(self) -> dict[str, object]:
        """Plain values, to be kept beside the weights."""
        known = {
            "algorithm": "Q-values of two ways of planning, from rollouts (weft.learn.workflow.switch)",
            "seed": self.settings.seed,
            "score": self.score,
        }
        counts = {"cpu_seconds": round(self.seconds, 1), "lessons": self.lessons}
        return {**known, **counts, "settings": asdict(self.settings), "curve": self.curve}


# -- cases ----------------------------------------------------------------------


class ValueSample(NamedTuple):
    """Which case to draw."""

    condition: str
    seed: int
    ccr: float
    jobs: int
    load: float


def draw_tickets(seed: int, alone: int, streams: int) -> list[ValueSample]:
    """Single workflows under all conditions in turn, and streams of 6 to 16 jobs; CCR 0.1 to 6, load 0.7 to 0.95."""
    rng = generator(seed, "plan values", "cases")
    tickets = []
    for k in range(alone + streams):
        ccr, load = float(10 ** rng.uniform(-1.0, 0.8)), float(rng.uniform(0.7, 0.95))
        jobs = int(rng.integers(6, 17)) if k >= alone else 1
        tickets.append(
            ValueSample(
                ALONE[k % len(ALONE)] if k < alone else "stream", seed * 10_000 + k, ccr, jobs, load
            )
        )
    return tickets


def draw(ticket: ValueSample) -> Instance:
    """The case of a ticket, with jobs of 20 to 150 tasks."""
    return draw_instance(
        ticket.condition, seed=ticket.seed, jobs=ticket.jobs, ccr=ticket.ccr, load=ticket.load
    )


# -- playing --------------------------------------------------------------------


@njit_noalloc
def describe(sim: Sim, plans: Plans) -> None:
    """Fill in what the network is told at this moment."""
    kept = desk_at(plans.stack, len(plans.weights))
    learn_durations(sim, kept, plans.weights[0, TRUST])
    describe_world(sim, kept, plans.known[1], plans.contest[KEEPING], plans.told)


def time_left(sim: Sim, plans: Plans, way: int) -> float:
    """Plan in one way to the end (1: keep a plan); the time all jobs spend in the system from here on."""
    now, sim, plans = (
        float(sim.world["now"][0]),
        copied(sim),
        copy_plans(plans)._replace(judge=no_judge()),
    )
    plans.contest[KEEPING] = way
    start_planned(sim, plans, plan_anew(sim, plans))
    if live_by_plans(sim, plans) != ENDED:
        return math.inf
    return float(
        np.maximum(sim.job["finish"][:-1] - np.maximum(sim.job["arrival"][:-1], now), 0.0).sum()
    )


def learn_from(
    case: Instance,
    sets: Sequence[FloatArray],
    judge: SwitchJudge | None,
    settings: SwitchSettings,
    seed: int,
) -> list[FloatArray]:
    """Lessons of one case: (ways, what is told, and what it was worth)."""
    rng = generator(seed, "plan values", "stops")
    sim = make_sim(case.workload, case.scenario, None, eager=True)
    plans = _plans_of(case, sim, sets, judge)
    chance = settings.stops * (1 if case.workload.jobs == 1 else 2) / (0.7 * len(sim.inst))
    lessons: list[FloatArray] = []
    first = True
    while live_to_choice(sim, plans) == MOMENT:
        if first or rng.random() < chance:
            describe(sim, plans)
            told, left = plans.told.copy(), np.array([time_left(sim, plans, way) for way in (0, 1)])
            if np.isfinite(left).all() and left.min() > 0.0:
                worth = 10.0 * (np.log(left).mean() - np.log(left))
                lessons.append(np.column_stack((told, np.clip(worth, -MOST_WORTH, MOST_WORTH))))
            if judge is None:
                plans.contest[KEEPING] = rng.integers(2)
        start_planned(sim, plans, plan_anew(sim, plans))
        first = False
    return lessons


def outcome(case: Instance, sets: Sequence[FloatArray], judge: SwitchJudge | None) -> float:
    """Log of the mean completion time."""
    sim = make_sim(case.workload, case.scenario, None, eager=True)
    if live_by_plans(sim, _plans_of(case, sim, sets, judge)) != ENDED:
        return math.inf
    return float(np.log((sim.job["finish"][:-1] - sim.job["arrival"][:-1]).mean()))


def _plans_of(
    case: Instance, sim: Sim, sets: Sequence[FloatArray], judge: SwitchJudge | None
) -> Plans:
    plans = make_plans(case.workload, sim, sets, most=SIGHT, moves=MOVES, homes=True)
    return plans if judge is None else judged_by(plans, plan_judge(judge.arrays), judge.caution)


# -- the network ----------------------------------------------------------------


class SwitchValues(nn.Module):
    """The torch twin of the compiled network."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(features, hidden), nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, 1, bias=False)

    def forward(self, feature: Tensor) -> Tensor:
        """(..., features) -> (...)."""
        value: Tensor = self.last(torch.relu(self.second(torch.relu(self.first(feature)))))
        return value.squeeze(-1)

    def arrays(self) -> dict[str, Numbers]:
        """The arrays the compiled network acts through."""
        first, second = self.first, self.second
        parts = {
            "w1": first.weight.T,
            "b1": first.bias,
            "w2": second.weight.T,
            "b2": second.bias,
            "w3": self.last.weight[0],
        }
        return {
            name: np.ascontiguousarray(value.detach().numpy()[None], np.float32)
            for name, value in parts.items()
        }


def fit(lessons: Numbers, settings: SwitchSettings, round_: int) -> tuple[SwitchValues, float]:
    """A network for lessons (places, ways, told and worth), and its last loss: the variance it leaves, over that there is."""
    torch.manual_seed(settings.seed * 1000 + round_)
    torch.set_num_threads(1)
    feature, worth = torch.from_numpy(lessons[..., :-1]), torch.from_numpy(lessons[..., -1])
    net = SwitchValues(feature.shape[-1], settings.hidden)
    batches = math.ceil(len(feature) / settings.batch)
    optimizer = torch.optim.AdamW(net.parameters(), lr=settings.rate, weight_decay=settings.decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.epochs * batches)
    for _ in range(settings.epochs):
        total = 0.0
        for at in torch.randperm(len(feature)).chunk(batches):
            value = net(feature[at])
            loss = (
                (value - value.mean(1, keepdim=True) - worth[at]) ** 2
            ).mean()  # only differences between ways matter
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(at)
    return net, total / len(feature) / max(float((worth**2).mean()), 1e-12)


# -- the loop -------------------------------------------------------------------


def train_plan_values(
    sets: Sequence[FloatArray],
    settings: SwitchSettings | None = None,
    *,
    tickets: Callable[[int, int, int], list[Any]] = draw_tickets,
    instance_of: Callable[[Any], Instance] = draw,
    watch: Callable[[dict[str, float]], None] | None = None,
) -> TrainedSwitch:
    """Learn when to keep one of the plans that sets of weights make; `tickets(seed, alone, streams)` and `instance_of` give the cases."""
    s = settings or SwitchSettings()
    lessons: list[FloatArray] = []
    judge: SwitchJudge | None = None
    blank = SwitchValues(len(TOLD), s.hidden)
    trained = TrainedSwitch(blank.arrays(), 0.0, s)
    with _playing(s.processes) as play:
        exam = _Exam(tickets(VALIDATION + 3, s.judges, s.judges // 8), instance_of, sets, play)
        trained.seconds += exam.seconds
        for round_ in range(s.rounds):
            drawn = tickets(s.seed * 100 + round_ + 40, s.alone, s.streams)
            jobs = [
                (instance_of, ticket, sets, judge, s, (s.seed * 100 + round_) * 100_000 + k)
                for k, ticket in enumerate(drawn)
            ]
            for found, seconds in play(_lessons_of, jobs):
                lessons += found
                trained.seconds += seconds
            began = time.process_time()
            net, left = fit(np.stack(lessons).astype(np.float32), s, round_)
            trained.seconds += time.process_time() - began
            arrays = net.arrays()
            scores = {caution: exam.score(SwitchJudge(arrays, caution)) for caution in CAUTIONS}
            caution = min(scores, key=lambda c: (scores[c], c))
            judge = SwitchJudge(arrays, caution)
            trained.seconds, trained.lessons, exam.seconds = (
                trained.seconds + exam.seconds,
                len(lessons),
                0.0,
            )
            row = {
                "round": round_ + 1.0,
                "lessons": float(len(lessons)),
                "unexplained": left,
                "caution": caution,
                "score": scores[caution],
            }
            trained.curve.append(
                {**row, "greedy": scores[0.0], "seconds": round(trained.seconds, 1)}
            )
            if scores[caution] < trained.score:
                trained.arrays, trained.caution, trained.score = arrays, caution, scores[caution]
            if watch is not None:
                watch(trained.curve[-1])
    return trained


class _Exam:
    """The same cases every time; streams count for as much as a condition of single workflows."""

    def __init__(
        self,
        tickets: Sequence[Any],
        instance_of: Callable[[Any], Instance],
        sets: Sequence[FloatArray],
        play: _Play,
    ) -> None:
        self._tickets, self._case_of, self._sets, self._play, self.seconds = (
            tickets,
            instance_of,
            sets,
            play,
            0.0,
        )
        self._usual = self._outcomes(None)

    def _outcomes(self, judge: SwitchJudge | None) -> FloatArray:
        found = list(
            self._play(
                _outcome_of,
                [(self._case_of, ticket, self._sets, judge) for ticket in self._tickets],
            )
        )
        self.seconds += sum(seconds for *_, seconds in found)
        self._weight = np.array([1.0 if lone else 1.6 for _, lone, _ in found])
        return np.array([value for value, *_ in found])

    def score(self, judge: SwitchJudge) -> float:
        """Mean log of the objective over that of making plans anew; a case counts for a factor of two at most."""
        change = np.clip(self._outcomes(judge) - self._usual, -math.log(2), math.log(2))
        return float((change * self._weight).sum() / self._weight.sum())


_Play = Callable[[Callable[[tuple[Any, ...]], Any], list[tuple[Any, ...]]], Iterator[Any]]


@contextmanager
def _playing(processes: int) -> Iterator[_Play]:
    """Map over cases, in order, in this process or in several."""
    if processes == 1:
        yield map
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        yield lambda work, jobs: pool.map(work, jobs, chunksize=4)


def _lessons_of(job: tuple[Any, ...]) -> tuple[list[FloatArray], float]:
    instance_of, ticket, sets, judge, settings, seed = job
    began = time.process_time()
    return learn_from(instance_of(ticket), sets, judge, settings, seed), time.process_time() - began


def _outcome_of(job: tuple[Any, ...]) -> tuple[float, bool, float]:
    instance_of, ticket, sets, judge = job
    began, case = time.process_time(), instance_of(ticket)
    return outcome(case, sets, judge), case.workload.jobs == 1, time.process_time() - began
