"""Inputs: applications from workflows, functions, Dask and Snakemake.

- `airflow`: priority weights of Airflow tasks
- `commands`: programs instead of functions
- `dask_graph`: Dask collections and graphs
- `functions`: functions, promises, networkx graphs
- `promises`: `weft.task`
- `signatures`: missing and unknown arguments of calls
- `snakemake`: durations and ranks of Snakemake jobs
- `variants`: tasks that run in one of several ways
"""

__all__ = [
    "airflow",
    "commands",
    "dask_graph",
    "functions",
    "promises",
    "signatures",
    "snakemake",
    "variants",
]
