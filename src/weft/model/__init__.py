"""Pure data on numpy: problems, plans, scenarios and traces.

- `workflow`, `builder`: tasks, edges and choices; `cluster`: devices and links
- `network`: links that transfers share
- `variants`: several ways to run a task
- `problem`: a workflow bound to a cluster; `costs`: its costs; `workload`: jobs over time
- `conditional_stream`: a conditional problem that arrives repeatedly; `published_draws`: drawn as
  a published simulator does
- `machines`: set-up, what devices load before they run a kind of task; capacity of devices
- `scenario`: one drawn future; `schedule`: an intended plan; `trace`: an execution
- `check`, `oracle`: the oracle; `metrics`: figures of schedules and traces
- `explain`: why a plan or trace takes as long as it does
- `columns`: read-only columns, and checks whose errors name column and value
"""

from weft.model.builder import WorkflowBuilder
from weft.model.cluster import Cluster
from weft.model.machines import Device, Links, Setup
from weft.model.network import Port, Topology, Transfers, Trunk
from weft.model.problem import Problem, ProblemArrays
from weft.model.scenario import Scenario
from weft.model.schedule import Schedule
from weft.model.trace import Trace
from weft.model.variants import Variant
from weft.model.workflow import Choices, Workflow
from weft.model.workload import Workload

__all__ = [
    "Choices",
    "Cluster",
    "Device",
    "Links",
    "Port",
    "Problem",
    "ProblemArrays",
    "Scenario",
    "Schedule",
    "Setup",
    "Topology",
    "Trace",
    "Transfers",
    "Trunk",
    "Variant",
    "Workflow",
    "WorkflowBuilder",
    "Workload",
]
