"""Inputs: applications from workflows, functions, Dask and Snakemake.

- `dask_graph`: Dask collections and graphs
- `functions`: functions, promises, networkx graphs
- `promises`: `weft.task`
- `snakemake`: durations and ranks of Snakemake jobs
"""

__all__ = ["dask_graph", "functions", "promises", "snakemake"]
