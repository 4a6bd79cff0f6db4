"""Runs whose workers, drivers and heads are killed at any moment; services under attack.

    python -m tests.chaos --local 50 --driver 30 --dask 10 --ray 10 --service 600

- `work`: the graph that runs, and the values it must give
- `processes`: victims and left-over processes
- `cascade`: a cascade under load whose units are killed
- `campaigns`: local, Dask and Ray runs with killed workers; drivers that are killed and resumed
- `service`: a service with killed workers, failing applications, bursts, cancelled submissions
- `soak`: a saturated service: memory, descriptors, threads, shares and priorities
- `__main__`: the command
"""
