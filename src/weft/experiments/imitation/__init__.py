"""Networks that imitate HEFT (DeepSched) or a search.

experiment      reproduce, table
contenders      planners of the comparison
job_lists       the lists of jobs of the document's repository
runs            problems, and turnaround of the contenders on them
paper           the document's network
runtimes        the networks in ONNX and torch
statistics      ratios to HEFT
speed           time to schedule the document's sizes
report          the page
"""

__all__ = [
    "contenders",
    "experiment",
    "job_lists",
    "paper",
    "report",
    "runs",
    "runtimes",
    "speed",
    "statistics",
]
