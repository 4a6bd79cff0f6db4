"""A cluster of unlike hosts on one machine: namespaces, shaped links and processor quotas.

- `spec`: hosts and links from a TOML file
- `commands`, `names`, `control_groups`, `network`: the parts of the system that the lab uses
- `lab`: a lab from its start to its removal; `guard` removes it when its owner is killed
- `engines`: Dask and Ray inside a lab
- `workloads`: task graphs with real data; `ways`: their runs by an engine alone and by weft
- `driver`: the process on the head that runs rounds; `table`, `page`: the results
- `faults`: hosts that are cut off or killed during a run

`python -m benchmarks.lab --help` lists the commands.
"""
