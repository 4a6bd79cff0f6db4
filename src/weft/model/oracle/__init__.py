"""The oracle behind `weft.model.check`, without code of planners or kernels.

- `violation`: a broken rule, and the comparisons that all rules share
- `trace_rules`: all rules of traces, and those about which rows there may be
- `trace_times`: rules about times; `trace_rows`: the rows as the rules read them
- `consequences`: what a scenario decides, whatever the policy
"""

__all__ = ["consequences", "trace_rows", "trace_rules", "trace_times", "violation"]
