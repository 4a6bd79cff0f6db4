"""Imitation of rollouts: a network takes over the choices of one-step look-ahead.

Rollout classification (Lagoudakis and Parr 2003, "Reinforcement Learning as Classification") with
costs: the network decides; at every other step, its choice and the choices with one unit's action
changed are carried out in the same sampled futures, and the network itself or the tuned index
continues (`policies/conditional/rollout.py`). The cost of a choice relative to the network's own is
an advantage with little noise, for all choices of a step at once; a policy gradient has one noisy
sample. The network then moves to minimise the expected cost of choices drawn by its own
probabilities, and the next round starts from the result.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.errors import InvalidInput
from weft.learn.conditional.rollout_examples import (
    PART,
    ImitationSettings,
    RolloutExamples,
    RolloutPart,
    collect_part,
)
from weft.learn.conditional.training import GRID, JOBS, VALIDATION, validation_streams
from weft.learn.ppo import FORBIDDEN, ActorCritic, follow
from weft.model.columns import FloatArray
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.evaluate import evaluate_network, options_of
from weft.policies.conditional.network_policy import load_network
from weft.policies.conditional.networks import Network, arrays_of, network_of
from weft.policies.conditional.trained_network import TrainedNetwork
from weft.progress import Progress, silent
from weft.rng import generator
from weft.sim.view import Policy

AGO_MEAN, AGO_SCALE = np.float32(0.3), np.float32(4.0)
"""Observed time since the last arrival if jobs come as quickly as tasks run."""


def improve(
    stream: ConditionalStream,
    policy: str | PathLike[str] | Policy | TrainedNetwork,
    settings: ImitationSettings | None = None,
    *,
    progress: Progress[dict[str, float]] = silent,
    keep: Callable[[TrainedNetwork], object] | None = None,
    folder: Path | None = None,
) -> TrainedNetwork:
    """Return a network trained on rollouts, or the given one if none validates better.

    `policy` is the network to begin with: a name, the path of a trained one, or an object.
    `keep` is called with the best network so far after each round. With a `folder`, steps and
    rounds are kept there, and a training that was stopped goes on with the same result.
    """
    policy, settings = load_network(policy), settings or ImitationSettings()
    torch.set_num_threads(1)
    torch.manual_seed(settings.seed)
    if settings.detail:
        policy = detailed(policy)
    if settings.hidden:
        policy = replace(policy, network=widened(policy.network, settings.hidden, settings.seed))
    learner = _RolloutLearner(policy, stream, settings)
    best = start = learner.score()
    kept, curve = learner.network(), list[dict[str, float]]()
    parts, learning = list[RolloutPart](), 0.0
    for number in range(settings.rounds):
        acting = replace(policy, network=kept)
        parts += [
            collect_part(stream, acting, settings, number, part, folder)
            for part in range(max(settings.steps // PART, 1))
        ]
        began, collecting = time.process_time() - learning, sum(part.seconds for part in parts)
        before = _read_round(folder, number)
        if before is not None:
            best, curve, learning, arrays = before
            kept = network_of(arrays, units=kept.units, actions=kept.actions)
        passes = learner.learn(parts, number) if before is None else iter(())
        for epoch, mean in enumerate(passes):
            if (epoch + 1) % max(settings.epochs // 4, 1) == 0:
                score = learner.score()
                row = {
                    "round": float(number + 1),
                    "epoch": float(epoch + 1),
                    "cost": mean,
                    "score": score,
                    "gain": score - start,
                    "cpu_seconds": round(collecting + time.process_time() - began, 1),
                }
                curve.append(row)
                progress(row)
                if score < best:
                    best, kept = score, learner.network()
        learner.net.begin_with(arrays_of(kept))
        if before is None:
            learning = time.process_time() - began
            _keep_round(folder, number, (best, curve, learning, arrays_of(kept)))
        record = {
            "method": "rollout classification (weft.learn.conditional.rollout_imitation)",
            "start": start,
            "score": best,
            **asdict(settings),
            "variants": settings.base,
            "rounds": number + 1,
            "cpu_seconds": round(collecting + learning, 1),
            "curve": [{k: round(v, 6) for k, v in row.items()} for row in curve],
        }
        training = dict(policy.training)
        former = training.pop("lessons", None)  # the key of older cards
        if (earlier := training.get("rollouts", former)) is not None:
            record["before"] = earlier
        better = replace(policy, network=kept, training=training | {"rollouts": record})
        if keep is not None:
            keep(better)
    return better


Round = tuple[float, list[dict[str, float]], float, dict[str, Any]]
"""Best score, learning curve, seconds of learning and best network after a round."""


def _keep_round(folder: Path | None, number: int, state: Round) -> None:
    if folder is None:
        return
    best, curve, learning, arrays = state
    file = folder / f"round_{number + 1}.npz"
    begun = file.with_suffix(".part.npz")
    np.savez(begun, **arrays, best=best, learning=learning, curve=json.dumps(curve))
    begun.replace(file)


def _read_round(folder: Path | None, number: int) -> Round | None:
    if folder is None or not (folder / f"round_{number + 1}.npz").exists():
        return None
    with np.load(folder / f"round_{number + 1}.npz") as kept:
        arrays = {name: kept[name] for name in kept.files}
        best, curve, learning = (arrays.pop(name) for name in ("best", "curve", "learning"))
        return float(best), json.loads(str(curve)), float(learning), arrays


class _RolloutLearner:
    """The network that learns, with its validation streams."""

    def __init__(
        self, policy: TrainedNetwork, stream: ConditionalStream, settings: ImitationSettings
    ) -> None:
        self.settings = settings
        short = stream.with_jobs(min(JOBS, stream.jobs))
        probability = policy.environment.get("probability", "own")
        self.variants = validation_streams(short, probability)
        self.options = options_of(policy)
        self.capacity = np.array(stream.problem.cluster.batch, np.int64)
        network = policy.network
        sizes = network.sizes.tolist()
        hidden = tuple(sizes[1:-1])
        self.net = ActorCritic(sizes[0], sizes[0], network.units, network.actions, hidden)
        self.net.begin_with(arrays_of(network))
        self.scale = self._times().mean(axis=1) if probability == "random" else None

    def network(self) -> Network:
        """Return a copy of the acting network."""
        arrays = {k: v.copy() for k, v in self.net.weights().items()}
        return network_of(arrays, units=self.net.units, actions=self.net.actions)

    def score(self) -> float:
        """Return the mean log of the job completion time in seconds."""
        return float(np.log(self._times()).mean())

    def _times(self) -> FloatArray:
        seeds = [VALIDATION + 1000 + i for i in range(self.settings.validation)]
        network = self.network()
        return np.stack(
            [evaluate_network(network, v, seeds, options=self.options) for v in self.variants]
        )

    def learn(self, parts: list[RolloutPart], number: int) -> Iterator[float]:
        """Pass over all examples; after each pass, yield the mean cost of the choices."""
        columns = zip(*(part.examples for part in parts), strict=True)
        examples = RolloutExamples(*(np.concatenate(column) for column in columns))
        cost, barred, action = self._tensors(
            examples, np.concatenate([part.probability for part in parts])
        )
        inputs = self.net.scaled(torch.from_numpy(examples.observation))
        rng = generator(self.settings.seed * 100 + number, "rollout batches")
        rate, epochs = self.settings.rate, self.settings.epochs
        optimiser = torch.optim.Adam(self.net.actor.parameters(), lr=rate)
        batches = max(len(cost) // self.settings.batch, 1)
        for epoch in range(epochs):
            total = 0.0
            for b, rows in enumerate(np.array_split(rng.permutation(len(cost)), batches)):
                for group in optimiser.param_groups:
                    group["lr"] = rate * (1 - (epoch * batches + b) / (epochs * batches))
                logits = self.net.prefer(inputs[rows])[:, None].masked_fill(barred[rows], FORBIDDEN)
                taken = torch.log_softmax(logits, -1).gather(-1, action[rows][..., None])
                log_prob = taken[..., 0].sum(-1)
                chosen = torch.softmax(log_prob.masked_fill(cost[rows].isnan(), FORBIDDEN), -1)
                loss = (chosen * cost[rows].nan_to_num()).sum(-1).mean()
                optimiser.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
                optimiser.step()
                total += float(loss.detach())
            yield total / batches

    def _tensors(
        self, examples: RolloutExamples, probability: FloatArray
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return costs over their mean size (NaN: no choice), barred actions and choices."""
        most = int(examples.size.max())
        there = np.arange(most)[None, :] < examples.size[:, None]
        cost = np.where(there, examples.cost[:, :most], np.nan)
        if self.scale is not None:  # one per cent counts the same at every probability
            cost = cost / np.interp(probability, GRID, self.scale)[:, None]
        cost /= np.nanmean(np.abs(cost))
        action = examples.action[:, :most].copy()
        barred = np.zeros((*there.shape, *examples.mask.shape[1:]), np.bool_)
        for c in range(most):
            mask, own = examples.mask.copy(), np.ascontiguousarray(action[:, c])
            follow(mask, examples.ready.copy(), self.capacity, own)
            action[:, c], barred[:, c] = own, ~mask
        single = torch.from_numpy(cost.astype(np.float32))
        return single, torch.from_numpy(barred), torch.from_numpy(action)


def detailed(policy: TrainedNetwork) -> TrainedNetwork:
    """Return a policy that also observes the fill of batches and the last arrival.

    The arrival counts by the time since then.

    Its choices differ a little at first, as a running batch is marked by its fill instead of 1. The
    new number has no effect yet.
    """
    seen, network = policy.observation, policy.network
    if not seen.get("units", False) or seen.get("detail", False):
        raise InvalidInput(
            f"policy '{policy.name}' cannot learn to observe details: it must observe the units, "
            "and not yet their details"
        )
    arrays = arrays_of(network)
    arrays["input.mean"] = np.append(arrays["input.mean"], AGO_MEAN)
    arrays["input.scale"] = np.append(arrays["input.scale"], AGO_SCALE)
    arrays["0.weight"] = np.pad(arrays["0.weight"], ((0, 0), (0, 1)))
    wider = network_of(arrays, units=network.units, actions=network.actions)
    return replace(policy, network=wider, observation={**seen, "detail": True})


def widened(network: Network, hidden: tuple[int, ...], seed: int) -> Network:
    """Return a network with larger hidden layers and the same outputs.

    New units read their inputs with random weights, and nothing reads them yet.
    """
    old, arrays = network.sizes.tolist(), arrays_of(network)
    new = [old[0], *hidden, old[-1]]
    if len(new) != len(old) or any(a < b for a, b in zip(new, old, strict=True)):
        raise InvalidInput(
            f"the network has hidden layers of {old[1:-1]}; they can grow, not become {[*hidden]}"
        )
    rng = generator(seed, "wider network")
    for i, (inputs, outputs) in enumerate(pairwise(new)):
        weight = np.zeros((outputs, inputs), np.float32)
        fresh = (outputs - old[i + 1], inputs)
        weight[old[i + 1] :] = rng.normal(0.0, np.sqrt(2.0 / inputs), fresh)
        weight[: old[i + 1], : old[i]] = arrays[f"{i}.weight"]
        bias = np.zeros(outputs, np.float32)
        bias[: old[i + 1]] = arrays[f"{i}.bias"]
        arrays |= {f"{i}.weight": weight, f"{i}.bias": bias}
    return network_of(arrays, units=network.units, actions=network.actions)
