"""Answers without a run: plan, simulate, explain, what if.

A new one is a row of `ANSWERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, TypeVar

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.formats.binding import bind, own_cluster
from weft.formats.native.weft_schema import decode
from weft.formats.parsing.record import Record
from weft.model import Cluster, Problem, Schedule, Trace
from weft.model.check import check
from weft.model.explain import explain
from weft.planners.planner import PLANNERS, Plan, plan
from weft.planners.whatif.answer import whatif
from weft.policies import POLICIES
from weft.policies.simulate import simulate
from weft.registry import Registry
from weft.runtime.web.documents import read_workflow

MAX_CELLS = 2_000_000
"""Tasks times devices of a problem that is answered."""

MAX_SECONDS = 10.0
"""Time limit of planners that search."""

MAX_CHANGES = 20
"""Changes in one what-if question."""

SMALL = 64
"""Tasks up to which a list planner answers within a millisecond."""

T = TypeVar("T")

NUMBERS = ("noise", "bias", "slowdowns", "failures")


class Question:
    """A request and the devices that are taken if it names none."""

    def __init__(self, content: Any, devices: Cluster) -> None:
        self.record = Record(content, "the request")
        self._devices = devices

    def problem(self) -> Problem:
        """Return the problem of weft JSON, or of a workflow with or without a cluster."""
        r = self.record
        if "problem" in r:
            found = self.part("problem", Problem)
        else:
            workflow = read_workflow(r.child("workflow"))
            if "cluster" in r:
                cluster = self.part("cluster", Cluster)
            else:
                cluster = own_cluster(workflow) if workflow.durations else self._devices
            found = bind(workflow, cluster)
        if found.n * found.cluster.p > MAX_CELLS:
            raise InvalidInput(
                f"{found.n} tasks on {found.cluster.p} devices; their product is at most "
                f"{MAX_CELLS} here: use the command line"
            )
        return found

    def part(self, key: str, kind: type[T]) -> T:
        """Return an object in weft JSON, with or without its format."""
        name = f"weft-{key}-1"
        found = decode(Record({"format": name, **self.record.child(key).content}))
        if not isinstance(found, kind):
            raise InvalidInput(f"'{key}' holds another object; give {name}")
        return found

    def number(self, key: str, default: float, least: float, most: float) -> float:
        """Return a number within bounds."""
        value = self.record.raw(key, default)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not least <= value <= most:
            raise InvalidInput(
                f"{key} must be a number from {least:g} to {most:g}; not {shown(value)}"
            )
        return float(value)

    def seed(self) -> int:
        """Return the seed; 0 by default."""
        return int(self.number("seed", 0, 0, 2**31))

    def name(self, key: str, default: str, table: Registry[Any]) -> str:
        """Return a registered name, never a path."""
        name = self.record.text(key, default)
        table.factory(name)  # refuses unknown names
        return name

    def plan(self) -> Plan:
        """Plan the problem with the planner of the request."""
        name = self.name("planner", "heft", PLANNERS)
        seconds = self.number("seconds", 2.0, 0.01, MAX_SECONDS)
        return plan(self.problem(), name, seconds=seconds, seed=self.seed())

    def small(self) -> bool:
        """Return whether the answer takes less time than handing it to a thread."""
        r = self.record.content
        inside = r.get("problem", r)
        workflow = inside.get("workflow") if isinstance(inside, dict) else None
        work = workflow.get("work") if isinstance(workflow, dict) else None
        quick = r.get("planner", "heft") == "heft"
        return isinstance(work, list) and len(work) <= SMALL and quick


def _plan(question: Question) -> dict[str, Any]:
    question.record.only(("problem", "workflow", "cluster", "planner", "seconds", "seed"))
    made = question.plan()
    return {
        "planner": made.planner,
        "makespan": made.makespan,
        "bound": made.bound,
        "gap": made.gap,
        "status": made.status,
        "seconds": made.seconds,
        "schedule": _columns(made.problem, made.schedule),
    }


def _columns(problem: Problem, schedule: Schedule) -> dict[str, Any]:
    """Return the rows of a schedule by column, with names."""
    rows = schedule.to_arrays()
    names, devices = problem.workflow.task_names, problem.cluster.names
    return {
        "task": [names[t] for t in rows["task"].tolist()],
        "device": [devices[d] for d in rows["device"].tolist()],
        "start": rows["start"].tolist(),
        "finish": rows["finish"].tolist(),
    }


def _simulate(question: Question) -> dict[str, Any]:
    question.record.only(("problem", "workflow", "cluster", "policy", "seed", *NUMBERS))
    policy = question.name("policy", "eft", POLICIES)
    chances: dict[str, Any] = {key: question.number(key, 0.0, 0.0, 10.0) for key in NUMBERS}
    trace = simulate(question.problem(), policy, seed=question.seed(), **chances)
    return {
        "policy": trace.policy,
        "makespan": trace.makespan,
        "utilisation": trace.utilisation,
        "executions": len(trace),
    }


def _explain(question: Question) -> dict[str, Any]:
    r = question.record
    r.only(("problem", "workflow", "cluster", "planner", "seconds", "seed", "schedule", "trace"))
    if "trace" in r:
        trace = question.part("trace", Trace)
        _refuse_violations(check(trace.workload, trace), "trace")
        return explain(trace).as_dict()
    if "schedule" in r:
        schedule, problem = question.part("schedule", Schedule), question.problem()
        _refuse_violations(check(problem, schedule), "schedule")
        return explain(schedule, problem).as_dict()
    return explain(question.plan()).as_dict()


def _whatif(question: Question) -> dict[str, Any]:
    r = question.record
    r.only(("problem", "workflow", "cluster", "planner", "seconds", "seed", "changes"))
    return answer_changes(question.plan(), r.strings("changes"), question)


def answer_changes(before: Plan, changes: Sequence[str], question: Question) -> dict[str, Any]:
    """Return what changes, as texts such as "add 1xA100", would do to a plan."""
    if len(changes) > MAX_CHANGES:
        raise InvalidInput(f"{len(changes)} changes; at most {MAX_CHANGES} are answered")
    seconds = question.number("seconds", 2.0, 0.01, MAX_SECONDS)
    return whatif(
        before.problem,
        changes,
        planner=before.planner,
        seconds=seconds,
        seed=question.seed(),
        before=before,
    ).as_dict()


def _refuse_violations(found: Any, what: str) -> None:
    if found:
        raise InvalidInput(f"the {what} is not valid: {found[0]}")


ANSWERS: Mapping[str, Callable[[Question], dict[str, Any]]] = {
    "plan": _plan,
    "simulate": _simulate,
    "explain": _explain,
    "whatif": _whatif,
}
"""Name of a question -> its answer."""


def plain(value: Any) -> Any:
    """Return lists, dicts and numbers that JSON can hold, null for what is not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return None if isinstance(value, float) and not isfinite(value) else value
