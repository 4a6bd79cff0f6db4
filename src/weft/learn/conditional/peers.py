"""Peers of our own learner and forward pass, for `weft bench --conditional`: sb3-contrib, torch and onnxruntime on the very same task."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weft.learn.ppo import PpoSettings
from weft.model.columns import BoolArray, IntArray
from weft.model.conditional_stream import ConditionalStream
from weft.policies.conditional.networks import Network, Numbers, arrays_of
from weft.policies.conditional.onnx_export import export_onnx
from weft.sim.vector.batch import StepBatch, StepOptions


def reference_rate(
    stream: ConditionalStream, samples: int, settings: PpoSettings, *, size: int
) -> float:
    """Samples a second of sb3-contrib's MaskablePPO with our settings."""
    from sb3_contrib import MaskablePPO

    fleet = StepBatch(stream, size, StepOptions(idle="event", window=500.0))
    model = MaskablePPO(
        "MlpPolicy",
        _vector(fleet),
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


def _vector(fleet: StepBatch) -> Any:
    """The compiled simulations as Stable-Baselines3 wants them, so that its learner, not our loop in Python, is timed."""
    from gymnasium import spaces
    from stable_baselines3.common.vec_env import VecEnv

    class Vector(VecEnv):
        def __init__(self) -> None:
            seen = spaces.Box(0.0, 1.0, (fleet.observation_size,), np.float32)
            super().__init__(
                fleet.size, seen, spaces.MultiDiscrete(np.full(fleet.units, fleet.kinds + 1))
            )
            self.mask = np.zeros((fleet.size, fleet.units * (fleet.kinds + 1)), np.bool_)

        def reset(self) -> Numbers:
            steps = fleet.reset(0)
            self.mask = steps.mask.copy()
            return steps.observation.copy()

        def step_async(self, actions: IntArray) -> None:
            self.actions = actions

        def step_wait(self) -> tuple[Numbers, Numbers, BoolArray, list[dict[str, Any]]]:
            steps = fleet.step(self.actions)
            self.mask = steps.mask.copy()
            told: list[dict[str, Any]] = [{} for _ in range(fleet.size)]
            for s in np.flatnonzero(steps.done).tolist():
                told[s]["terminal_observation"] = fleet.final_observation[s].copy()
            return steps.observation.copy(), steps.reward.copy(), steps.done.copy(), told

        def env_method(self, method_name: str, *_: Any, **__: Any) -> list[BoolArray]:
            assert method_name == "action_masks"
            return list(self.mask)

        def has_attr(self, attr_name: str) -> bool:
            return attr_name == "action_masks"

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:  # noqa: ARG002
            return [None] * fleet.size if attr_name == "render_mode" else []

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            raise NotImplementedError

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:  # noqa: ARG002
            return [False] * fleet.size

        def close(self) -> None:
            pass

    return Vector()


def with_torch(network: Network) -> Callable[[Numbers], Numbers]:
    """The network in torch: from an observation to preferences (units, actions)."""
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


def with_onnxruntime(network: Network) -> Callable[[Numbers], Numbers]:
    """The same in onnxruntime, from the file weft exports."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.onnx"
        export_onnx(network, file)
        session = onnxruntime.InferenceSession(
            str(file), options, providers=["CPUExecutionProvider"]
        )

    def prefer(observation: Numbers) -> Numbers:
        logits: Numbers = session.run(["logits"], {"observation": observation[None]})[0][0]
        return logits

    return prefer
