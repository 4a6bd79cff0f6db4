"""Objectives of search planners: makespan, energy, cost and service of jobs.

An objective is a weighted sum of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from weft.arguments import as_float, number, shown
from weft.errors import InvalidInput, UnknownName
from weft.model import Problem, Schedule, Workflow, Workload
from weft.model.columns import FloatArray, IntArray, as_floats, frozen, integers, offsets
from weft.model.workload import refuse_other_machines
from weft.registry import closest
from weft.sim.kernel.jit import njit
from weft.typed import typed_dataclass

Prices = Mapping[str, float] | Iterable[float]
"""Money per second of work: one number per device, or by name of device or kind."""


class CompiledObjective(NamedTuple):
    """An objective for compiled code.

    value = makespan x weight + seconds on each device x rate + completion + waiting + tardiness
    + late jobs
    """

    plain: bool  # the makespan only
    makespan: float
    longest: float  # a value up to a limit needs a makespan up to (limit - least) x longest
    least: float  # no schedule has less than this beside the makespan
    rate: FloatArray  # (p,) per second of work on a device
    job: IntArray  # (n,) the job of each task
    job_end: FloatArray  # (jobs,) scratch memory
    completion: float  # weight of the sum over jobs of the end of their last task
    waiting: float  # weight of the sum over tasks of their start
    deadline: FloatArray  # (jobs,)
    tardiness: FloatArray  # (jobs,) per second after the deadline
    late: FloatArray  # (jobs,) added if the job ends after its deadline


@njit
def score(
    objective: CompiledObjective,
    makespan: float,
    device: IntArray,
    start: FloatArray,
    finish: FloatArray,
) -> float:
    """Return the value of a schedule."""
    value, waiting = objective.makespan * makespan, 0.0
    for t in range(len(device)):
        value += (finish[t] - start[t]) * objective.rate[device[t]]
        waiting += start[t]
    value += objective.waiting * waiting
    if objective.completion > 0.0 or len(objective.deadline) > 0:
        objective.job_end[:] = 0.0
        for t in range(len(device)):
            objective.job_end[objective.job[t]] = max(
                objective.job_end[objective.job[t]], finish[t]
            )
        value += objective.completion * objective.job_end.sum()
    for j in range(len(objective.deadline)):
        over = objective.job_end[j] - objective.deadline[j]
        if over > 0.0:
            value += objective.tardiness[j] * over + objective.late[j]
    return value


GUIDE = 0.1
"""What a job that is late by the largest deadline adds to a compiled objective, in late jobs."""


@typed_dataclass(frozen=True)
class Objective:
    """Weights of the quantities that a planner minimises.

    Parameters
    ----------
    makespan : per second until the last task ends
    energy : per joule until the last task ends, at busy power or idle power of each device
    cost : per unit of money. With `price`: per second of work on each device, by device number or
        by name of device or kind. Without: the rent of all devices until the last task ends, at the
        cluster's prices per hour
    completion : per second of the mean end of jobs; `jobs` labels the tasks (see `union`)
    waiting : per second of the mean start of tasks
    tardiness : per second of the mean time of jobs after their deadlines
    late : per share of jobs that end after their deadlines
    deadlines : of the jobs, in the order of their labels, in seconds; inf: none
    priorities : of the jobs; a job of priority k counts 1 + k times in `tardiness` and `late`

    Examples
    --------
    >>> objective = Objective.of({"makespan": 1.0, "energy": 0.01})
    >>> objective.makespan, objective.energy, objective.late
    (1.0, 0.01, 0.0)
    """

    makespan: float = 0.0
    energy: float = 0.0
    cost: float = 0.0
    completion: float = 0.0
    waiting: float = 0.0
    tardiness: float = 0.0
    late: float = 0.0
    price: tuple[float, ...] | tuple[tuple[str, float], ...] = ()
    jobs: tuple[int, ...] = ()
    deadlines: tuple[float, ...] = ()
    priorities: tuple[float, ...] = ()

    @classmethod
    def of(
        cls,
        given: str | Mapping[str, float] | Objective,
        *,
        price: Prices = (),
        jobs: ArrayLike = (),
        deadlines: ArrayLike = (),
        priorities: ArrayLike = (),
    ) -> Objective:
        """Make an objective from the name of one quantity, or from weights by name."""
        if isinstance(given, Objective):
            _refuse_beside(price=price, jobs=jobs, deadlines=deadlines, priorities=priorities)
            return given
        if not isinstance(given, str | Mapping):
            raise InvalidInput(
                f"objective is {shown(given)}; give the name of a quantity, or weights by name"
            )
        weights = {given: 1.0} if isinstance(given, str) else dict(given)
        known = [f.name for f in fields(cls)][:7]
        for name, weight in weights.items():
            if name not in known:
                raise UnknownName(f"unknown objective '{name}'{closest(name, known)}")
            if not 0 <= as_float(weight) < np.inf:
                raise InvalidInput(
                    f"the weight of objective '{name}' is {shown(weight)}; "
                    "it must be a finite number, zero or more"
                )
        if not any(weights.values()):
            raise InvalidInput(
                "all weights of the objective are zero; give at least one above zero"
            )
        return cls(
            **weights,
            price=_listed_prices(price),
            jobs=tuple(integers(jobs, "jobs", shape=(len(_row(jobs, "jobs")),)).tolist()),
            deadlines=tuple(_times(deadlines)),
            priorities=tuple(_above_minus_one(priorities)),
        )

    @property
    def plain(self) -> bool:
        """Whether the makespan is the only quantity."""
        other = self.energy or self.cost or self.completion or self.waiting
        return not (other or self.by_deadline)

    @property
    def by_deadline(self) -> bool:
        """Whether deadlines count."""
        return bool(self.tardiness or self.late)

    def refuse_misfits(self, problem: Problem) -> None:
        """Raise `InvalidInput` for prices and jobs of another problem."""
        jobs = int(self._labels(problem).max(initial=0)) + 1
        self._check_jobs(jobs)
        if self.price:
            self._given_prices(problem)

    def _check_jobs(self, jobs: int) -> None:
        for what, given in (("deadlines", self.deadlines), ("priorities", self.priorities)):
            needed = self.by_deadline and what == "deadlines"
            if len(given) != jobs and (given or needed):
                raise InvalidInput(
                    f"objectives 'tardiness' and 'late' need {what} of {jobs} jobs; got "
                    f"{len(given)}; give {what}=, in the order of the labels in jobs="
                )

    def compiled(self, problem: Problem) -> CompiledObjective:
        """Return the objective for compiled code; each thread needs its own.

        A search needs differences between schedules with the same number of late jobs. So in the
        compiled objective a late job counts a little more, the later it is (`GUIDE`).
        """
        return self._compiled(problem, guided=True)

    def _compiled(self, problem: Problem, *, guided: bool) -> CompiledObjective:
        idle, busy = problem.cluster.idle_power, problem.cluster.power
        if self.energy and not (busy.any() or idle.any()):
            raise InvalidInput(
                f"objective 'energy' needs the power of devices, but no device of cluster "
                f"'{problem.cluster.name}' has any; give power (watts) to its devices"
            )
        rate = self.energy * (busy - idle) + self.cost * self._prices(problem)
        weight = self.makespan + self.energy * float(idle.sum())
        if self.cost and not self.price:
            weight += self.cost * problem.cluster.rent(1.0)
        job = self._labels(problem)
        jobs = int(job.max(initial=0)) + 1
        deadline, share = self._service(jobs)
        longest = float(np.max(deadline, initial=0.0, where=np.isfinite(deadline)))
        guide = GUIDE * self.late / longest if guided and longest > 0.0 else 0.0
        bounded = weight > 0 and bool((rate >= 0).all())
        return CompiledObjective(
            plain=self.plain,
            makespan=weight,
            longest=1.0 / weight if bounded else np.inf,
            least=self._least(problem, rate) if bounded else 0.0,
            rate=rate,
            job=job,
            job_end=np.zeros(jobs),
            completion=self.completion / jobs,
            waiting=self.waiting / max(1, problem.n),
            deadline=deadline,
            tardiness=(self.tardiness + guide) * share,
            late=self.late * share,
        )

    def _service(self, jobs: int) -> tuple[FloatArray, FloatArray]:
        """Return deadlines and shares of jobs in means: (jobs,), or none."""
        if not self.by_deadline:
            return np.zeros(0), np.zeros(0)
        self._check_jobs(jobs)
        weight = 1.0 + np.array(self.priorities or [0.0] * jobs)
        return np.array(self.deadlines, float), weight / weight.sum()

    def value(self, problem: Problem, schedule: Schedule) -> float:
        """Return the weighted sum for a schedule without copies."""
        s = schedule
        compiled = self._compiled(problem, guided=False)
        return float(score(compiled, s.makespan, s.device, s.start, s.finish))

    def _least(self, problem: Problem, rate: FloatArray) -> float:
        """Return the value of all tasks on the devices that are cheapest for them."""
        cheapest = np.where(np.isfinite(problem.per_work), problem.per_work, 0.0) * rate
        cheapest = np.where(np.isfinite(problem.per_work), cheapest, np.inf).min(axis=1)
        return float((problem.work * cheapest[problem.row]).sum()) * (1.0 - 1e-9)

    def _prices(self, problem: Problem) -> FloatArray:
        """Return the money per second of work: (p,)."""
        cluster = problem.cluster
        if not self.cost or (not self.price and cluster.price.any()):
            return np.zeros(problem.p)
        return self._given_prices(problem)

    def _given_prices(self, problem: Problem) -> FloatArray:
        given = self.price
        if given and isinstance(given[0], tuple):
            return _by_name(dict(given), problem)
        if len(given) != problem.p:
            raise InvalidInput(
                f"objective 'cost' needs a price for each of {problem.p} devices; "
                f"got {len(given)}; give price=, or prices per hour in the cluster"
            )
        return np.array(given, float)

    def _labels(self, problem: Problem) -> IntArray:
        if not self.jobs:
            return np.zeros(problem.n, np.int64)
        if len(self.jobs) != problem.n:
            raise InvalidInput(
                f"jobs labels {len(self.jobs)} tasks, but '{problem.name}' has {problem.n}"
            )
        return np.unique(np.array(self.jobs, np.int64), return_inverse=True)[1].astype(np.int64)


def _listed_prices(price: Prices) -> tuple[float, ...] | tuple[tuple[str, float], ...]:
    if isinstance(price, Mapping):
        return tuple((str(k), number(v, f"the price of '{k}'")) for k, v in price.items())
    listed = _row(price, "price").tolist()  # type: ignore[arg-type]  # numpy reads any sequence
    return tuple(number(v, f"price of device {d}") for d, v in enumerate(listed))


def _times(deadlines: ArrayLike) -> list[float]:
    found = _row(deadlines, "deadlines")
    if (bad := np.flatnonzero(np.isnan(found))).size:
        raise InvalidInput(f"the deadline of job {bad[0]} is nan; it must be a time, or inf: none")
    return found.tolist()  # type: ignore[no-any-return]  # a list of numbers


def _above_minus_one(priorities: ArrayLike) -> list[float]:
    found = enumerate(_row(priorities, "priorities").tolist())
    return [number(x, f"priority of job {j}", low=-1.0, above=True) for j, x in found]


def _row(values: ArrayLike, what: str) -> FloatArray:
    found = as_floats(values, what)
    if found.ndim != 1:
        raise InvalidInput(f"{what} is {shown(values)}; give a list of numbers")
    return found


def _refuse_beside(**options: object) -> None:
    """Raise `InvalidInput` for an option beside an `Objective`, which has its own."""
    for name, value in options.items():
        if not (isinstance(value, Sequence | Mapping) and not value):
            raise InvalidInput(f"an Objective has its own {name}; leave out the option {name}=")


def _by_name(price: Mapping[str, float], problem: Problem) -> FloatArray:
    """Return the price (p,) of each device: by its name, else by its kind."""
    names, kinds = problem.cluster.names, problem.cluster.kinds
    known = tuple(dict.fromkeys((*names, *kinds)))
    for name in price:
        if name not in known:
            raise UnknownName(f"price has '{name}', no device or kind{closest(name, known)}")
    found = [price.get(name, price.get(kind)) for name, kind in zip(names, kinds, strict=True)]
    if None in found:
        raise InvalidInput(f"price has nothing for device '{names[found.index(None)]}'")
    return np.array(found, float)


def union_of_jobs(workload: Workload) -> tuple[Problem, dict[str, tuple[float, ...]]]:
    """Merge the jobs of a workload that arrive together.

    Returns the problem and the options of `weft.plan` for it. Deadlines count from the arrival.

    Examples
    --------
    >>> job = Problem.from_arrays([[1.0], [1.0]])
    >>> workload = Workload.of(job, arrival=[0.0, 0.0], deadline=[1.0, 4.0], priority=[1.0, 0.0])
    >>> union_of_jobs(workload)[1]
    {'jobs': (0, 0, 1, 1), 'deadlines': (1.0, 4.0), 'priorities': (1.0, 0.0)}
    """
    if (workload.arrival != workload.arrival[0]).any():
        raise InvalidInput(
            f"the jobs of '{workload.name}' arrive at different times; plans are for jobs that "
            "arrive together, and policies for those that do not"
        )
    problem, jobs = union([workload.problem_of(j) for j in range(workload.jobs)])
    return problem, {
        "jobs": jobs,
        "deadlines": tuple((workload.deadline - workload.arrival).tolist()),
        "priorities": tuple(workload.priority.tolist()),
    }


def union(problems: Sequence[Problem], *, name: str = "batch") -> tuple[Problem, tuple[int, ...]]:
    """Merge problems on one cluster; return the problem and the job of each task.

    For the objectives `completion`, `tardiness` and `late`.

    Examples
    --------
    >>> p = Problem.from_arrays([[1.0, 2.0], [3.0, 1.0]], [[0, 1]], 1.0, bandwidth=1.0)
    >>> both, jobs = union([p, p])
    >>> both.n, both.m, jobs
    (4, 2, (0, 0, 1, 1))
    """
    if not problems:
        raise InvalidInput("a batch needs at least one problem")
    refuse_other_machines(problems)
    cluster = problems[0].cluster
    sizes = [p.n for p in problems]
    first, rows = offsets(sizes), offsets([len(p.per_work) for p in problems])
    flows = [p.workflow for p in problems]
    kinds = tuple(dict.fromkeys(k for w in flows for k in w.kinds))
    workflow = Workflow(
        name=name,
        names=tuple(f"{j}/{task}" for j, w in enumerate(flows) for task in w.task_names),
        work=np.concatenate([w.work for w in flows]),
        kinds=kinds,
        kind=np.concatenate(
            [np.array([kinds.index(k) for k in w.kinds], np.int64)[w.kind] for w in flows]
        ),
        memory=np.concatenate([w.memory for w in flows]),
        cores=np.concatenate([w.cores for w in flows]),
        needs={
            need: np.concatenate([w.needs.get(need, np.zeros(w.n)) for w in flows])
            for need in dict.fromkeys(need for w in flows for need in w.needs)
        },
        src=np.concatenate([w.src + o for w, o in zip(flows, first, strict=False)]),
        dst=np.concatenate([w.dst + o for w, o in zip(flows, first, strict=False)]),
        data=np.concatenate([w.data for w in flows]),
    )
    made = Problem(
        workflow,
        cluster,
        frozen(np.concatenate([p.work for p in problems])),
        frozen(np.concatenate([p.row + o for p, o in zip(problems, rows, strict=False)])),
        frozen(np.ascontiguousarray(np.concatenate([p.per_work for p in problems]))),
    )
    return made, tuple(np.repeat(np.arange(len(problems)), sizes).tolist())
