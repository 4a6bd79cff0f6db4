"""The data of live pages, while a run or a service goes on.

- `board`: the events of one run, for `weft run --live`
- `cascade`: the status of a cascade
- `reference_plans`: reference plans of runs, and forecasts of their ends
- `server`: the server of `weft run --live`
- `status`: the status of a service and its runs
- `waiting`: waiting tasks by reason over time
"""

__all__ = ["board", "cascade", "reference_plans", "server", "status", "waiting"]
