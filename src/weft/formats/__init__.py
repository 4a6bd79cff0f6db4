"""Readers and writers of files.

- `loading`, `saving`: `load` and `save`, which go through the table of formats
- `table`: every format with its suffixes, reader and writer
- `holding`: refusals of what a format cannot hold
- `binding`: a workflow from a file on a cluster
- `batch`: plans as jobs of Slurm and HyperQueue
- `native`: weft's own JSON, NPZ and TOML
- `graphs`: DOT, STG, WfFormat, taskgraph-v1, static graphs and call graphs
- `traces`: records of other engines
- `chrome_trace`: schedules and traces for Perfetto
- `onnx_graph`: networks as ONNX files
- `model_file`: the one format of trained models
- `parsing`: sources, records and quantities with errors that name the file and the key
"""

from weft.formats.chrome_trace import chrome_trace
from weft.formats.loading import (
    list_formats,
    load,
    load_cluster,
    load_recording,
    load_result,
    load_schedule,
    load_trace,
    load_workflow,
    load_workload,
)
from weft.formats.saving import save, save_chrome_trace, to_text
from weft.formats.table import FORMATS, Format
from weft.formats.traces.recording import MeasuredExecution, Recording

__all__ = [
    "FORMATS",
    "Format",
    "MeasuredExecution",
    "Recording",
    "chrome_trace",
    "list_formats",
    "load",
    "load_cluster",
    "load_recording",
    "load_result",
    "load_schedule",
    "load_trace",
    "load_workflow",
    "load_workload",
    "save",
    "save_chrome_trace",
    "to_text",
]
