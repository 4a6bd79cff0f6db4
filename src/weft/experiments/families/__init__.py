"""Families of real workflows: the gain of re-planning with search.

No policy was chosen by its results on these cases.

experiment  reproduce, table
contenders  rules, trained policies, and the search policy with its parts
clairvoyant a search that has the future in advance
rollouts    decisions followed to the end in sampled futures
runs        steps of the experiment: one case each, generated or measured
statistics  ratios with intervals, targets, the ablation
report      the page
"""

__all__ = ["clairvoyant", "contenders", "experiment", "report", "rollouts", "runs", "statistics"]
