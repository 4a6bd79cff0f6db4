"""The document's network at work: its inputs, its training on HEFT's schedules, and its answers decoded into valid schedules.

Kept as it is: tasks in order of arrival, zero-padded to the largest number; one set of machines; cross entropy plus squared error; Adam. In
its favour: targets are normalised, padding is masked in the loss, and the learning rate is 1e-3 (1e-5 in the document hardly moves
it in as many steps as there is time for here).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from weft.errors import InvalidInput
from weft.formats.model_file import Numbers
from weft.learn.imitation.deepsched.networks import PaperNet
from weft.model import Problem, Schedule
from weft.model.columns import IntArray
from weft.planners.lists.insertion import as_schedule, insert_in_order
from weft.planners.lists.ranks import rank_order
from weft.planners.planner import plan
from weft.sim.kernel.ranks import mean_durations


class Sample(NamedTuple):
    """A problem as the network reads it, and HEFT's schedule; what is padded has machine -1."""

    machines: Numbers  # (3, machines)
    tasks: Numbers  # (tasks, machines + 3)
    machine: IntArray  # (tasks,)
    times: Numbers  # (2, tasks)


def inputs_of(
    problem: Problem, tasks: int, priority: IntArray | None = None
) -> tuple[Numbers, Numbers]:
    """The two inputs, each scaled to about 1: machines (3, p) and tasks (maximum, p + 3), zero-padded.

    All tasks of a problem arrive together, so the order of arrival is the order of the workflow and the arrival 0.
    """
    if problem.n > tasks:
        raise InvalidInput(
            f"workflow '{problem.name}' has {problem.n} tasks; this network was made for {tasks} at most"
        )
    c, w = problem.cluster, problem.workflow
    machines = np.stack(
        [c.cores / 8, c.speed / c.speed.mean(), np.minimum(c.memory, 64e9) / 64e9]
    ).astype(np.float32)
    mean = float(mean_durations(problem).mean()) or 1.0
    durations = problem.durations()
    rows = np.zeros((tasks, problem.p + 3), np.float32)
    rows[: problem.n, 1 : problem.p + 1] = (
        np.where(np.isfinite(durations), durations, 0.0)[w.order] / mean
    )
    rows[: problem.n, problem.p + 1] = 0.0 if priority is None else priority[w.order] / 10
    rows[: problem.n, problem.p + 2] = w.memory[w.order] / 64e9
    return machines, rows


def sample_of(problem: Problem, tasks: int) -> Sample:
    """A sample with HEFT's answers; times are shares of its makespan."""
    machines, rows = inputs_of(problem, tasks)
    heft, order = plan(problem, "heft").schedule, problem.workflow.order
    machine = np.full(tasks, -1, np.int64)
    times = np.zeros((2, tasks), np.float32)
    machine[: problem.n] = heft.device[order]
    times[:, : problem.n] = np.stack([heft.start, heft.finish])[:, order] / (heft.makespan or 1.0)
    return Sample(machines, rows, machine, times)


def untrained(tasks: int, machines: int, *, seed: int = 0) -> PaperNet:
    """The network before its first lesson."""
    torch.manual_seed(seed)
    return PaperNet(tasks, machines)


def train_paper(
    samples: Sequence[Sample],
    *,
    epochs: int = 100,
    batch: int = 8,
    learning_rate: float = 1e-3,
    seed: int = 0,
    watch: Callable[[int, float], None] | None = None,
) -> PaperNet:
    """Train on the samples, again and again, in a new order every epoch; the rate halves every fifth of the epochs."""
    net = untrained(len(samples[0].machine), samples[0].machines.shape[1], seed=seed)
    optimiser = torch.optim.Adam(net.parameters(), lr=learning_rate)
    falling = torch.optim.lr_scheduler.StepLR(optimiser, max(1, epochs // 5), gamma=0.5)
    columns = [torch.as_tensor(np.stack(column)) for column in zip(*samples, strict=True)]
    for epoch in range(epochs):
        total = 0.0
        for chosen in torch.split(torch.randperm(len(samples)), batch):
            loss = paper_loss(net, *(column[chosen] for column in columns))
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            total += loss.item() * len(chosen)
        falling.step()
        if watch is not None:
            watch(epoch + 1, total / len(samples))
    return net


def paper_loss(
    net: PaperNet, machines: Tensor, tasks: Tensor, machine: Tensor, times: Tensor
) -> Tensor:
    """Cross entropy of the machine plus mean squared error of start and finish, over the tasks that are there."""
    logits, found = net(machines, tasks)
    there = (machine >= 0)[:, None].expand_as(found)
    return nn.functional.cross_entropy(logits, machine, ignore_index=-1) + nn.functional.mse_loss(
        found[there], times[there]
    )


@torch.inference_mode()
def paper_answer(net: PaperNet, machines: Numbers, tasks: Numbers) -> tuple[Numbers, Numbers]:
    """(machines, tasks) logits and (2, tasks) times of one problem."""
    logits, times = net(torch.from_numpy(machines)[None], torch.from_numpy(tasks)[None])
    return logits[0].numpy(), times[0].numpy()


def schedule_of(problem: Problem, logits: Numbers, times: Numbers) -> Schedule:
    """Decode an answer: the likeliest machine that can run a task, tasks in the order of predicted start, parents first, exact times."""
    order = problem.workflow.order
    can = np.isfinite(problem.pace)[problem.row[order]]
    device, start = np.zeros(problem.n, np.int64), np.zeros(problem.n)
    device[order] = np.where(can, logits[:, : problem.n].T, -np.inf).argmax(axis=1)
    start[order] = times[0, : problem.n]
    return as_schedule(insert_in_order(problem.arrays, rank_order(problem, -start), device))


def paper_schedule(problem: Problem, net: PaperNet) -> Schedule:
    """Plan with the document's network."""
    return schedule_of(problem, *paper_answer(net, *inputs_of(problem, net.tasks)))
