"""Tasks with several variants: which one to run, and the front of trade-offs.

- `selection`: the variants of a plan under limits on accuracy and cost
- `planning`: a planner's plan of such a problem
- `proof`: the best variants and plan of small problems, proven
- `front`: plans that no other one beats in makespan, cost, energy and accuracy
"""

from weft.planners.variants.front import FrontPlan, pareto

__all__ = ["FrontPlan", "pareto"]
