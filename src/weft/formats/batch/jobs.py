"""The tasks of a plan as jobs of a batch system."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from pathlib import Path, PurePath

import numpy as np

from weft.errors import InvalidInput, Unsupported
from weft.formats.graphs.wfformat import is_wfformat, recorded_commands
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import decode_text, naming, parse_json, read_bytes
from weft.model import Problem, Schedule

MEGABYTE = 2**20
TASK = "{task}"
"""Stands for the name of the task in a command."""
SHELLS = ("sh", "ash", "bash", "csh", "dash", "fish", "ksh", "tcsh", "zsh")


@dataclass(frozen=True)
class BatchJob:
    """A task of a plan as a job.

    Attributes
    ----------
    number : the task's number; `parents` are numbers, too
    kind : name of its measurements, and of the job
    order : place of its start in the plan, from 0
    resources : further amounts by name, e.g. {"gpu": 1}
    """

    number: int
    name: str
    kind: str
    command: tuple[str, ...]
    parents: tuple[int, ...]
    node: str
    order: int
    seconds: float
    cpus: int = 1
    megabytes: int = 0
    resources: Mapping[str, int] = field(default_factory=dict)


def batch_jobs(
    problem: Problem,
    schedule: Schedule,
    commands: Mapping[str, Sequence[str]],
    *,
    resources: Mapping[str, Mapping[str, int]] | None = None,
) -> list[BatchJob]:
    """Return one job per task, in the order in which the plan starts them.

    Parameters
    ----------
    commands : task name or kind -> program and arguments; ``{task}`` stands for the task's name
    resources : device kind -> amounts that a task on such a device asks for; by default one "gpu"
        on devices whose kind contains that word
    """
    workflow, cluster = problem.workflow, problem.cluster
    if workflow.conditional:
        raise Unsupported(f"'{workflow.name}' has branches; a batch system takes every job")
    if schedule.copy.any() or len(schedule.task) != workflow.n:
        raise Unsupported("the plan runs a task more than once; make one without copies")
    by_kind = _gpus(cluster.kinds) if resources is None else resources
    order = np.lexsort((schedule.task, schedule.start))
    made = []
    for place, row in enumerate(order.tolist()):
        t, d = int(schedule.task[row]), int(schedule.device[row])
        name, kind = workflow.task_name(t), workflow.kinds[workflow.kind[t]]
        begin, end = workflow.pred_ptr[t], workflow.pred_ptr[t + 1]
        amounts = {
            capacity: int(np.ceil(values[t]))
            for capacity, values in workflow.needs.items()
            if capacity not in ("cores", "memory") and values[t] > 0
        }
        made.append(
            BatchJob(
                t,
                name,
                kind,
                _command(commands, name, kind),
                tuple(workflow.src[workflow.pred_edge[begin:end]].tolist()),
                cluster.nodes[d],
                place,
                float(schedule.finish[row] - schedule.start[row]),
                int(workflow.cores[t]),
                int(np.ceil(workflow.memory[t] / MEGABYTE)),
                {**by_kind.get(cluster.kinds[d], {}), **amounts},
            )
        )
    return made


def _gpus(kinds: Sequence[str]) -> dict[str, dict[str, int]]:
    return {kind: {"gpu": 1} for kind in kinds if "gpu" in kind.lower()}


def _command(commands: Mapping[str, Sequence[str]], name: str, kind: str) -> tuple[str, ...]:
    found = commands.get(name, commands.get(kind))
    if not found:
        raise InvalidInput(
            f"task '{name}' (kind '{kind}') has no command; give one by either name, in a file "
            '{"name": ["program", "argument", ...]}'
        )
    for k, word in enumerate(found):
        shell = any(PurePath(other).name in SHELLS for other in found[:k])
        if TASK in word and word != TASK and shell and shlex.quote(name) != name:
            raise InvalidInput(
                f"the command of task '{name}' puts its name into the text of a shell, which could "
                f"run parts of it; give the name as an argument of its own: "
                '["sh", "-c", "program \\"$1\\"", "sh", "{task}"]'
            )
    return tuple(word.replace(TASK, name) for word in found)


def load_commands(path: Path) -> dict[str, list[str]]:
    """Read the commands of a WfFormat document or of {name: [program, argument, ...]}."""
    with naming(str(path)):
        record = Record(parse_json(decode_text(read_bytes(path))))
        if is_wfformat(record):
            return recorded_commands(record)
        if "format" in record.content and not isinstance(record.content["format"], list):
            raise InvalidInput(
                "its tasks have no commands; give them with --commands commands.json, which holds "
                '{"task or kind": ["program", "argument", ...]}'
            )
        return {name: record.strings(name) for name in record.content}


def parents_first(jobs: Sequence[BatchJob]) -> list[BatchJob]:
    """Return the jobs in the order of the plan, but each after those it needs.

    Jobs that take no time may start at the same moment as those they need.
    """
    waiting = {job.number: len(job.parents) for job in jobs}
    children: dict[int, list[BatchJob]] = {job.number: [] for job in jobs}
    for job in jobs:
        for parent in job.parents:
            children[parent].append(job)
    ready = [(job.order, job.number) for job in jobs if not job.parents]
    heapify(ready)
    by_number = {job.number: job for job in jobs}
    done = []
    while ready:
        job = by_number[heappop(ready)[1]]
        done.append(job)
        for child in children[job.number]:
            waiting[child.number] -= 1
            if not waiting[child.number]:
                heappush(ready, (child.order, child.number))
    return done


def make_empty(folder: Path) -> None:
    """Make a folder; refuse one that holds files."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise InvalidInput(f"{folder}: the folder is not empty; give a new folder")
