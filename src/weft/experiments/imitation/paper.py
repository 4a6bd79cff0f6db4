"""The document's network: inputs, training on HEFT's schedules, and decoding.

Decoding yields valid schedules. As in the document: tasks in order of arrival, zero-padded to the
largest number; one set of machines; cross entropy plus squared error; Adam. Changed in its favour:
targets are normalised, padding is masked in the loss, problems are drawn when they are needed and
never repeated, and the learning rate is 1e-3 (with the document's 1e-5 it hardly learns in the
number of steps that is affordable here). The document's tasks have an arrival and a priority; tasks
of a workflow have the earliest time at which they can start, and their upward rank, which is HEFT's
priority.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from weft.errors import InvalidInput
from weft.model import Problem, Schedule
from weft.model.columns import IntArray, Numbers
from weft.planners.lists.heft import insert_in_order
from weft.planners.lists.insertion import as_schedule
from weft.planners.lists.ranks import rank_order
from weft.planners.planner import plan
from weft.progress import Progress, silent
from weft.sim.kernel.ranks import downward_rank, mean_durations, upward_rank

MACHINE_FEATURES = 3
"""Cores, frequency, memory."""


class PaperNet(nn.Module):
    """The document's network (sections III.D and IV.C), with its fixed maxima.

    Machines: Conv1D over cores, frequency and memory, then a fully connected layer. Tasks: one
    bidirectional GRU over arrival, burst on every processor, priority and memory, of which only the
    last state is read, then a fully connected layer. Both give one number per task; stacked, these
    two are all that the Conv1D classifier (machine) and the Conv1D regressor (start, finish) read.
    The GRU of 16 units and the stacking are those of the public code; one channel and kernels of
    size 1 are our interpretation.

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
        """Map (batch, 3, machines) and (batch, tasks, machines + 3) to logits and times.

        Logits are (batch, machines, tasks), times (batch, 2, tasks).
        """
        seen = self.machine_full(torch.relu(self.machine_conv(machines)).flatten(1))
        _, last = self.task_gru(tasks)
        read = self.task_full(torch.cat([last[0], last[1]], dim=1))
        fused = torch.stack([torch.relu(seen), torch.relu(read)], dim=1)
        return self.classifier(fused), self.regressor(fused)


class PaperSample(NamedTuple):
    """Inputs of the network and HEFT's schedule; padding has machine -1."""

    machines: Numbers  # (3, machines)
    tasks: Numbers  # (tasks, machines + 3)
    machine: IntArray  # (tasks,)
    times: Numbers  # (2, tasks)


def inputs_of(problem: Problem, tasks: int) -> tuple[Numbers, Numbers]:
    """Return machines (3, p) and tasks (maximum, p + 3), scaled and zero-padded.

    Values are about 1.

    Arrival is the downward rank and priority the upward rank, relative to the critical path.
    """
    if problem.n > tasks:
        raise InvalidInput(
            f"workflow '{problem.name}' has {problem.n} tasks; "
            f"this network was made for {tasks} at most"
        )
    c, w = problem.cluster, problem.workflow
    machines = np.stack(
        [c.cores / 8, c.speed / c.speed.mean(), np.minimum(c.memory, 64e9) / 64e9]
    ).astype(np.float32)
    mean = float(mean_durations(problem).mean()) or 1.0
    durations = problem.durations()
    early, late = downward_rank(problem), upward_rank(problem)
    longest = float(late.max(initial=0.0)) or 1.0
    rows = np.zeros((tasks, problem.p + 3), np.float32)
    rows[: problem.n, 0] = early[w.order] / longest
    rows[: problem.n, 1 : problem.p + 1] = (
        np.where(np.isfinite(durations), durations, 0.0)[w.order] / mean
    )
    rows[: problem.n, problem.p + 1] = late[w.order] / longest
    rows[: problem.n, problem.p + 2] = w.memory[w.order] / 64e9
    return machines, rows


def sample_of(problem: Problem, tasks: int) -> PaperSample:
    """Return a sample with HEFT's schedule; times are shares of its makespan."""
    machines, rows = inputs_of(problem, tasks)
    heft, order = plan(problem, "heft").schedule, problem.workflow.order
    machine = np.full(tasks, -1, np.int64)
    times = np.zeros((2, tasks), np.float32)
    machine[: problem.n] = heft.device[order]
    times[:, : problem.n] = np.stack([heft.start, heft.finish])[:, order] / (heft.makespan or 1.0)
    return PaperSample(machines, rows, machine, times)


def untrained(tasks: int, machines: int, *, seed: int = 0) -> PaperNet:
    """Return the network with initial weights."""
    torch.manual_seed(seed)
    return PaperNet(tasks, machines)


def train_paper(
    samples: Iterable[PaperSample],
    *,
    steps: int,
    seconds: float = np.inf,
    batch: int = 16,
    learning_rate: float = 1e-3,
    seed: int = 0,
    progress: Progress[dict[str, float]] = silent,
) -> PaperNet:
    """Train on samples as they come, up to a number of steps or processor seconds.

    The learning rate falls to a tenth by the last step. `progress` gets the mean loss of every
    fiftieth of the steps.
    """
    begin, stream = time.process_time(), iter(samples)
    first = list(islice(stream, batch))
    net = untrained(len(first[0].machine), first[0].machines.shape[1], seed=seed)
    optimiser = torch.optim.Adam(net.parameters(), lr=learning_rate)
    every, losses = max(1, steps // 50), list[float]()
    for step in range(steps):
        chosen = first if step == 0 else list(islice(stream, batch))
        for group in optimiser.param_groups:
            group["lr"] = learning_rate * 0.1 ** (step / steps)
        columns = [torch.as_tensor(np.stack(column)) for column in zip(*chosen, strict=True)]
        loss = paper_loss(net, *columns)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        optimiser.step()
        losses.append(loss.item())
        spent = time.process_time() - begin
        over = spent > seconds
        if over or (step + 1) % every == 0:
            progress({"step": step + 1, "loss": float(np.mean(losses)), "seconds": spent})
            losses.clear()
        if over:
            break
    return net


def paper_loss(
    net: PaperNet, machines: Tensor, tasks: Tensor, machine: Tensor, times: Tensor
) -> Tensor:
    """Return the cross entropy of machines plus the squared error of times.

    The error is a mean; padding does not count.
    """
    logits, found = net(machines, tasks)
    there = (machine >= 0)[:, None].expand_as(found)
    return nn.functional.cross_entropy(logits, machine, ignore_index=-1) + nn.functional.mse_loss(
        found[there], times[there]
    )


@torch.inference_mode()
def paper_answer(net: PaperNet, machines: Numbers, tasks: Numbers) -> tuple[Numbers, Numbers]:
    """Return the (machines, tasks) logits and (2, tasks) times of one problem."""
    logits, times = net(torch.from_numpy(machines)[None], torch.from_numpy(tasks)[None])
    return logits[0].numpy(), times[0].numpy()


def schedule_of(problem: Problem, logits: Numbers, times: Numbers) -> Schedule:
    """Decode an answer: tasks by predicted start, on the likeliest feasible machine."""
    order = problem.workflow.order
    can = np.isfinite(problem.per_work)[problem.row[order]]
    device, start = np.zeros(problem.n, np.int64), np.zeros(problem.n)
    device[order] = np.where(can, logits[:, : problem.n].T, -np.inf).argmax(axis=1)
    start[order] = times[0, : problem.n]
    return as_schedule(insert_in_order(problem.arrays, rank_order(problem, -start), device))


def paper_schedule(problem: Problem, net: PaperNet) -> Schedule:
    """Plan with the document's network."""
    return schedule_of(problem, *paper_answer(net, *inputs_of(problem, net.tasks)))
