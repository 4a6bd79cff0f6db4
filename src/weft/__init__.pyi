# The public names of weft, and where each lives: the one list that Python, mypy and the docs read.

from . import errors as errors
from .errors import InvalidInput as InvalidInput
from .errors import MissingExtra as MissingExtra
from .errors import Stuck as Stuck
from .errors import UnknownName as UnknownName
from .errors import Unsupported as Unsupported
from .errors import WeftError as WeftError
from .formats.loading import list_formats as list_formats
from .formats.loading import load as load
from .formats.loading import load_cluster as load_cluster
from .formats.loading import load_workload as load_workload
from .formats.saving import save as save
from .generators.clusters import gpu_cluster as gpu_cluster
from .generators.generators import generate as generate
from .generators.generators import list_generators as list_generators
from .model.builder import WorkflowBuilder as WorkflowBuilder
from .model.check import check as check
from .model.cluster import Cluster as Cluster
from .model.cluster import Device as Device
from .model.cluster import Links as Links
from .model.explain import Explanation as Explanation
from .model.explain import compare_explanations as compare_explanations
from .model.explain import explain as explain
from .model.problem import Problem as Problem
from .model.scenario import Scenario as Scenario
from .model.schedule import Schedule as Schedule
from .model.trace import Trace as Trace
from .model.workflow import Workflow as Workflow
from .model.workload import Workload as Workload
from .planners.planner import Plan as Plan
from .planners.planner import Planner as Planner
from .planners.planner import list_planners as list_planners
from .planners.planner import plan as plan
from .policies.load import list_policies as list_policies
from .policies.load import load_policy as load_policy
from .policies.simulate import simulate as simulate
from .report.compare import Comparison as Comparison
from .report.compare import compare as compare
from .report.gantt_static import save_gantt as save_gantt
from .runtime.api import run as run
from .runtime.inputs.functions import task as task
from .sim.view import Decision as Decision
from .sim.view import Policy as Policy
from .sim.view import View as View

__version__: str
