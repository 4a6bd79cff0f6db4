"""Scores of policies and rules for streams of conditional jobs on the same draws."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np

from weft.errors import Unsupported
from weft.model.columns import FloatArray
from weft.model.conditional_stream import ConditionalStream, SharedStreams
from weft.policies.conditional.evaluate import WINDOW, check_network_fits, options_of, run_batch
from weft.policies.conditional.rollout import Rollout
from weft.policies.conditional.trained_network import TrainedNetwork
from weft.policies.load import load_policy
from weft.policies.simulate import simulate
from weft.sim.vector.batch import Idle, StepBatch, StepOptions
from weft.sim.view import Policy

TIE = 1e-3
"""Weight of the mean completion time beside the measure of missed deadlines."""


def power_mean(times: FloatArray, norm: float = 1.0) -> float:
    """Return the mean of times for norm 1, their root mean square for norm 2, etc.

    Examples
    --------
    >>> power_mean(np.array([1.0, 7.0])), power_mean(np.array([1.0, 7.0]), 2.0)
    (4.0, 5.0)
    """
    return float(times.mean()) if norm == 1.0 else float((times**norm).mean() ** (1.0 / norm))


def missed(times: FloatArray, objective: str, deadline: float) -> float:
    """Return the share of late jobs ("late"), or the mean seconds after the deadline.

    A thousandth of the mean completion time is added, so that equals differ.

    Examples
    --------
    >>> round(missed(np.array([1.0, 7.0]), "late", 4.0), 6)
    0.501
    """
    over = np.maximum(times - deadline, 0.0)
    if objective == "late":
        return float((over > 0.0).mean() + TIE * times.mean() / deadline)
    return float(over.mean() + TIE * times.mean())


def completions(
    policy: str | PathLike[str] | Policy,
    streams: Sequence[ConditionalStream],
    seeds: Sequence[int],
    *,
    idle: Idle | None = None,
    authors: bool = False,
) -> list[list[FloatArray]]:
    """Return the completion time of every job in seconds, by stream and seed.

    It is inf if the run never ends.

    `idle` defaults to that of the policy's training, and to "event" for rules.
    """
    policy = load_policy(policy)
    return [
        [_one(policy, stream, seed, idle, authors=authors) for seed in seeds] for stream in streams
    ]


def shared_completions(
    policy: str | PathLike[str] | Policy, shared: SharedStreams, seeds: Sequence[int]
) -> list[list[FloatArray]]:
    """Return the completion time of every job in seconds, by stream and seed.

    All streams run together; units wait until the next event.
    """
    policy = load_policy(policy)
    found: list[list[FloatArray]] = [[] for _ in shared.streams]
    for seed in seeds:
        workload, scenario = shared.draw(seed)
        times = simulate(workload, policy, scenario=scenario).job_completion
        for k, rows in enumerate(found):
            rows.append(times[workload.template == k])
    return found


def service_figures(jobs: FloatArray, deadline: float = np.inf) -> dict[str, float]:
    """Return the mean, the 95th and 99th percentile, and the share of jobs in time.

    Examples
    --------
    >>> service_figures(np.array([1.0, 2.0, 3.0]), deadline=2.0)["in_time"]
    0.6666666666666666
    """
    low, high = np.percentile(jobs, (95.0, 99.0)) if np.isfinite(jobs).all() else (np.inf, np.inf)
    return {
        "mean": float(jobs.mean()),
        "p95": float(low),
        "p99": float(high),
        "in_time": float((jobs <= deadline).mean()),
    }


def _one(
    policy: Policy, stream: ConditionalStream, seed: int, idle: Idle | None, *, authors: bool
) -> FloatArray:
    stepwise: Any = getattr(policy, "stepwise", None)
    if stepwise is None:
        return _simulated(policy, stream, seed, idle, authors=authors)
    if isinstance(stepwise, TrainedNetwork):
        options = options_of(stepwise, idle)
    elif isinstance(stepwise, Rollout):
        options = stepwise.options(idle)
    else:
        options = StepOptions(idle=idle or "event", window=WINDOW)
    batch = StepBatch(stream, 1, options, authors=authors)
    batch.place(0, *stream.draw_ticks(seed, authors=authors))
    if not isinstance(stepwise, TrainedNetwork):
        stepwise.run(batch)
        return batch.jct(0)
    check_network_fits(stepwise.network, batch)
    return batch.jct(0) if run_batch(stepwise.network, batch) else np.full(stream.jobs, np.inf)


def _simulated(
    policy: Policy, stream: ConditionalStream, seed: int, idle: Idle | None, *, authors: bool
) -> FloatArray:
    """Simulate a policy without a step-wise form; it waits until the next event."""
    if idle == "block":
        raise Unsupported(f"policy '{policy.name}' cannot block idle units; leave out the option")
    workload, scenario = stream.draw(seed, authors=authors)
    return simulate(workload, policy, scenario=scenario).job_completion
