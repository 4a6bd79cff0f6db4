"""`Variant`: one of several ways to run a task, and problems with chosen variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum, inf, isfinite, isnan, nan
from typing import TYPE_CHECKING

import numpy as np

from weft.arguments import number, whole
from weft.errors import InvalidInput, UnknownName
from weft.model.columns import FloatArray
from weft.registry import closest
from weft.typed import description

if TYPE_CHECKING:
    from weft.model.problem import Problem
    from weft.model.workflow import Workflow


@description
@dataclass(frozen=True)
class Variant:
    """One way to run a task.

    Examples: on more cores, with a smaller model, with code for another device.

    Attributes
    ----------
    seconds : on a device of speed 1, or by name or kind of device; None: as the task itself
    factor : multiplies these seconds
    cores, memory, needs : what it takes; None or left out: as the task itself
    accuracy : accuracy of its result, in any unit; higher is better; NaN: it does not count
    cost : money for one execution, beside the rent of devices
    devices : names or kinds of devices it can run on; empty: all

    Examples
    --------
    >>> Variant("wide", factor=0.6, cores=4).cores
    4
    """

    name: str
    seconds: float | Mapping[str, float] | None = None
    factor: float = 1.0
    cores: int | None = None
    memory: float | None = None
    needs: Mapping[str, float] = field(default_factory=dict)
    accuracy: float = nan
    cost: float = 0.0
    devices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be computed with."""
        if not all(isinstance(name, str) for name in (self.name, *self.devices)):
            raise TypeError("a name is no string")  # the caller says which name
        where = f"of variant '{self.name}'"
        times = self.seconds if isinstance(self.seconds, Mapping) else {"": self.seconds}
        for what, value in [
            *(("factor", self.factor), ("cost", self.cost), ("memory", self.memory)),
            *(("seconds", x) for x in times.values()),
            *((f"need of '{k}'", x) for k, x in self.needs.items()),
        ]:
            if value is not None or what in ("factor", "cost"):
                number(value, f"{what} {where}")
        if self.cores is not None:
            whole(self.cores, f"cores {where}", most=2**31)
        if not (isnan(self.accuracy) or isfinite(self.accuracy)):
            raise InvalidInput(f"accuracy {where} must be a finite number")

    def on(self, problem: Problem, task: int) -> FloatArray:
        """Return (p,) seconds of this variant on each device; inf where it cannot run."""
        c = problem.cluster
        if isinstance(self.seconds, Mapping):
            given = [
                self.seconds.get(name, self.seconds.get(kind, inf))
                for name, kind in zip(c.names, c.kinds, strict=True)
            ]
            seconds = np.array(given, float)
        elif self.seconds is not None:
            seconds = self.seconds / c.speed
        else:
            seconds = np.array([problem.duration(task, d) for d in range(problem.p)])
        if self.devices:
            pairs = zip(c.names, c.kinds, strict=True)
            able = np.array([bool({name, kind} & set(self.devices)) for name, kind in pairs])
            seconds = np.where(able, seconds, inf)
        return np.where(np.isfinite(seconds), seconds * self.factor, inf)


Variants = Mapping[str, Sequence[Variant]]
"""Task name or kind -> its variants."""


def checked_variants(workflow: Workflow, given: Variants) -> dict[str, tuple[Variant, ...]]:
    """Return the variants of a workflow; refuse unknown tasks and repeated names."""
    known = (*workflow.task_names, *workflow.kinds) if given else ()
    for name, variants in given.items():
        if name not in known:
            raise UnknownName(f"variants of '{name}': no task or kind{closest(name, known)}")
        names = [v.name for v in variants]
        if not names or len(set(names)) < len(names):
            raise InvalidInput(f"variants of '{name}' are {names}; give distinct names, at least 1")
    return {str(name): tuple(variants) for name, variants in given.items()}


def variants_by_task(workflow: Workflow) -> dict[int, tuple[Variant, ...]]:
    """Return the variants of each task that has some, by task name, then by kind."""
    found = {}
    for t in range(workflow.n):
        kind = workflow.kinds[int(workflow.kind[t])]
        own = workflow.variants.get(workflow.task_name(t), workflow.variants.get(kind))
        if own:
            found[t] = tuple(own)
    return found


def resolve(problem: Problem, chosen: Mapping[str, Variant]) -> Problem:
    """Return the problem with one variant for each task, and no variants left.

    Examples
    --------
    >>> from weft.model import Cluster, Problem, Workflow
    >>> ways = [Variant("two", cores=2), Variant("four", factor=0.6, cores=4)]
    >>> workflow = Workflow(work=[10.0], src=[], dst=[], data=[], variants={"t0": ways})
    >>> problem = Problem.bind(workflow, Cluster.host(cores=8))
    >>> found = resolve(problem, {"t0": ways[1]})
    >>> found.duration(0, 0), found.workflow.cores.tolist()
    (6.0, [4])
    """
    from weft.model.problem import Problem

    w, seconds = problem.workflow, problem.durations()
    number = {name: t for t, name in enumerate(w.task_names)}
    cores, memory = w.cores.copy(), w.memory.copy()
    needs = {name: column.copy() for name, column in w.needs.items()}
    for name, variant in chosen.items():
        t = number[name]
        seconds[t] = variant.on(problem, t)
        if np.isinf(seconds[t]).all():
            raise InvalidInput(f"variant '{variant.name}' of task '{name}' fits no device")
        cores[t] = w.cores[t] if variant.cores is None else variant.cores
        memory[t] = w.memory[t] if variant.memory is None else variant.memory
        for need, amount in variant.needs.items():
            needs.setdefault(need, np.zeros(w.n))[t] = amount
    seconds[np.isinf(seconds)] = np.nan
    columns = {name: seconds[:, d] for d, name in enumerate(problem.cluster.names)}
    plain = replace(w, cores=cores, memory=memory, needs=needs, durations=columns, variants={})
    return Problem.bind(plain, problem.cluster)


def mean_accuracy(chosen: Mapping[str, Variant]) -> float:
    """Return the mean accuracy of variants that have one; NaN: none has."""
    known = [v.accuracy for v in chosen.values() if not isnan(v.accuracy)]
    return fsum(known) / len(known) if known else nan


def refuse_variants(workflow: Workflow) -> None:
    """Raise `InvalidInput` for a workflow whose variants are not chosen yet."""
    if workflow.variants:
        raise InvalidInput(
            f"workflow '{workflow.name}' has variants; choose them first: "
            "weft.plan(problem).problem"
        )
