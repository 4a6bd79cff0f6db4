"""Costs: measured durations and transfers, and the estimates made of them.

- `drift`: correction of estimates during a run
- `estimates`: problems with estimated durations
- `forecast`: when a run will end
- `history`: the file of measurements
- `profiler`: devices of this machine and micro-benchmarks
- `recorded`: traces of other engines as measurements
"""

__all__ = ["drift", "estimates", "forecast", "history", "profiler", "recorded"]
