"""Online learning of task durations, and choices by them.

- `end_time`: when a run will end, with bands; `spread`: how durations scatter
- `model`: Bayesian regression of durations with change detection
"""

__all__ = ["end_time", "model", "spread"]
