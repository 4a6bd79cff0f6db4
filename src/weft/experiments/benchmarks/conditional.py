"""Training and decision speed for streams of conditional jobs, with peers.

All values are processor time of one thread. A rule gives the actions of the environment, so that
states are realistic; only the steps are timed, observations and masks included.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import numpy as np

from weft.errors import MissingExtra
from weft.experiments.benchmarks.speed import BenchMeasure
from weft.formats.native.stream_toml import load_stream
from weft.model.columns import BoolArray, IntArray, Numbers
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.network_policy import NetworkPolicy
from weft.policies.conditional.networks import Network, choose, working_space
from weft.policies.conditional.rules import ConditionalRule
from weft.policies.conditional.trained_network import read_network
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.vector.batch import StepBatch, StepOptions

STREAM = "conditional-paper"
POLICIES = ("conditional-pi4", "conditional-best")
SIMULATIONS = 256
PAPER_SAMPLES = 5_000_000
"""Training samples in the paper."""
AUTHORS = "authors' environment: 6 to 7 thousand"
"""Their simulator with observations, measured once; it does not run here."""


def measures(*, quick: bool = False) -> Iterator[BenchMeasure]:
    """Yield the measurements; `quick` extrapolates from a tenth of the samples."""
    if find_spec("torch") is None:
        raise MissingExtra("torch", "learn")
    stream = load_stream(STREAM).with_jobs(2000)
    yield environment(stream, steps=1000 if quick else 4000)
    yield training(stream, samples=PAPER_SAMPLES // 10 if quick else PAPER_SAMPLES)
    for name in POLICIES:
        yield decision(stream, name, times=2000 if quick else 20_000)


def count() -> int:
    """Return the number of measurements."""
    return 2 + len(POLICIES)


# -- the environment -------------------------------------------------------------------


def environment(stream: ConditionalStream, *, steps: int) -> BenchMeasure:
    """Measure steps per second of many simulations, and of one in Gymnasium."""
    batch = StepBatch(stream, SIMULATIONS, StepOptions(idle="event"))
    many = steps * SIMULATIONS / _stepping(batch, steps)
    figures: dict[str, object] = {"simulations": SIMULATIONS, "steps_per_second": many}
    beside = AUTHORS
    if find_spec("gymnasium") is not None:
        one = _gymnasium_rate(stream, steps)
        figures["gymnasium_steps_per_second"] = one
        beside = f"one simulation in Gymnasium: {one:,.0f}; {beside}"
    return BenchMeasure(
        "environment steps per second, with observations and masks",
        f"{many:,.0f}",
        "500,000",
        beside,
        figures,
    )


def _stepping(batch: StepBatch, steps: int) -> float:
    """Return the seconds of all steps, without the choice of actions."""
    rule, actions = (
        ConditionalRule("shortest-remaining"),
        np.zeros((batch.size, batch.units), np.int64),
    )
    batch.reset(0)
    spent = 0.0
    for i in range(steps + 50):
        rule.choose(batch, actions)
        begin = time.process_time()
        batch.step(actions)
        spent += time.process_time() - begin if i >= 50 else 0.0
    return spent


def _gymnasium_rate(stream: ConditionalStream, steps: int) -> float:
    from weft.learn.conditional.env import ConditionalEnv

    env = ConditionalEnv(stream, options=StepOptions(idle="event"))
    env.reset(seed=0)
    rule, actions = ConditionalRule("shortest-remaining"), np.zeros((1, env.batch.units), np.int64)
    spent = 0.0
    for _ in range(steps):
        rule.choose(env.batch, actions)
        begin = time.process_time()
        ended = env.step(actions[0])[2]
        spent += time.process_time() - begin
        if ended:
            env.reset()
    return steps / spent


# -- training --------------------------------------------------------------------------


def training(
    stream: ConditionalStream, *, samples: int, peer_samples: int = 131_072
) -> BenchMeasure:
    """Measure samples per second of PPO, ours and sb3-contrib's, with equal settings."""
    from weft.learn.conditional.training import recipe_of, train_policy

    settings = dataclasses.replace(
        recipe_of("pi4").settings, samples=samples, imitation=0, evaluations=0
    )
    train_policy(
        stream, "pi4", settings=dataclasses.replace(settings, samples=1), envs=16
    )  # compiled, or read from the cache
    _, found = train_policy(stream, "pi4", settings=settings)
    rate = found.samples / found.cpu_seconds
    whole = PAPER_SAMPLES / rate
    figures: dict[str, object] = {
        "samples": found.samples,
        "cpu_seconds": found.cpu_seconds,
        "samples_per_second": rate,
        "5e6_seconds": whole,
    }
    verb = "take" if samples >= PAPER_SAMPLES else "would take"
    text = f"{rate:,.0f}; 5 M samples {verb} {whole:.0f} s"
    beside = "sb3-contrib is not installed: pip install sb3-contrib"
    if find_spec("sb3_contrib") is not None:
        from weft.experiments.benchmarks.conditional_peers import reference_rate

        theirs = reference_rate(stream, peer_samples, settings, size=SIMULATIONS)
        figures["reference_samples_per_second"] = theirs
        beside = f"sb3-contrib's MaskablePPO: {theirs:,.0f} ({rate / theirs:.1f} times slower)"
    return BenchMeasure("PPO samples per second", text, "5 M in 240 s", beside, figures)


# -- one decision ----------------------------------------------------------------------


def decision(stream: ConditionalStream, name: str, *, times: int) -> BenchMeasure:
    """Measure microseconds from observation and mask to the actions of all units."""
    from weft.experiments.benchmarks.conditional_peers import with_onnxruntime, with_torch

    policy = NetworkPolicy(read_network(name))
    cases = _cases(stream, policy)
    spent = {
        "compiled loop": _compiled(policy.network, cases, times),
        "compiled, called from Python": _from_python(policy, cases, times),
    }
    spent["torch"] = _with(with_torch(policy.network), cases, times // 4)
    if find_spec("onnxruntime") is not None:
        spent["onnxruntime"] = _with(with_onnxruntime(policy), cases, times // 4)
    micro = {how: seconds * 1e6 for how, seconds in spent.items()}
    called = micro["compiled, called from Python"]
    text = f"{micro['compiled loop']:.2f} us; called from Python {called:.2f} us"
    beside = ", ".join(
        f"{how} {micro[how]:.1f} us" for how in ("torch", "onnxruntime") if how in micro
    )
    beside += "; authors: below 20 us"
    return BenchMeasure(f"one decision of {name}", text, "5 us", beside, {"microseconds": micro})


class Cases(tuple[Numbers, BoolArray, IntArray, IntArray]):
    """Observations (n, inputs), masks (n, units, actions), queues and batch sizes."""

    __slots__ = ()


def _cases(stream: ConditionalStream, policy: NetworkPolicy, size: int = 256) -> Cases:
    """Return states after 300 steps of a rule."""
    batch = StepBatch(stream, size, policy.options)
    rule, actions = ConditionalRule("shortest-remaining"), np.zeros((size, batch.units), np.int64)
    steps = batch.reset(0)
    for _ in range(300):
        rule.choose(batch, actions)
        steps = batch.step(actions)
    mask = steps.mask.reshape(size, batch.units, -1).copy()
    ready = np.array(batch.tables.sim.kind["ready"], np.int64)
    return Cases(
        (steps.observation.copy(), mask, ready, np.array(stream.problem.cluster.batch, np.int64))
    )


@njit_noalloc
def choose_again(
    network: Network,
    seen: Numbers,
    mask: BoolArray,
    ready: IntArray,
    capacity: IntArray,
    remaining: IntArray,
    space: Numbers,
    action: IntArray,
    times: int,
) -> None:
    """Choose actions for one case after the other."""
    for i in range(times):
        at = i % len(seen)
        for k in range(len(remaining)):
            remaining[k] = ready[at, k]
        choose(network, seen[at], mask[at], remaining, capacity, space, action)


def _compiled(network: Network, cases: Cases, times: int) -> float:
    seen, mask, ready, capacity = cases
    remaining, action, space = (
        np.zeros(ready.shape[1], np.int64),
        np.zeros(network.units, np.int64),
        working_space(network),
    )

    def run(count: int) -> None:
        choose_again(network, seen, mask, ready, capacity, remaining, space, action, count)

    run(1)
    return _seconds(lambda: run(times * 10), times * 10)


def _from_python(policy: NetworkPolicy, cases: Cases, times: int) -> float:
    seen, mask, ready, capacity = cases
    policy.act(seen[0], mask[0], ready[0], capacity)

    def run() -> None:
        for i in range(times):
            at = i % len(seen)
            policy.act(seen[at], mask[at], ready[at], capacity)

    return _seconds(run, times)


def _pick(logits: Numbers, mask: BoolArray, ready: IntArray, capacity: IntArray) -> list[int]:
    """Choose actions like `choose`, for runtimes that only return logits."""
    left, kinds, chosen = ready.tolist(), len(ready), []
    for u, row in enumerate(np.where(mask, logits, -np.inf).tolist()):
        allowed = [x if a >= kinds or left[a] > 0 else -np.inf for a, x in enumerate(row)]
        best = max(range(len(allowed)), key=allowed.__getitem__)
        chosen.append(best if allowed[best] > -np.inf else kinds)
        if chosen[-1] < kinds:
            left[chosen[-1]] -= int(capacity[u])
    return chosen


def _with(prefer: Callable[[Numbers], Numbers], cases: Cases, times: int) -> float:
    seen, mask, ready, capacity = cases

    def run() -> None:
        for i in range(times):
            at = i % len(seen)
            _pick(prefer(seen[at]), mask[at], ready[at], capacity)

    return _seconds(run, times)


def _seconds(work: Callable[[], None], times: int) -> float:
    """Return processor seconds per repetition, the best of three runs."""
    spent = []
    for _ in range(3):
        begin = time.process_time()
        work()
        spent.append(time.process_time() - begin)
    return min(spent) / times
