"""Reading and writing: weft JSON, NPZ and TOML, taskgraph-v1, WfFormat, static graphs, STG, DOT, Chrome trace."""

from weft.formats.chrome_trace import chrome_trace
from weft.formats.loading import (
    load,
    load_cluster,
    load_schedule,
    load_trace,
    load_workflow,
    load_workload,
)
from weft.formats.saving import save, save_chrome_trace, to_text

__all__ = [
    "chrome_trace",
    "load",
    "load_cluster",
    "load_schedule",
    "load_trace",
    "load_workflow",
    "load_workload",
    "save",
    "save_chrome_trace",
    "to_text",
]
