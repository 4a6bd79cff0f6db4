"""Inputs: applications from workflows, functions, Dask and Snakemake.

- `commands`: programs instead of functions
- `dask_graph`: Dask collections and graphs
- `functions`: functions, promises, networkx graphs
- `promises`: `weft.task`
- `snakemake`: durations and ranks of Snakemake jobs
"""

__all__ = ["commands", "dask_graph", "functions", "promises", "snakemake"]
