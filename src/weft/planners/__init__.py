"""Static planning, Problem -> Schedule.

- `planner`: the protocol, the table of planners, `plan` and its certificate
- `bounds`: proven lower bounds on the makespan
- `colocation`: a stronger bound for schedules without copies
- `capacity_bounds`: bounds from shared capacities
- `repair`: `replan`, after a lost device or a longer task; `plan_cache`: `PlanCache`
- `replays`: plans for set-ups and shared links, compared by replay; `contention`, `setups`: the
  estimates that planners plan for
- `packing`: plans for nodes whose tasks share capacities
- `objective`: makespan, energy, cost, completion, waiting
- `lists`: list scheduling (HEFT and others): a rank times a placement
- `search`: planners that use a time budget: `anytime`, `exact`, `genetic`
- `partitioned`: very large graphs in parts, planned side by side
- `imitation`: networks that imitate planners: `deepsched`
- `whatif`: changed machines and tasks, planned again; `sizing`: which machines to rent
- `variants`: tasks with several ways to run them
"""

from weft.planners.imitation.deepsched import planner as _deepsched  # noqa: F401  # registers
from weft.planners.lists import clustering as _clustering  # noqa: F401  # registers
from weft.planners.lists import dynamic as _dynamic  # noqa: F401  # registers
from weft.planners.lists import placements as _placements  # noqa: F401  # registers
from weft.planners.lists import portfolio as _portfolio  # noqa: F401  # registers
from weft.planners.partitioned import planner as _partitioned  # noqa: F401  # registers
from weft.planners.planner import PLANNERS, SUPPORTED, Plan, Planner, Solution, plan, refuse_choices
from weft.planners.search import anytime as _anytime  # noqa: F401  # registers
from weft.planners.search import exact as _exact  # noqa: F401  # registers
from weft.planners.search import genetic as _genetic  # noqa: F401  # registers

__all__ = ["PLANNERS", "SUPPORTED", "Plan", "Planner", "Solution", "plan", "refuse_choices"]
