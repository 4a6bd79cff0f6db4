"""List scheduling: tasks in the order of a rank, each to a device that a placement chooses.

HEFT, CPOP, PEFT and the other combinations are rows of `placements.COMBINATIONS`.

- `placements`: `ListPlanner`, the placements by name, HEFT and all other combinations
- `ranks`: the ranks by name, and the order that a rank gives
- `insertion`: earliest finish time with insertion, and placement at the end of a device
- `optimistic`: the optimistic cost table of PEFT
- `lookahead`: placement by the finish of the children
- `duplication`: placement that may copy a parent (DEFT)
- `dynamic`: planners that choose the next task at every step (DLS, ETF, Min-Min and others)
- `clustering`: clusters along critical parents (TDCA)
"""

__all__ = [
    "clustering",
    "duplication",
    "dynamic",
    "insertion",
    "lookahead",
    "optimistic",
    "placements",
    "ranks",
]
