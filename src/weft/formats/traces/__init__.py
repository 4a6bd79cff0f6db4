"""Records of other engines: what ran, where, when and for how long.

- `recording`: `MeasuredExecution` and `Recording`, and the problem that a recording describes
- `cells`: tables of text whose errors name line and column
- `nextflow`, `slurm`, `snakemake`, `dask_stream`: traces and accounts of these engines
- `chrome_events`, `otlp`: Chrome trace events and OpenTelemetry spans
"""

__all__ = [
    "cells",
    "chrome_events",
    "dask_stream",
    "nextflow",
    "otlp",
    "recording",
    "slurm",
    "snakemake",
]
