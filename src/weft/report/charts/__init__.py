"""Charts as SVG, without scripts.

- `scatter`: every task as a point, measured over predicted
- `search_curve`: best makespan and bound over the time of a search
- `small_chart`: a small Gantt chart
"""

__all__ = ["scatter", "search_curve", "small_chart"]
