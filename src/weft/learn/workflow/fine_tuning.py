"""Fine-tuning of a replanning policy to sample instances, by CMA-ES."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from weft.errors import InvalidInput, UnknownName
from weft.formats.model_file import Model
from weft.generators import Instance
from weft.learn.cma import SeparableCma
from weft.learn.workflow.tuned_list import TUNED, clip_ratio, start_sim
from weft.model.columns import BoolArray, FloatArray
from weft.policies.load import load_kind
from weft.policies.q_network import ARRAYS
from weft.policies.replanning.policy import ReplanningPolicy
from weft.policies.replanning.trained import SWITCH, TWO_STAGE, replanning_model
from weft.policies.replanning.weights import WEIGHTS
from weft.policies.two_stage.dqn import TwoStageDqn
from weft.progress import Progress, silent
from weft.registry import closest
from weft.rng import generator
from weft.sim.kernel.events import ENDED
from weft.sim.kernel.tables import Sim, copy_sim
from weft.sim.view import Policy

HELD_BACK = 3
"""Every third sample is held out for validation."""


OBJECTIVES = ("completion", "makespan", "energy")
"""What a policy may be tuned for: mean completion of jobs, makespan of all, joules."""


def fine_tune(
    policy: str | PathLike[str] | Policy,
    cases: Sequence[Instance],
    seconds: float = 60.0,
    seed: int = 0,
    *,
    reward: Mapping[str, float] | None = None,
    progress: Progress[float] = silent,
) -> ReplanningPolicy:
    """Return the policy with better weights for the samples, if there are any.

    All weight sets change together; networks stay. Weights found on two thirds of the samples are
    taken if they are also better on the others.

    Parameters
    ----------
    policy : "tuned-list", "portfolio", "replan-switch", or the path or object of an own one
    cases : samples of the instances for which the policy is meant, at least three
    seconds : of processor time
    reward : weights of `OBJECTIVES`; by default only the objective of the policy. One per cent
        of an objective of weight 2 counts as much as two per cent of one of weight 1
    progress : receives the mean change of the logarithm so far, on samples held back
    """
    share = _shares(reward)
    if len(cases) < HELD_BACK:
        raise InvalidInput(f"fine-tuning needs at least {HELD_BACK} cases; got {len(cases)}")
    given = load_kind(
        policy,
        ReplanningPolicy,
        "has no weights to tune; use 'tuned-list', 'portfolio' or 'replan-switch'",
    )
    at = [WEIGHTS.index(name) for name in TUNED]
    held_out = np.arange(len(cases)) % HELD_BACK == HELD_BACK - 1
    blank = [start_sim(case) for case in cases]

    def moved(step: FloatArray) -> ReplanningPolicy:
        policy = copy.copy(given)
        policy.sets = tuple(weights.copy() for weights in given.sets)
        for weights in policy.sets:
            weights[at] += step
        return policy

    def times(step: FloatArray, which: BoolArray) -> FloatArray:
        trial, found = moved(step), []
        for k in np.flatnonzero(which).tolist():
            trial.begin(cases[k].workload)
            sim = copy_sim(blank[k])
            ended = trial.live(sim) == ENDED
            found.append(
                log_cost(sim, cases[k], share or given.options.objective) if ended else np.inf
            )
        return np.array(found)

    began = time.process_time()
    best, still = np.zeros(len(at)), np.zeros(len(at))
    own, validated = times(still, ~held_out), times(still, held_out)
    least = 0.0
    evolution = SeparableCma(
        still, np.full(len(at), 0.05), population=10, rng=generator(seed, "fine-tuning")
    )
    while time.process_time() - began < seconds:
        evolution.improve(lambda step: _mean_change(times(step, ~held_out), own))
        change = _mean_change(times(evolution.mean, ~held_out), own)
        second = _mean_change(times(evolution.mean, held_out), validated)
        if max(change, second) < 0.0 and change + second < least:
            best, least = evolution.mean.copy(), change + second
        progress(second)
    return moved(best)


def _shares(reward: Mapping[str, float] | None) -> dict[str, float]:
    for name, weight in (reward or {}).items():
        if name not in OBJECTIVES:
            raise UnknownName(f"unknown objective '{name}' in reward{closest(name, OBJECTIVES)}")
        if not 0 <= weight < np.inf:
            raise InvalidInput(f"reward '{name}' has weight {weight}; it must not be negative")
    total = sum((reward or {}).values())
    if reward is not None and total == 0:
        raise InvalidInput("all weights of the reward are 0; give one above 0")
    return {name: weight / total for name, weight in (reward or {}).items()}


def log_cost(sim: Sim, case: Instance, objectives: Mapping[str, float] | str) -> float:
    """Return the weighted mean log of the objectives of a simulation that ended."""
    finish, arrival = sim.job["finish"][:-1], sim.job["arrival"][:-1]
    shares = {objectives: 1.0} if isinstance(objectives, str) else objectives
    span = float(finish.max() - arrival.min())
    values = {"completion": float((finish - arrival).mean()), "makespan": span}
    if "energy" in shares:
        values["energy"] = case.workload.cluster.energy(_busy_seconds(sim), span)
    if values.get("energy") == 0:
        raise InvalidInput("the devices have no power; give it to reward energy")
    return float(sum(share * np.log(values[name]) for name, share in shares.items()))


def _busy_seconds(sim: Sim) -> FloatArray:
    """Return (p,) seconds in which each device ran; members of a batch count once."""
    rows = sim.execution[: int(sim.world["executions"][0])]
    rows = rows[np.unique(rows["batch"], return_index=True)[1]]
    seconds = np.ascontiguousarray(rows["finish"] - rows["start"], float)
    busy = np.zeros(len(sim.device))
    np.add.at(busy, rows["device"], seconds)
    return busy


def tuned_model(policy: ReplanningPolicy, name: str, training: Mapping[str, Any]) -> Model:
    """Return a fine-tuned policy as a model to be written."""
    o, network = policy.options, policy.switch_network
    own: dict[str, Any] = {
        "window": o.window,
        "contenders": o.contenders,
        "affinity": o.affinity,
        "objective": o.objective,
    }
    if network is not None:
        own |= {"kind": SWITCH, "margin": policy.margin, "moves": list(o.moves)}
        own["arrays"] = {part: getattr(network, part) for part in ARRAYS}
    elif isinstance(policy, TwoStageDqn):
        own |= {"kind": TWO_STAGE, "margin": policy.margin, "copies": policy.copies}
        own["arrays"] = {part: getattr(policy.network, part) for part in ARRAYS}
    sets = [dict(zip(WEIGHTS, map(float, weights), strict=True)) for weights in policy.sets]
    about = f"{policy.name}, tuned on own workflows."
    return replanning_model(name, about, sets, training=training, **own)


def _mean_change(found: FloatArray, before: FloatArray) -> float:
    return float(clip_ratio(found - before).mean())
