"""Answers on pages: why a result takes as long as it does, and which is best.

- `cause_data`: causes and the critical chain for the script of a Gantt chart
- `contenders`: bars per contender, split by cause
- `waterfall`: from a predicted makespan to the measured one
"""

__all__ = ["cause_data", "contenders", "waterfall"]
