"""Online learning of task durations, and choices by them.

- `bandit`: an ensemble of networks that chooses devices by Thompson sampling
- `end_time`: when a run will end, with bands; `spread`: how durations scatter
- `forest`: a random forest in compiled code
- `matrix_product`: speed of matrix products on this machine
- `model`: Bayesian regression of durations with change detection
"""

__all__ = ["bandit", "end_time", "forest", "matrix_product", "model", "spread"]
