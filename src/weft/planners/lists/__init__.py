"""List scheduling: a rank orders the tasks, a placement chooses devices.

HEFT, CPOP, PEFT and the other combinations are rows of `placements.COMBINATIONS`.

- `heft`: HEFT, and its placement by earliest finish for other ranks
- `peft`: PEFT and its optimistic cost table
- `placements`: `ListPlanner`, the placements by name, and all planners that combine them
- `ranks`: the ranks by name, and the order that a rank gives
- `insertion`: steps that list planners share, and placement at the end of a device
- `common_link`: earliest finish on many devices with links alike; `loading`: on devices that load
  kinds of tasks
- `numbering`: tasks and devices numbered so that what a placement reads is close in memory
- `gap_starts`: lower limits on the start in an idle gap
- `lookahead`: placement by the finish of the children
- `duplication`: placement that may copy a parent (DEFT)
- `dynamic`: planners that choose the next task at every step (DLS, ETF, Min-Min and others)
- `portfolio`: the best of several
- `clustering`: clusters along critical parents (TDCA)
"""

__all__ = [
    "clustering",
    "common_link",
    "duplication",
    "dynamic",
    "gap_starts",
    "heft",
    "insertion",
    "loading",
    "lookahead",
    "numbering",
    "peft",
    "placements",
    "portfolio",
    "ranks",
]
