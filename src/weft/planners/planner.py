"""Planner protocol, the table of planners, and `plan`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from os import PathLike, fspath
from typing import Literal, Protocol

from weft.arguments import positive, shown, valid_seed
from weft.display import Displayed
from weft.errors import InvalidInput, UnknownName, Unsupported
from weft.formats.model_file import find_model, is_model_path, read_model
from weft.model import Problem, Schedule
from weft.model.variants import Variant, mean_accuracy
from weft.planners.bounds import lower_bound
from weft.planners.colocation import colocation_bound
from weft.planners.objective import Objective
from weft.planners.packing import pack
from weft.registry import Entry, Registry, closest
from weft.sim.kernel.jit import planning_clock
from weft.typed import refuse_misfits, typed, typed_dataclass

Status = Literal["optimal", "feasible", "infeasible", "unknown"]

RELAXED_SHARE = 0.15
"""Share of the time limit in which a search plans without the capacities of nodes."""

EXACT = 1e-9
"""Relative difference below which two makespans, or one and its bound, count as equal."""


SUPPORTED = {
    "limits": "tasks that only some devices can run (memory, cores, kind)",
    "links": "bandwidth and latency per pair of devices",
    "choices": "conditional branches",
    "copies": "may run a task on several devices to save transfers",
    "seconds": "finds better plans in more time",
    "capacities": "plans with the capacities that tasks on a node share, not only around them",
    "setups": "plans with the set-ups of devices, not only around them",
    "proof": "may prove its plan optimal",
    "objectives": "energy, cost, waiting, completion and deadlines of jobs, not only the makespan",
}
"""What a planner may support, as words of `Planner.supports`, and their meaning."""

QUICK = frozenset({"limits", "links"})
"""What every planner of weft supports."""

PLAN_OPTIONS = ("seconds", "seed", "min_accuracy", "budget", "cluster", "history", "durations")
"""Options of `weft.plan` for any planner."""


@typed_dataclass(frozen=True)
class Solution:
    """A schedule and a proven lower bound on the makespan without copies (0: none).

    `history` holds the improvements of a search: seconds since its start, and the makespan.
    """

    schedule: Schedule
    bound: float = 0.0
    history: tuple[tuple[float, float], ...] = ()


class Planner(Protocol):
    """A planner: Problem -> Solution.

    Planners are frozen dataclasses; their options are their fields. `seconds` is a time limit and
    `seed` a seed; quick and deterministic planners ignore them.
    """

    @property
    def name(self) -> str:
        """The registered name, or a descriptive one."""
        ...

    @property
    def supports(self) -> frozenset[str]:
        """Words of `SUPPORTED`."""
        ...

    def solve(self, problem: Problem, *, seconds: float | None = None, seed: int = 0) -> Solution:
        """Plan the problem; raise `Unsupported` for what it does not handle."""
        ...


PLANNERS: Registry[Planner] = Registry(
    "planner",
    listing="weft list planners",
    renamed={"amortised": "anytime"},
    confused_with="weft.policies:POLICIES",
    usage="weft.plan(problem, '{0}'), weft plan --planner {0}, or weft.compare",
)


@typed
def list_planners() -> list[Entry]:
    """List all planners: names with `.summary`.

    Examples
    --------
    >>> "heft" in list_planners()
    True
    """
    return PLANNERS.entries()


@dataclass(frozen=True, eq=False)
class Plan(Displayed):
    """A schedule with its certificate: no valid schedule has a makespan below `bound`.

    The bound holds for schedules without copies, and for those with copies if this one has some.
    It is computed on first use, so that quick planners stay quick.
    """

    problem: Problem = field(repr=False)
    schedule: Schedule
    planner: str
    seconds: float
    """Time that planning took, without the compilation of kernels by a first call."""
    proved: float = 0.0
    history: tuple[tuple[float, float], ...] = field(default=(), repr=False)
    """Improvements of a search: seconds since its start, and the makespan."""
    variants: Mapping[str, Variant] = field(default_factory=dict, repr=False)
    """Task -> the chosen variant, if the workflow had variants; `problem` has the chosen ones."""

    @cached_property
    def bound(self) -> float:
        """A proven lower bound on the makespan, whatever the variants."""
        if self.variants:
            return self.proved
        if self.schedule.copies:
            return lower_bound(self.problem, copies=True)
        known = max(lower_bound(self.problem), self.proved)
        return known if known >= self.makespan else colocation_bound(self.problem, known)

    @property
    def makespan(self) -> float:
        """End of the last task."""
        return self.schedule.makespan

    @property
    def energy(self) -> float:
        """Joules until the last task ends: power while busy, idle power otherwise."""
        return self.problem.cluster.energy(self.schedule.busy(self.problem.p), self.makespan)

    @property
    def cost(self) -> float:
        """Money for the variants and for the rent of all devices until the last finish."""
        extra = sum(variant.cost for variant in self.variants.values())
        return self.problem.cluster.rent(self.makespan) + extra

    @property
    def accuracy(self) -> float:
        """Mean accuracy of the chosen variants that have one; NaN: none has."""
        return mean_accuracy(self.variants)

    @property
    def gap(self) -> float:
        """Largest possible distance from the optimum, relative to the bound: 0.05 is 5 %."""
        return self.makespan / self.bound - 1.0 if self.bound > 0 else 0.0

    @property
    def status(self) -> Status:
        """`optimal` if makespan and bound meet, else `feasible`."""
        return "optimal" if self.makespan <= self.bound * (1 + EXACT) else "feasible"


def plan(
    problem: Problem,
    planner: str | PathLike[str] | Planner = "heft",
    *,
    seconds: float | None = None,
    seed: int = 0,
    min_accuracy: float | None = None,
    budget: float | None = None,
    **options: object,
) -> Plan:
    """Plan a problem with a planner, by name, path of a network or as an object.

    If tasks have variants, one is chosen for each, so that the makespan is short, the mean accuracy
    is at least `min_accuracy` and the cost (rent and variants) at most `budget`.

    Further options belong to the planner of that name; unknown ones are refused.
    """
    if not isinstance(problem, Problem):
        raise InvalidInput(
            f"plan takes a Problem, not a {type(problem).__name__}; make one with Problem.bind, "
            "Problem.from_arrays, Problem.from_table, Workflow.from_networkx or weft.load"
        )
    seconds, seed = positive(seconds, "seconds"), valid_seed(seed)
    if isinstance(planner, str | PathLike):
        chosen = load_planner(planner, **options)
    else:
        if not callable(getattr(planner, "solve", None)) or isinstance(planner, type):
            raise InvalidInput(
                f"planner is {shown(planner)}; give a name (weft.list_planners()), the path of a "
                "trained one or a Planner"
            )
        _refuse_options(options, (), f"planner object '{planner.name}'")
        chosen = planner
    refuse_two_limits(chosen, seconds)
    if problem.workflow.variants:
        from weft.planners.variants.planning import plan_variants

        return plan_variants(problem, chosen, seconds, seed, min_accuracy, budget)
    if min_accuracy is not None or budget is not None:
        raise InvalidInput("min_accuracy and budget choose among variants; the workflow has none")
    begin = planning_clock()
    solution = solve(chosen, problem, seconds, seed)
    took = planning_clock() - begin
    return Plan(problem, solution.schedule, chosen.name, took, solution.bound, solution.history)


def solve(
    planner: Planner, problem: Problem, seconds: float | None = None, seed: int = 0
) -> Solution:
    """Plan a problem.

    With set-ups or shared links, the result is the best of several plans by their replay.
    """
    if problem.cluster.network is None and not problem.cluster.has_setup:
        return _solve_alone(planner, problem, seconds, seed)
    if (members := getattr(planner, "planners", None)) is not None:
        found = [solve(member, problem, seconds, seed) for member in members]
        return min(found, key=lambda solution: solution.schedule.makespan)
    from weft.planners.replays import PLANNING_SHARE, ROUNDS, best_by_replay

    objective = objective_of(planner)
    searches = "seconds" in planner.supports
    share = seconds if seconds is None or not searches else PLANNING_SHARE * seconds
    begin, bounds = planning_clock(), []

    def planned(estimated: Problem) -> Schedule:
        found = _solve_alone(planner, estimated, share, seed)
        bounds.append(found.bound)
        return found.schedule

    schedule = best_by_replay(
        problem,
        planned,
        rounds=1 if searches else ROUNDS,
        setups="setups" in planner.supports,
        value=partial(_value, problem, objective),
    )
    if searches and objective.plain:
        left = None if seconds is None else seconds - (planning_clock() - begin)
        schedule = _moved(problem, schedule, left, seed)
    return Solution(schedule, bounds[0])  # the bound for free set-ups and links holds for all


def _value(problem: Problem, objective: Objective, schedule: Schedule) -> float:
    return schedule.makespan if objective.plain else objective.value(problem, schedule)


def _moved(problem: Problem, schedule: Schedule, seconds: float | None, seed: int) -> Schedule:
    """Improve a plan by moving tasks.

    If HEFT's plan that counts set-ups is better, the moves start from that.
    """
    from weft.planners.replays import moved_tasks

    if problem.cluster.has_setup:
        quick = solve(PLANNERS.create("heft"), problem, seed=seed).schedule
        schedule = min(schedule, quick, key=lambda s: s.makespan)
    return moved_tasks(problem, schedule, seconds=seconds, seed=seed)


def _solve_alone(planner: Planner, problem: Problem, seconds: float | None, seed: int) -> Solution:
    """Plan a problem; a plan that ignores capacities is packed afterwards."""
    if not problem.contended or "capacities" in planner.supports:
        return planner.solve(problem, seconds=seconds, seed=seed)
    searches = "seconds" in planner.supports
    first = seconds if seconds is None or not searches else RELAXED_SHARE * seconds
    begin = planning_clock()
    relaxed = planner.solve(problem, seconds=first, seed=seed)
    schedule = pack(problem, relaxed.schedule)
    if searches:
        from weft.planners.search.packed import improve

        left = None if seconds is None else seconds - (planning_clock() - begin)
        objective = objective_of(planner)
        schedule = improve(problem, schedule, seconds=left, seed=seed, objective=objective)
    return Solution(schedule, relaxed.bound)  # a bound without capacities holds with them


def objective_of(planner: Planner, problem: Problem | None = None) -> Objective:
    """Return the objective of a planner; the makespan if it has no other one.

    With a problem, prices and jobs that do not fit it are refused, even if their weight is 0.
    """
    names = ("price", "jobs", "deadlines", "priorities")
    options = {name: getattr(planner, name) for name in names if hasattr(planner, name)}
    objective = Objective.of(getattr(planner, "objective", "makespan"), **options)
    if problem is not None:
        objective.refuse_misfits(problem)
    return objective


def planner_options(name: str) -> list[str]:
    """List the options of a planner.

    Examples
    --------
    >>> planner_options("heft"), planner_options("exact")
    (['rank', 'placement'], ['threads'])
    """
    return [o for o in inspect.signature(PLANNERS.factory(name)).parameters if o != "name"]


def timed_plan(
    problem: Problem,
    planner: str | PathLike[str] | Planner,
    *,
    seconds: float | None = None,
    seed: int = 0,
    min_accuracy: float | None = None,
    budget: float | None = None,
    **options: object,
) -> Plan:
    """Plan a problem; leave the overhead of a first call out of `plan.seconds`.

    The first call in a process imports modules and touches memory. So a quick planner is called
    twice, and the second call is timed; a planner that searches plans a small problem first.
    """
    if isinstance(planner, str | PathLike):
        chosen = load_planner(planner, **options)
    else:
        _refuse_options(options, (), f"planner object '{planner.name}'")
        chosen = planner
    refuse_two_limits(chosen, seconds)
    again = partial(plan, seconds=seconds, seed=seed, min_accuracy=min_accuracy, budget=budget)
    if "seconds" not in chosen.supports:
        first = again(problem, chosen)
        return first if first.seconds > TIMED_AGAIN else again(problem, chosen)
    with suppress(Unsupported):
        small = Problem.from_arrays([[1.0, 1.0], [1.0, 1.0]], [[0, 1]], [1.0], bandwidth=1.0)
        chosen.solve(small, seconds=0.01)
    return again(problem, chosen)


TIMED_AGAIN = 30.0
"""Seconds above which the difference no longer matters."""


def load_planner(planner: str | PathLike[str], **options: object) -> Planner:
    """Make a planner by its name, or by the path of its trained network.

    Unknown options, and those that do not fit, are refused.
    """
    name = fspath(planner)
    if name not in PLANNERS and is_model_path(name):
        name, options = _trained_kind(name), {"weights": name, **options}
    if options:  # looking up the options takes longer than a small plan
        _check_names(name, options)
        refuse_misfits(PLANNERS.factory(name), options, f"planner '{name}'")
    return PLANNERS.create(name, **options)


def is_trained_planner(path: str) -> bool:
    """Return whether a path is that of a planner's network."""
    return is_model_path(path) and read_model(find_model(path)).kind in PLANNERS


def _trained_kind(path: str) -> str:
    card = find_model(path)
    kind = read_model(card).kind
    if kind not in PLANNERS:
        raise InvalidInput(f"{card}: is a model of kind '{kind}', which is no planner but a policy")
    return kind


def refuse_two_limits(planner: Planner, seconds: float | None) -> None:
    """Refuse a time limit beside the number of moves that replaces it."""
    if seconds is not None and getattr(planner, "iterations", None) is not None:
        raise InvalidInput("seconds and iterations both limit the search; give one of the two")


def _check_names(name: str, options: Iterable[str]) -> None:
    known = planner_options(name)
    for option in (o for o in options if o not in known):
        others = [other for other in PLANNERS.names() if option in planner_options(other)]
        if others:
            raise UnknownName(
                f"planner '{name}' has no option '{option}'; planners that have it: "
                + ", ".join(others)
            )
    _refuse_options(options, known, f"planner '{name}'")


def _refuse_options(options: Iterable[str], known: Iterable[str], what: str) -> None:
    """Refuse unknown options with the closest one of the planner or of `weft.plan`."""
    known = list(known)
    for option in (o for o in options if o not in known):
        others = [name for name in (*known, *PLAN_OPTIONS) if name != option]
        raise UnknownName(f"{what} has no option '{option}'{closest(option, others)}")


@typed
def refuse_choices(problem: Problem, planner: str) -> None:
    """Refuse a workflow with choices: its tasks are not known beforehand."""
    if problem.workflow.conditional:
        raise Unsupported(
            f"planner '{planner}' does not plan workflow '{problem.name}': it has choices; "
            "give a policy instead, such as 'eft' or 'rank-first'"
        )
