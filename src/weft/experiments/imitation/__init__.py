"""Networks that imitate HEFT (DeepSched) or a search.

experiment      reproduce, table
contenders      planners of the comparison
runs            problems, and turnaround of the contenders on them
statistics      ratios to HEFT
speed           time to schedule the document's sizes
report          the page
"""

__all__ = ["contenders", "experiment", "report", "runs", "speed", "statistics"]
