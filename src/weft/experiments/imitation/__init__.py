"""Networks that imitate HEFT (DeepSched) or a search.

experiment      reproduce, table
contenders      planners of the comparison
runs            problems, and turnaround of the contenders on them
statistics      ratios to HEFT
speed           time to schedule the document's sizes
amortised       gains of the planner `amortised`, with and without its network
published_like  random graphs like those with published best makespans
report          the page
"""

__all__ = [
    "amortised",
    "contenders",
    "experiment",
    "published_like",
    "report",
    "runs",
    "speed",
    "statistics",
]
