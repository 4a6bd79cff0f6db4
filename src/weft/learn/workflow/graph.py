"""REINFORCE for the graph networks of `weft.policies.graph.network`.

Williams (1992) with the baseline of Mao et al. (SIGCOMM 2019, section 5.3): an instance (a workload
and its future) is simulated several times, and the return after a choice is compared with the
average over the runs of the same instance at the same time: arrivals and failures, which no choice
affects, cancel out. The return is minus the seconds that jobs still spend in the system: for a
single workflow its makespan, for a stream the sum of completion times. Instances come from all
conditions, small ones first. Before that, the network learns the order of a rule by imitation (the
job with the least work left first; within it, the highest upward rank). Advantages are relative to
the instance's own mean, so that long and short instances count alike.

The number of updates is given, not the time: the same seed gives the same network.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict

import numpy as np
import torch
from torch import nn

from weft.generators.instances import CONDITIONS, Instance, draw_instance
from weft.learn.workflow.graph_episodes import EXPERT, SAMPLED, EpisodeLog, run_instance
from weft.learn.workflow.graph_module import GraphModule, make_batch, make_forest, order_likelihood
from weft.model.columns import FloatArray
from weft.policies.graph.network import graph_network_of
from weft.policies.graph.policy import GraphPolicy, TrainedGraph
from weft.policies.simulate import simulate
from weft.progress import Progress, silent
from weft.rng import generator
from weft.typed import typed_dataclass

VALIDATION = 900_000
"""First seed of validation instances; training has lower seeds, evaluations 1,000,000 and above."""


@typed_dataclass(frozen=True)
class GraphSettings:
    """Settings of the training.

    There are `imitation` updates, then `updates` of REINFORCE. Every update draws one instance of
    each condition and simulates it `runs` times. The weight of the entropy falls from `entropy` to
    a tenth of it; sizes grow from `small` to `large` tasks. Validations are `every` updates.
    """

    updates: int = 1500
    imitation: int = 400
    runs: int = 16
    rate: float = 4e-4
    imitation_rate: float = 3e-3
    entropy: float = 0.003
    small: tuple[int, int] = (20, 40)
    large: tuple[int, int] = (20, 110)
    jobs: tuple[int, int] = (6, 14)
    clip: float = 1.0
    every: int = 100


def advantages(case: Instance, runs: Sequence[EpisodeLog]) -> list[FloatArray]:
    """Return the advantage of every event of every run, as a share of a whole run.

    It is the mean time that jobs spend in the system from then on, minus the time in this run.
    """
    arrival = case.workload.arrival

    def ahead(run: EpisodeLog, time: FloatArray) -> FloatArray:
        later = np.maximum(time[:, None], arrival[None, :])
        return np.asarray(np.maximum(run.job_finish[None, :] - later, 0.0).sum(axis=1))

    scale = max(float(np.mean([(run.job_finish - arrival).sum() for run in runs])), 1e-300)
    found = []
    for run in runs:
        usual = np.mean([ahead(other, run.time) for other in runs], axis=0)
        found.append((usual - ahead(run, run.time)) / scale)
    return found


# -- training ----------------------------------------------------------------------


def train_graph(
    kind: str,
    *,
    settings: GraphSettings | None = None,
    seed: int = 0,
    validation: Sequence[Instance] = (),
    draw: Callable[[GraphSettings, int, int, float], list[Instance]] | None = None,
    progress: Progress[dict[str, float]] = silent,
) -> TrainedGraph:
    """Train a graph network, "decima" or "lachesis"; return the best by validation.

    Without validation instances, return the last one. `draw` makes the instances of an update from
    (settings, seed, update, share of the training); by default one of each condition. `progress`
    receives the row of each validation.
    """
    s, began = settings or GraphSettings(), time.process_time()
    torch.set_num_threads(1)
    module = GraphModule(kind, seed)
    scorer = GraphScorer(validation)
    curve: list[dict[str, float]] = []
    best, best_arrays = math.inf, module.arrays()
    adam = torch.optim.Adam(module.parameters(), lr=s.imitation_rate)
    for update in range(-s.imitation, s.updates):
        share = max(update, 0) / max(s.updates - 1, 1)
        if update == 0:
            adam = torch.optim.Adam(module.parameters(), lr=s.rate)
        for group in adam.param_groups:
            group["lr"] = (s.imitation_rate if update < 0 else s.rate) * (1 - 0.9 * share)
        # Imitate on all sizes; then begin with small sizes again.
        size = share if update >= 0 else (update + s.imitation) / s.imitation
        cases = (draw or draw_batch)(s, seed, update + s.imitation, size)
        by = EXPERT if update < 0 else SAMPLED
        rng = generator(seed, "graph training", "plays", update + s.imitation)
        _improve(module, adam, cases, s, rng, by, entropy=1 - 0.9 * share)
        if update == 0 or (update > 0 and (update + 1) % s.every == 0) or update == s.updates - 1:
            scores = scorer.score(TrainedGraph(kind, kind, module.network(), {}))
            curve.append({"update": float(update + 1), **scores})
            progress(curve[-1])
            if scores.get("all", -math.inf) < best or not scores:
                best, best_arrays = scores.get("all", math.inf), module.arrays()
    training = {
        "algorithm": "imitation, then REINFORCE (weft.learn.workflow.graph)",
        "seed": seed,
        "cpu_seconds": round(time.process_time() - began, 1),
        "settings": asdict(s),
        "curve": curve,
    }
    return TrainedGraph(kind, kind, graph_network_of(best_arrays), training)


def _improve(
    module: GraphModule,
    adam: torch.optim.Optimizer,
    cases: list[Instance],
    s: GraphSettings,
    rng: np.random.Generator,
    by: int,
    *,
    entropy: float,
) -> None:
    network = module.network()
    times = s.runs if by == SAMPLED else 1
    kept = []
    for case in cases:
        runs, graph = run_instance(case, network, module.kind, rng, times=times, by=by)
        if any(len(run.time) for run in runs):
            kept.append((case, runs, graph))
    if not kept:
        return
    used, episodes, graphs = zip(*kept, strict=True)
    forest = make_forest(used, graphs)
    batch = make_batch(used, episodes, forest)
    likelihood, spread = order_likelihood(module(forest, batch), batch)
    if by == EXPERT:
        loss = -likelihood.mean()
    else:
        parts = [advantage for case, runs, _ in kept for advantage in advantages(case, runs)]
        advantage = torch.from_numpy(np.concatenate(parts).astype(np.float32))
        loss = (
            -(likelihood * advantage / (advantage.std() + 1e-8)).mean()
            - s.entropy * entropy * spread.mean()
        )
    adam.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    nn.utils.clip_grad_norm_(module.parameters(), s.clip)
    adam.step()


def draw_batch(s: GraphSettings, seed: int, update: int, share: float) -> list[Instance]:
    """Draw one instance of each condition; sizes grow with the share of the training."""
    rng = generator(seed, "graph training", "cases", update)
    low, high = (round(a + (b - a) * share) for a, b in zip(s.small, s.large, strict=True))
    cases = []
    for name, condition in CONDITIONS.items():
        jobs = round(s.jobs[0] + (s.jobs[1] - s.jobs[0]) * share) if condition.stream else 1
        ccr = float(np.exp(rng.uniform(np.log(0.1), np.log(5.0))))
        load, own = float(rng.uniform(0.6, 0.95)), int(rng.integers(VALIDATION))
        cases.append(
            draw_instance(name, seed=own, tasks=(low, high), jobs=jobs, ccr=ccr, load=load)
        )
    return cases


class GraphScorer:
    """Score of networks on fixed instances, over that of `heft-replanned`.

    It is the makespan of a workflow, and the mean completion time of a stream.
    """

    def __init__(self, cases: Sequence[Instance]) -> None:
        self.cases = list(cases)
        self.reference = [self._cost(case, "heft-replanned") for case in self.cases]

    def score(self, learned: TrainedGraph) -> dict[str, float]:
        """Return the mean ratio over single workflows, over streams, and over all."""
        if not self.cases:
            return {}
        ratio = np.array(
            [
                self._cost(case, GraphPolicy(learned)) / usual
                for case, usual in zip(self.cases, self.reference, strict=True)
            ]
        )
        streams = np.array([case.workload.jobs > 1 for case in self.cases])
        parts = {"workflows": ratio[~streams], "streams": ratio[streams], "all": ratio}
        return {name: float(values.mean()) for name, values in parts.items() if len(values)}

    @staticmethod
    def _cost(case: Instance, policy: str | GraphPolicy) -> float:
        trace = simulate(case.workload, policy, scenario=case.scenario)
        return float(trace.jct if case.workload.jobs > 1 else trace.makespan)


def validation_instances(*, each: int = 18) -> list[Instance]:
    """Draw `each` validation instances of every condition, with CCR 0.1, 1 and 5."""
    cases = []
    for name, condition in CONDITIONS.items():
        for k in range(each):
            jobs, ccr = 10 if condition.stream else 1, (0.1, 1.0, 5.0)[k % 3]
            own = VALIDATION + k
            cases.append(
                draw_instance(name, seed=own, tasks=(20, 80), jobs=jobs, ccr=ccr, load=0.85)
            )
    return cases
