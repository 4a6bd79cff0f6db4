"""Pure data on numpy: what must be done, on what, what was planned, drawn and seen."""

from weft.model.builder import WorkflowBuilder
from weft.model.cluster import Cluster, Device, Links
from weft.model.problem import Problem, ProblemArrays
from weft.model.scenario import Scenario
from weft.model.schedule import Schedule
from weft.model.trace import Trace
from weft.model.workflow import Choices, Workflow
from weft.model.workload import Workload

__all__ = [
    "Choices",
    "Cluster",
    "Device",
    "Links",
    "Problem",
    "ProblemArrays",
    "Scenario",
    "Schedule",
    "Trace",
    "Workflow",
    "WorkflowBuilder",
    "Workload",
]
