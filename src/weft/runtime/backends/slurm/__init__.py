"""The Slurm backend: pilots that are job steps of one allocation.

- `allocation`: the nodes and cores that Slurm gave
- `backend`: the devices of a run
"""

__all__ = ["allocation", "backend"]
