"""Runs whose workers, drivers and heads are killed at any moment.

    python -m tests.chaos --local 50 --driver 30 --dask 10 --ray 10

- `work`: the graph that runs, and the values it must give
- `processes`: victims and left-over processes
- `campaigns`: local, Dask and Ray runs with killed workers; drivers that are killed and resumed
- `__main__`: the command
"""
