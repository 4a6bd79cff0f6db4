"""Peers for `weft bench --conditional`: sb3-contrib, torch and onnxruntime."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weft.experiments.onnx_session import onnx_session
from weft.learn.ppo import PpoSettings
from weft.model.columns import BoolArray, IntArray, Numbers
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.network_policy import NetworkPolicy
from weft.policies.conditional.networks import Network, arrays_of
from weft.policies.onnx_export import export_onnx
from weft.sim.vector.batch import StepBatch, StepOptions


def reference_rate(
    stream: ConditionalStream, samples: int, settings: PpoSettings, *, size: int
) -> float:
    """Return the samples per second of sb3-contrib's MaskablePPO with our settings."""
    from sb3_contrib import MaskablePPO

    batch = StepBatch(stream, size, StepOptions(idle="event", window=500.0))
    model = MaskablePPO(
        "MlpPolicy",
        _vector(batch),
        n_steps=settings.rollout,
        batch_size=settings.minibatch,
        n_epochs=settings.epochs,
        policy_kwargs={"net_arch": list(settings.hidden)},
        seed=0,
        device="cpu",
    )
    begin = time.process_time()
    model.learn(samples)
    return int(model.num_timesteps) / (time.process_time() - begin)


def _vector(batch: StepBatch) -> Any:
    """Wrap the compiled simulations for Stable-Baselines3, to time its learner."""
    from gymnasium import spaces
    from stable_baselines3.common.vec_env import VecEnv

    class Vector(VecEnv):
        def __init__(self) -> None:
            seen = spaces.Box(0.0, 1.0, (batch.observation_size,), np.float32)
            super().__init__(
                batch.size, seen, spaces.MultiDiscrete(np.full(batch.units, batch.kinds + 1))
            )
            self.mask = np.zeros((batch.size, batch.units * (batch.kinds + 1)), np.bool_)

        def reset(self) -> Numbers:
            steps = batch.reset(0)
            self.mask = steps.mask.copy()
            return steps.observation.copy()

        def step_async(self, actions: IntArray) -> None:
            self.actions = actions

        def step_wait(self) -> tuple[Numbers, Numbers, BoolArray, list[dict[str, Any]]]:
            steps = batch.step(self.actions)
            self.mask = steps.mask.copy()
            infos: list[dict[str, Any]] = [{} for _ in range(batch.size)]
            for s in np.flatnonzero(steps.done).tolist():
                infos[s]["terminal_observation"] = batch.final_observation[s].copy()
            return steps.observation.copy(), steps.reward.copy(), steps.done.copy(), infos

        def env_method(self, method_name: str, *_: Any, **__: Any) -> list[BoolArray]:
            assert method_name == "action_masks"
            return list(self.mask)

        def has_attr(self, attr_name: str) -> bool:
            return attr_name == "action_masks"

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [None] * batch.size if attr_name == "render_mode" else []

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            raise NotImplementedError

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False] * batch.size

        def close(self) -> None:
            pass

    return Vector()


def with_torch(network: Network) -> Callable[[Numbers], Numbers]:
    """Return the network in torch: observation -> preferences (units, actions)."""
    torch.set_num_threads(1)
    arrays = arrays_of(network)
    layers: list[torch.nn.Module] = []
    for i in range(len(network.sizes) - 1):
        linear = torch.nn.Linear(int(network.sizes[i]), int(network.sizes[i + 1]))
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(arrays[f"{i}.weight"]))
            linear.bias.copy_(torch.from_numpy(arrays[f"{i}.bias"]))
        layers += [linear] if i == len(network.sizes) - 2 else [linear, torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers)
    mean, scale = torch.from_numpy(network.mean), torch.from_numpy(network.scale)

    def prefer(observation: Numbers) -> Numbers:
        with torch.inference_mode():
            logits: Numbers = net(
                ((torch.from_numpy(observation) - mean) * scale).clamp_(-10, 10)
            ).numpy()
        return logits.reshape(network.units, network.actions)

    return prefer


def with_onnxruntime(policy: NetworkPolicy) -> Callable[[Numbers], Numbers]:
    """Return the network in onnxruntime, from the file weft exports."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.onnx"
        export_onnx(policy, file)
        session = onnx_session(file)

    def prefer(observation: Numbers) -> Numbers:
        logits: Numbers = session.run(["logits"], {"observation": observation[None]})[0][0]
        return logits

    return prefer
