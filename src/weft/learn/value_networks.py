"""Networks with two hidden layers and one output, in torch and as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn

from weft.learn.settings import Count, Positive, Settings
from weft.policies.q_network import ARRAYS, NetworkArrays
from weft.typed import typed_dataclass


class ValueNetworks(nn.Module):
    """Several networks of one shape, see `QNetwork`."""

    def __init__(self, networks: int, features: int, hidden: int) -> None:
        super().__init__()
        self.nets = nn.ModuleList(
            nn.Sequential(
                nn.Linear(features, hidden),
                nn.ReLU(),
                nn.Linear(hidden, hidden),
                nn.ReLU(),
                nn.Linear(hidden, 1, bias=False),
            )
            for _ in range(networks)
        )

    def arrays(self) -> NetworkArrays:
        """Return the arrays of the compiled networks."""
        stacked = zip(*(_columns(net) for net in self.nets), strict=True)
        return {
            name: np.stack([value.detach().numpy().astype(np.float32) for value in values])
            for name, values in zip(ARRAYS, stacked, strict=True)
        }


def _columns(net: nn.Module) -> tuple[Tensor, ...]:
    """Return views of the parameters of one network, in the order of `ARRAYS`."""
    w1, b1, w2, b2, w3 = net.parameters()
    return w1.T, b1, w2.T, b2, w3[0]


@typed_dataclass(frozen=True, kw_only=True)
class FitSettings(Settings):
    """AdamW with a learning rate that falls to 0 along a cosine.

    Parameters
    ----------
    hidden : units per hidden layer
    epochs : passes over all samples, in batches of about `batch`
    rate, decay : first learning rate, and decay of the weights
    """

    hidden: Count = 32
    epochs: Count = 60
    rate: Positive = 2e-3
    decay: float = 1e-4
    batch: Count = 256


def fit_network(
    net: nn.Module, samples: int, loss_of: Callable[[Tensor], Tensor], settings: FitSettings
) -> Iterator[float]:
    """Minimise the mean of `loss_of(rows)`; yield the mean loss during each epoch."""
    batches = -(-samples // settings.batch)
    optimizer = torch.optim.AdamW(net.parameters(), lr=settings.rate, weight_decay=settings.decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.epochs * batches)
    for _ in range(settings.epochs):
        total = 0.0
        for rows in torch.randperm(samples).chunk(batches):
            loss = loss_of(rows)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            optimizer.step()
            schedule.step()
            total += loss.item() * len(rows)
        yield total / samples
