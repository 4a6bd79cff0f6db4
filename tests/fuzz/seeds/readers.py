"""Names of the readers, in two halves that take about as long, for two processes side by side."""

from tests.fuzz.seeds.corpus import SAMPLES
from tests.fuzz.seeds.models import policy_seeds
from tests.fuzz.seeds.state import STATE

OWN = (
    *(
        f"weft-{suffix} {noun}"
        for suffix in ("json", "npz")
        for noun in ("problem", "machines", "workflow", "cluster", "workload", "schedule", "trace")
    ),
    "weft-json gz",
    *("cluster-toml", "machines-toml", "network-toml", "variants-toml", "lab-toml"),
    *("stream-toml", "stream-toml network", "stream-toml several"),
)
"""Files of weft's own formats."""

OTHERS = (
    *("commands", "dot", "stg", "task-table", "taskgraph-v1", "wfformat", "static-graph"),
    *("callgraph", "model card", "model numbers", "job lists"),
    *policy_seeds(),
    *SAMPLES,
    *("cli plan", "cli arguments"),
    *(name for name, survives in STATE.items() if survives),
    *("history csv", "history json", "session eft", "session heft-replanned"),
    *("profile", "cascade", "payloads", "cli view"),
)
"""Files of other programs, models, command lines, and the state of runs."""
