# The public names of weft, and where each lives: the one list that Python, mypy and the docs read.

from . import errors as errors
from .errors import (
    InvalidInput as InvalidInput,
    MissingExtra as MissingExtra,
    Stuck as Stuck,
    UnknownName as UnknownName,
    Unsupported as Unsupported,
    WeftError as WeftError,
)
from .formats.loading import (
    list_formats as list_formats,
    load as load,
    load_cluster as load_cluster,
    load_workload as load_workload,
)
from .formats.saving import save as save
from .generators.clusters import gpu_cluster as gpu_cluster
from .generators.generators import generate as generate, list_generators as list_generators
from .model.builder import WorkflowBuilder as WorkflowBuilder
from .model.check import check as check
from .model.cluster import Cluster as Cluster, Device as Device, Links as Links
from .model.problem import Problem as Problem
from .model.scenario import Scenario as Scenario
from .model.schedule import Schedule as Schedule
from .model.trace import Trace as Trace
from .model.workflow import Workflow as Workflow
from .model.workload import Workload as Workload
from .planners.planner import (
    Plan as Plan,
    Planner as Planner,
    list_planners as list_planners,
    plan as plan,
)
from .policies.load import list_policies as list_policies, load_policy as load_policy
from .policies.simulate import simulate as simulate
from .report.compare import Comparison as Comparison, compare as compare
from .report.gantt_static import save_gantt as save_gantt
from .runtime.api import run as run
from .runtime.inputs.functions import task as task
from .sim.view import Decision as Decision, Policy as Policy, View as View

__version__: str
