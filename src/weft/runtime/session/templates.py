"""The workflows that jobs of a session run: each is bound to the cluster once."""

from __future__ import annotations

from weft.errors import InvalidInput
from weft.model import Cluster, Problem, Workflow
from weft.model.conditional_stream import ConditionalStream
from weft.runtime.session.file import encoded


def bound(workflow: Workflow | Problem, cluster: Cluster) -> Problem:
    """Return the problem of a workflow on the cluster of the session."""
    return workflow if isinstance(workflow, Problem) else Problem.bind(workflow, cluster)


def template_of(workflow: Workflow | Problem, problems: list[Problem], cluster: Cluster) -> int:
    """Return the number of a workflow among the problems; a new one is added to them."""
    graph = workflow if isinstance(workflow, Workflow) else workflow.workflow
    for number, known in enumerate(problems):
        if graph is known.workflow:
            return number
    same = [encoded(graph) == encoded(known.workflow) for known in problems]
    if any(same):
        return same.index(True)
    problems.append(bound(workflow, cluster))
    return len(problems) - 1


def require_alike(stream: ConditionalStream, problems: list[Problem], cluster: Cluster) -> None:
    """Raise unless a stream has the tasks, edges, branches and units of the session."""
    new = stream.problem
    if (
        not problems
        or new.cluster.names != cluster.names
        or _shape(problems[0].workflow) != _shape(new.workflow)
    ):
        raise InvalidInput(
            f"stream '{stream.name}' has other tasks or units than the session; "
            "only times, probabilities and arrivals may differ"
        )


def _shape(workflow: Workflow) -> tuple[object, ...]:
    ends = (workflow.src.tolist(), workflow.dst.tolist())
    return workflow.task_names, *ends, list(workflow.choices.labels)
