"""Planners that search: the longer they run, the better their plans.

- `anytime`: the planner `anytime`: the best quick plan, improved by annealing
- `exact`: the planner `exact`: a constraint model for CP-SAT
- `genetic`: the planners `genetic` and `genetic-waiting`
- `decoder`: order of tasks and devices -> schedule
- `annealing`: moves and acceptance of simulated annealing
- `duplicating`: decoder and annealing for schedules with copies
- `packed`: decoder and annealing for nodes with capacities
- `team`: annealing chains on several threads
- `warm_start`: the best schedule of the quick planners
- `forward_backward`: list scheduling from both ends of the graph, and HEFT with other weights of
  transfers
- `enumeration`: all assignments of devices of small problems
- `effort`: expected times of the parts of a search
- `clock`: the time budget
"""

__all__ = [
    "annealing",
    "anytime",
    "clock",
    "decoder",
    "duplicating",
    "effort",
    "enumeration",
    "exact",
    "forward_backward",
    "genetic",
    "packed",
    "team",
    "warm_start",
]
