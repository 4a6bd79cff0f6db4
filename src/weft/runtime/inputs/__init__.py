"""Inputs: applications from workflows, functions, Dask and Snakemake.

- `dask_graph`: Dask collections
- `functions`: functions, `weft.task`, networkx graphs
- `snakemake`: durations and ranks of Snakemake jobs
"""

__all__ = ["dask_graph", "functions", "snakemake"]
