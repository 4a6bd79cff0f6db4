"""Two networks that imitate HEFT, in torch: `PaperNet` as the document has it, `DeepNet` ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from weft.planners.imitation.deepsched.features import PAIR_FEATURES, TASK_FEATURES
from weft.planners.imitation.deepsched.network import HEADS, DeepNetwork, network_of

MACHINE_FEATURES = 3
"""Cores, frequency, memory."""


class PaperNet(nn.Module):
    """The document's network (sections III.D and IV.C), with its fixed maxima.

    Machines: Conv1D over cores, frequency and memory, then a fully connected layer. Tasks: one bidirectional GRU over arrival, burst on
    every processor, priority and memory, of which only the last state is read, then a fully connected layer. Both give one number a
    task; stacked, these two are all that the Conv1D classifier (machine) and the Conv1D regressor (start, finish) see of it. GRU of 16
    units and the stacking are those of the public code; one channel and kernels of size 1 are our reading.

    Examples
    --------
    >>> machine, times = PaperNet(tasks=20, machines=4)(torch.zeros(2, 3, 4), torch.zeros(2, 20, 7))
    >>> tuple(machine.shape), tuple(times.shape)
    ((2, 4, 20), (2, 2, 20))
    """

    def __init__(self, tasks: int, machines: int, *, hidden: int = 16) -> None:
        super().__init__()
        self.tasks, self.machines = tasks, machines
        self.machine_conv = nn.Conv1d(MACHINE_FEATURES, 1, 1)
        self.machine_full = nn.Linear(machines, tasks)
        self.task_gru = nn.GRU(machines + 3, hidden, batch_first=True, bidirectional=True)
        self.task_full = nn.Linear(2 * hidden, tasks)
        self.classifier = nn.Conv1d(2, machines, 1)
        self.regressor = nn.Conv1d(2, 2, 1)

    def forward(self, machines: Tensor, tasks: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, 3, machines) and (batch, tasks, machines + 3) -> (batch, machines, tasks) and (batch, 2, tasks)."""
        seen = self.machine_full(torch.relu(self.machine_conv(machines)).flatten(1))
        _, last = self.task_gru(tasks)
        read = self.task_full(torch.cat([last[0], last[1]], dim=1))
        fused = torch.stack([torch.relu(seen), torch.relu(read)], dim=1)
        return self.classifier(fused), self.regressor(fused)


class DeepNet(nn.Module):
    """Ours: an encoder of tasks and a scorer of devices; see `weft.planners.imitation.deepsched.network`."""

    def __init__(self, mean: Any, deviation: Any, *, wide: int = 32, hidden: int = 16) -> None:
        super().__init__()
        features = len(TASK_FEATURES)
        self.register_buffer("mean", torch.as_tensor(np.asarray(mean, np.float32)))
        self.register_buffer(
            "scale",
            torch.as_tensor((1.0 / np.maximum(np.asarray(deviation), 1e-3)).astype(np.float32)),
        )
        self.first, self.second = nn.Linear(features, wide), nn.Linear(wide, wide)
        self.out = nn.Linear(wide, HEADS + hidden)
        self.skip = nn.Linear(features, HEADS + hidden, bias=False)
        self.pair = nn.Linear(len(PAIR_FEATURES), hidden, bias=False)
        self.vote = nn.Linear(hidden, 1, bias=False)
        self.direct = nn.Linear(len(PAIR_FEATURES), 1, bias=False)
        nn.init.zeros_(self.skip.weight)

    def encode(self, tasks: Tensor) -> tuple[Tensor, Tensor]:
        """(n, features) -> (n, 3) priority, start and finish, and (n, hidden) context."""
        x = (tasks - self.get_buffer("mean")) * self.get_buffer("scale")
        out = self.out(torch.relu(self.second(torch.relu(self.first(x))))) + self.skip(x)
        return out[:, :HEADS], out[:, HEADS:]

    def score(self, context: Tensor, pairs: Tensor) -> Tensor:
        """(k, hidden) and (k, pair features, p) -> (k, p)."""
        hidden = torch.relu(context[:, :, None] + torch.matmul(self.pair.weight, pairs))
        return (torch.matmul(self.vote.weight, hidden) + torch.matmul(self.direct.weight, pairs))[
            :, 0
        ]

    def network(self) -> DeepNetwork:
        """Return the arrays compiled code reads."""

        def numbers(tensor: Tensor) -> Any:
            return tensor.detach().cpu().numpy().astype(np.float32)

        return network_of(
            {
                "mean": numbers(self.get_buffer("mean")),
                "scale": numbers(self.get_buffer("scale")),
                "first": numbers(self.first.weight).T,
                "first_bias": numbers(self.first.bias),
                "second": numbers(self.second.weight).T,
                "second_bias": numbers(self.second.bias),
                "out": numbers(self.out.weight).T,
                "skip": numbers(self.skip.weight).T,
                "out_bias": numbers(self.out.bias),
                "pair": numbers(self.pair.weight),
                "vote": numbers(self.vote.weight)[0],
                "direct": numbers(self.direct.weight)[0],
            }
        )


def net_of(network: DeepNetwork) -> DeepNet:
    """Return the torch module of a network: the same numbers."""
    made = DeepNet(
        network.mean, 1.0 / network.scale, wide=network.first_bias.size, hidden=network.vote.size
    )
    with torch.no_grad():
        made.get_buffer("scale").copy_(torch.as_tensor(network.scale))
        for name, layer in (("first", made.first), ("second", made.second), ("out", made.out)):
            layer.weight.copy_(torch.as_tensor(getattr(network, name).T.copy()))
            layer.bias.copy_(torch.as_tensor(getattr(network, f"{name}_bias")))
        made.skip.weight.copy_(torch.as_tensor(network.skip.T.copy()))
        made.pair.weight.copy_(torch.as_tensor(network.pair))
        made.vote.weight.copy_(torch.as_tensor(network.vote[None]))
        made.direct.weight.copy_(torch.as_tensor(network.direct[None]))
    return made
