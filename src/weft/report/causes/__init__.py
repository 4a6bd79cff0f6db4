"""Answers on pages: why a plan or run takes as long as it does, and which contender is best.

- `cause_data`: causes and the critical chain for the script of a Gantt chart
- `contenders`: bars per contender, split by cause; `crown`: which of them are best
- `scatter`: every task as a point, measured over predicted
- `waterfall`: from a predicted makespan to the measured one
- `search_curve`: best makespan and bound over the time of a search
- `live`: the page that follows a run
- `view`: pages about saved results
- `notebook`, `small_chart`: results in notebooks, without scripts
"""

__all__ = [
    "cause_data",
    "contenders",
    "crown",
    "live",
    "notebook",
    "scatter",
    "search_curve",
    "small_chart",
    "view",
    "waterfall",
]
