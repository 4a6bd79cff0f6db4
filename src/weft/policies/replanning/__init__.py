"""List scheduling of all uncommitted tasks at every event, by weights.

- `weights`: named weights of ranks, job keys and device scores
- `state`: state of one plan
- `feedback`: busy devices, and observed against estimated durations
- `placement`: one plan, by weights
- `affinity`: jobs that stay on one node or device
- `incumbent`: a plan that is kept and improved by local search
- `switch`: network that decides whether to keep the incumbent
- `shrinkage`: network that decides how far observed durations are trusted
- `portfolio`: several plans, of which the best is followed
- `prices`: prices of the seconds of devices in streams
- `policy`: the policies
- `static_heft`: HEFT, planned once per job
- `trained`: trained policies on disk
"""

__all__ = [
    "affinity",
    "feedback",
    "incumbent",
    "placement",
    "policy",
    "portfolio",
    "prices",
    "shrinkage",
    "state",
    "static_heft",
    "switch",
    "trained",
    "weights",
]
