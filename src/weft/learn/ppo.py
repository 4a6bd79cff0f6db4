"""Proximal policy optimisation with invalid-action masking, in one file.

Schulman et al. (2017), "Proximal Policy Optimization Algorithms", with generalised advantage
estimation (Schulman et al. 2016) and masked actions (Huang and Ontañón 2022, "A Closer Look at
Invalid Action Masking in Policy Gradient Algorithms", section 3). An action is a vector: every unit
picks one of its allowed actions, and units without a choice (busy ones) add nothing to the
probability of the vector. Time is continuous, so the discount is per elapsed time, not per step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from weft.learn.settings import Bound, Count, Positive, Settings
from weft.model.columns import BoolArray, FloatArray, IntArray, Numbers
from weft.policies.conditional.networks import CLIP
from weft.progress import Progress, silent
from weft.rng import generator
from weft.sim.kernel.jit import njit
from weft.typed import typed_dataclass

FORBIDDEN = -1e9
"""Logit of a masked action: probability 0 in float32 without NaN (0 * -inf would be one)."""
IMITATION_RATE = 1e-3
"""Learning rate while a teacher is imitated, which allows larger steps than improvement."""
START_WEIGHT = 1e7
"""Weight, in observations, of the input scaling of a `start` network: it hardly changes."""

Transition = tuple[Numbers, BoolArray, Numbers, Numbers, BoolArray, BoolArray, Numbers]
"""(observation, mask, reward, elapsed, done, truncated, final observation) of all copies."""


class VectorEnv(Protocol):
    """Copies of one environment, stepped together; a copy that ends restarts.

    A copy is `done` when nothing follows, or `truncated` when something would; the final
    observation is the last one before the restart. Optional attributes:

    - `remaining` (envs, actions - 1) and `capacity` (units,): stocks that units share, at the start
      of a step, and the most that a unit takes from one. Later units see the rest.
    - `visible`: how many of the first numbers the actor observes; the critic observes all (Pinto et
      al. 2018, "Asymmetric Actor Critic").
    - `finished`: ends the training once true.
    """

    envs: int
    observation_size: int
    units: int
    actions: int

    def reset(self, seed: int) -> tuple[Numbers, BoolArray]:
        """Start all copies; return their observations and masks.

        Their shapes are (envs, size) and (envs, units, actions).
        """
        ...

    def step(self, actions: IntArray) -> Transition:
        """Apply actions (envs, units)."""
        ...


@typed_dataclass(frozen=True, kw_only=True)
class PpoSettings(Settings, noun="PPO"):
    """Training settings.

    Attributes
    ----------
    samples : steps over all copies of the environment
    imitation : number of first steps that follow the teacher, if there is one
    warm_up : number of first steps in which only the critic learns, for use with `start`
    rollout : steps of each copy between two updates
    horizon : time constant of the discount exp(-elapsed / horizon); inf for none
    trace : lambda of GAE, per step
    learning_rate, entropy : first and last value, linear in between
    evaluations : number of equally spaced evaluations; the best network is kept
    """

    samples: Count = 5_000_000
    imitation: int = 0
    warm_up: int = 0
    rollout: Count = 64
    epochs: Count = 4
    minibatch: Count = 4096
    hidden: tuple[int, ...] = (64, 64)
    horizon: Positive = 500.0
    trace: Annotated[float, Bound(0, 1)] = 0.95
    clip: float = 0.2
    learning_rate: tuple[float, float] = (2e-3, 1e-5)
    entropy: tuple[float, float] = (5e-3, 0.0)
    value_weight: float = 0.5
    gradient_norm: float = 0.5
    evaluations: int = 20


@dataclass
class PpoProgress:
    """State and result of a training: the best weights so far and the learning curve."""

    weights: dict[str, Numbers]
    seed: int
    settings: PpoSettings
    samples: int = 0
    cpu_seconds: float = 0.0
    score: float = math.nan
    curve: list[dict[str, float]] = field(default_factory=list)
    interrupted: bool = False


def _layers(sizes: list[int], last_gain: float) -> nn.Sequential:
    parts: list[nn.Module] = []
    for i, (a, b) in enumerate(pairwise(sizes)):
        linear = nn.Linear(a, b)
        last = i == len(sizes) - 2
        nn.init.orthogonal_(linear.weight, last_gain if last else math.sqrt(2))
        nn.init.zeros_(linear.bias)
        parts += [linear] if last else [linear, nn.ReLU()]  # tanh costs more than the products
    return nn.Sequential(*parts)


class ActorCritic(nn.Module):
    """Two networks on observations standardised by running mean and deviation."""

    def __init__(
        self, inputs: int, visible: int, units: int, actions: int, hidden: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.visible, self.units, self.actions = visible, units, actions
        self.actor = _layers([visible, *hidden, units * actions], 0.01)
        self.critic = _layers([inputs, *hidden, 1], 1.0)
        self.mean = torch.zeros(inputs)
        self.deviation = torch.ones(inputs)
        self.seen = 0.0

    def observe(self, batch: Tensor) -> None:
        """Update mean and deviation by a batch (Chan et al. 1983, parallel variance)."""
        n, total = float(len(batch)), self.seen + len(batch)
        mean = batch.mean(0)
        variance = ((batch - mean) ** 2).mean(0)  # three times as fast as Tensor.var over columns
        shift = mean - self.mean
        merged = (
            self.deviation**2 * self.seen + variance * n + shift**2 * self.seen * n / total
        ) / total
        self.mean = self.mean + shift * (n / total)
        self.deviation = torch.sqrt(merged + 1e-10)
        self.seen = total

    def scaled(self, observation: Tensor) -> Tensor:
        """Standardise observations, clipped."""
        limit = float(CLIP)
        return ((observation - self.mean) / (self.deviation + 1e-6)).clamp_(-limit, limit)

    def prefer(self, scaled: Tensor) -> Tensor:
        """Return the logits (batch, units, actions)."""
        logits: Tensor = self.actor(scaled[:, : self.visible])
        return logits.view(-1, self.units, self.actions)

    def begin_with(self, arrays: dict[str, Numbers]) -> None:
        """Load actor weights and input scaling; critic-only inputs keep updating theirs."""
        with torch.no_grad():
            self.mean[: self.visible] = torch.from_numpy(arrays["input.mean"])
            self.deviation[: self.visible] = torch.from_numpy(1.0 / arrays["input.scale"] - 1e-6)
            self.seen = START_WEIGHT
            for i, linear in enumerate(part for part in self.actor if isinstance(part, nn.Linear)):
                linear.weight.copy_(torch.from_numpy(arrays[f"{i}.weight"]))
                linear.bias.copy_(torch.from_numpy(arrays[f"{i}.bias"]))

    def weights(self) -> dict[str, Numbers]:
        """Return the actor as arrays: "0.weight", "0.bias", ..., and its input scaling."""
        arrays = {
            "input.mean": self.mean[: self.visible],
            "input.scale": 1.0 / (self.deviation[: self.visible] + 1e-6),
        }
        linears = [part for part in self.actor if isinstance(part, nn.Linear)]
        for i, linear in enumerate(linears):
            arrays |= {f"{i}.weight": linear.weight, f"{i}.bias": linear.bias}
        return {name: tensor.detach().numpy().astype(np.float32) for name, tensor in arrays.items()}


@njit
def sample(
    logits: Numbers,
    mask: BoolArray,
    uniform: FloatArray,
    remaining: IntArray,
    capacity: IntArray,
    action: IntArray,
    log_prob: FloatArray,
) -> None:
    """Draw an action per unit, in order, from the masked softmax.

    Units that share stocks see what the units before them left: `mask` is narrowed in place to the
    actions really available, so that the update recomputes the same probabilities.
    """
    envs, units, actions = mask.shape
    stocks = remaining.shape[1]
    for e in range(envs):
        log_prob[e] = 0.0
        for u in range(units):
            offered = False
            for a in range(actions):
                mask[e, u, a] = mask[e, u, a] and (a >= stocks or remaining[e, a] > 0)
                offered = offered or mask[e, u, a]
            if not offered:
                mask[e, u, actions - 1] = True  # stocks are empty: only the last action, wait
            top = -np.inf
            for a in range(actions):
                if mask[e, u, a] and logits[e, u, a] > top:
                    top = logits[e, u, a]
            total = 0.0
            for a in range(actions):
                if mask[e, u, a]:
                    total += np.exp(logits[e, u, a] - top)
            left = uniform[e, u] * total
            chosen = -1
            for a in range(actions):
                if mask[e, u, a] and (left >= 0.0 or chosen < 0):
                    chosen = a
                    left -= np.exp(logits[e, u, a] - top)
            action[e, u] = chosen
            log_prob[e] += logits[e, u, chosen] - top - np.log(total)
            if chosen < stocks:
                remaining[e, chosen] -= capacity[u]


@njit
def follow(mask: BoolArray, remaining: IntArray, capacity: IntArray, action: IntArray) -> None:
    """Narrow `mask` as `sample` does; unavailable actions become the last one."""
    envs, units, actions = mask.shape
    stocks = remaining.shape[1]
    for e in range(envs):
        for u in range(units):
            for a in range(stocks):
                mask[e, u, a] = mask[e, u, a] and remaining[e, a] > 0
            chosen = action[e, u]
            if not mask[e, u, chosen]:
                chosen = action[e, u] = actions - 1
                mask[e, u, chosen] = True
            if chosen < stocks:
                remaining[e, chosen] -= capacity[u]


@njit
def advantages(
    reward: FloatArray,
    discount: FloatArray,
    value: FloatArray,
    next_value: FloatArray,
    ended: BoolArray,
    trace: float,
    out: FloatArray,
) -> None:
    """Estimate advantages (GAE, Schulman et al. 2016, eq. 16), discounted per step.

    Arrays are (steps, envs). `next_value` is the value of the next observation: the final one
    before a restart of a truncated copy, and 0 for a copy that is done.
    """
    steps, envs = reward.shape
    for e in range(envs):
        ahead = 0.0
        for t in range(steps - 1, -1, -1):
            delta = reward[t, e] + discount[t, e] * next_value[t, e] - value[t, e]
            ahead = delta if ended[t, e] else delta + discount[t, e] * trace * ahead
            out[t, e] = ahead


class _RolloutBuffer:
    """Buffers of one rollout, made once."""

    def __init__(self, env: VectorEnv, steps: int) -> None:
        shape = (steps, env.envs)
        self.observation = np.zeros((*shape, env.observation_size), np.float32)
        self.mask = np.zeros((*shape, env.units, env.actions), np.bool_)
        self.action = np.zeros((*shape, env.units), np.int64)
        self.log_prob, self.reward, self.elapsed, self.discount = (
            np.zeros(shape) for _ in range(4)
        )
        self.value, self.next_value, self.advantage = (np.zeros(shape) for _ in range(3))
        self.ended = np.zeros(shape, np.bool_)


class _Returns:
    """Running mean and deviation of the returns.

    The critic predicts normalised returns, so that one learning rate serves every reward scale.
    """

    def __init__(self) -> None:
        self.mean, self.square, self.weight = 0.0, 0.0, 0.0

    @property
    def deviation(self) -> float:
        return math.sqrt(max(self.square - self.mean**2, 1e-8)) if self.weight else 1.0

    def observe(self, returns: FloatArray) -> None:
        self.weight = 0.95 * self.weight + 0.05
        step = 0.05 / self.weight
        self.mean += step * (float(returns.mean()) - self.mean)
        self.square += step * (float((returns**2).mean()) - self.square)


def train(
    env: VectorEnv,
    settings: PpoSettings = PpoSettings(),  # noqa: B008  # frozen
    *,
    seed: int = 0,
    evaluate: Callable[[dict[str, Numbers]], float] | None = None,
    progress: Progress[PpoProgress] = silent,
    teacher: Callable[[], IntArray] | None = None,
    start: dict[str, Numbers] | None = None,
) -> PpoProgress:
    """Train a masked policy; the same seed gives the same curve.

    Parameters
    ----------
    evaluate : maps weights to a score (lower is better); the best weights are kept. Without it,
        the last weights are kept.
    progress : called after every update. A `KeyboardInterrupt` anywhere in the loop ends the
        training early with the best weights so far and `interrupted` set.
    teacher : returns the actions (envs, units) of a rule at the current state, which is imitated
        for the first `settings.imitation` steps
    start : weights of a network of the same sizes to continue from (see `PpoProgress.weights`)
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rng = generator(seed, "ppo")
    net = ActorCritic(
        env.observation_size,
        getattr(env, "visible", env.observation_size),
        env.units,
        env.actions,
        settings.hidden,
    )
    if start is not None:
        net.begin_with(start)
    optimiser = torch.optim.Adam(
        net.parameters(), lr=settings.learning_rate[0], eps=1e-5, foreach=True
    )
    buffer, returns = _RolloutBuffer(env, settings.rollout), _Returns()
    observation, mask = env.reset(seed)
    net.observe(torch.from_numpy(np.array(observation, np.float32)))
    result = PpoProgress(net.weights(), seed, settings)
    per_update = settings.rollout * env.envs
    updates = max(1, math.ceil(settings.samples / per_update))
    marks = (
        {round((i + 1) * updates / settings.evaluations) for i in range(settings.evaluations)}
        if settings.evaluations
        else {updates}
    )
    imitated = settings.imitation // per_update if teacher is not None else 0
    began = time.process_time()
    try:
        for update in range(1, updates + 1):
            guide = teacher if update <= imitated else None
            share = max(0, update - imitated - 1) / max(1, updates - imitated)
            observation, mask = _collect(
                env, net, buffer, returns, observation, mask, settings, rng, guide
            )
            phase = "value" if result.samples < settings.warm_up else "improve"
            phase = "imitate" if guide is not None else phase
            entry = _improve(net, optimiser, buffer, returns, settings, share, rng, phase=phase)
            net.observe(torch.from_numpy(buffer.observation.reshape(-1, env.observation_size)))
            result.samples += per_update
            result.cpu_seconds = time.process_time() - began
            entry |= {
                "samples": float(result.samples),
                "reward_rate": _rate(buffer),
                "cpu_seconds": result.cpu_seconds,
            }
            if update in marks or update == updates:
                _keep_best(result, net, entry, evaluate)
            result.curve.append(entry)
            progress(result)
            if getattr(env, "finished", False):
                break
    except KeyboardInterrupt:
        result.interrupted = True
    return result


def _collect(
    env: VectorEnv,
    net: ActorCritic,
    buffer: _RolloutBuffer,
    returns: _Returns,
    observation: Numbers,
    mask: BoolArray,
    settings: PpoSettings,
    rng: np.random.Generator,
    teacher: Callable[[], IntArray] | None,
) -> tuple[Numbers, BoolArray]:
    """Act for `rollout` steps, then estimate advantages."""
    capacity = np.asarray(getattr(env, "capacity", np.ones(env.units)), np.int64)
    none = np.zeros((env.envs, 0), np.int64)
    b = buffer

    def value_of(seen: Numbers) -> Numbers:
        inputs = net.scaled(torch.from_numpy(np.asarray(seen, np.float32)))
        guess: Numbers = net.critic(inputs).numpy()[:, 0]
        return guess.astype(np.float64) * returns.deviation + returns.mean

    with torch.no_grad():
        for t in range(settings.rollout):
            b.observation[t], b.mask[t] = observation, mask
            logits = net.prefer(net.scaled(torch.from_numpy(b.observation[t]))).numpy()
            stocks = np.array(getattr(env, "remaining", none), np.int64)
            if teacher is None:
                uniform = rng.random((env.envs, env.units))
                sample(logits, b.mask[t], uniform, stocks, capacity, b.action[t], b.log_prob[t])
            else:
                b.action[t] = teacher()
                follow(b.mask[t], stocks, capacity, b.action[t])
            b.value[t] = value_of(b.observation[t])
            if t:
                b.next_value[t - 1] = np.where(b.ended[t - 1], b.next_value[t - 1], b.value[t])
            observation, mask, reward, elapsed, done, truncated, last = env.step(b.action[t])
            b.reward[t], b.elapsed[t], b.ended[t] = reward, elapsed, done | truncated
            b.next_value[t] = 0.0
            cut = truncated & ~done
            if cut.any():
                b.next_value[t, cut] = value_of(last[cut])
        final = value_of(observation)
        b.next_value[-1] = np.where(b.ended[-1], b.next_value[-1], final)
    np.exp(-b.elapsed / settings.horizon, out=b.discount)
    advantages(b.reward, b.discount, b.value, b.next_value, b.ended, settings.trace, b.advantage)
    returns.observe(b.advantage + b.value)
    return observation, mask


def _improve(
    net: ActorCritic,
    optimiser: torch.optim.Optimizer,
    buffer: _RolloutBuffer,
    returns: _Returns,
    settings: PpoSettings,
    share: float,
    rng: np.random.Generator,
    *,
    phase: str,
) -> dict[str, float]:
    """Pass over the rollout several times, clipping the objective (PPO, eqs. 7, 9).

    In the `phase` "imitate" the policy loss is the teacher's likelihood; in "value" there is none;
    in "improve" it is that of PPO. `share` is the elapsed share of the training. Returns statistics
    of the last minibatch.
    """
    schedules = settings.learning_rate, settings.entropy
    rate, entropy_weight = (a + (b - a) * share for a, b in schedules)
    if phase == "imitate":
        rate = IMITATION_RATE
    for group in optimiser.param_groups:
        group["lr"] = rate
    size = buffer.log_prob.size
    with torch.no_grad():
        inputs = net.scaled(torch.from_numpy(buffer.observation.reshape(size, -1)))
    forbidden = np.where(buffer.mask, np.float32(0), np.float32(FORBIDDEN))
    penalty = torch.from_numpy(forbidden.reshape(size, net.units, net.actions))
    action = torch.from_numpy(buffer.action.reshape(size, net.units, 1))
    old = torch.from_numpy(buffer.log_prob.reshape(size).astype(np.float32))
    advantage = buffer.advantage.reshape(size)
    scaled_return = ((advantage + buffer.value.reshape(size)) - returns.mean) / returns.deviation
    target = torch.from_numpy(scaled_return.astype(np.float32))
    scaled_advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    normal = torch.from_numpy(scaled_advantage.astype(np.float32))
    for _ in range(settings.epochs):
        order = torch.from_numpy(rng.permutation(size))
        for pick in torch.split(order, settings.minibatch):
            logits = net.prefer(inputs[pick]) + penalty[pick]
            log_probs = torch.log_softmax(logits, -1)
            taken = log_probs.gather(-1, action[pick]).sum((-2, -1))
            ratio_log = taken - old[pick]
            ratio, gain = ratio_log.exp(), normal[pick]
            clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
            policy_loss = -torch.minimum(ratio * gain, clipped * gain).mean()
            if phase == "imitate":
                policy_loss = -taken.mean()
            elif phase == "value":
                policy_loss, entropy_weight = policy_loss * 0.0, 0.0
            entropy = -(log_probs.exp() * log_probs).sum((-2, -1)).mean()
            value_loss = (net.critic(inputs[pick])[:, 0] - target[pick]).square().mean()
            optimiser.zero_grad(set_to_none=True)
            (policy_loss + settings.value_weight * value_loss - entropy_weight * entropy).backward()
            for part in (net.actor, net.critic):  # separate: a noisy critic must not slow the actor
                nn.utils.clip_grad_norm_(part.parameters(), settings.gradient_norm)
            optimiser.step()
    with torch.no_grad():
        return {
            "entropy": float(entropy),
            "value_loss": float(value_loss),
            "divergence": float((ratio - 1 - ratio_log).mean()),
        }


def _rate(buffer: _RolloutBuffer) -> float:
    """Return the reward per unit of time in the last rollout."""
    elapsed = float(buffer.elapsed.sum())
    return float(buffer.reward.sum()) / elapsed if elapsed > 0 else math.nan


def _keep_best(
    result: PpoProgress,
    net: ActorCritic,
    entry: dict[str, float],
    evaluate: Callable[[dict[str, Numbers]], float] | None,
) -> None:
    weights = net.weights()
    score = evaluate(weights) if evaluate is not None else math.nan
    entry["score"] = score
    if evaluate is None or not score >= result.score:  # also while there is no score yet (NaN)
        result.weights, result.score = weights, score
