"""The HyperQueue backend: pilots that are tasks of a HyperQueue server.

- `backend`: the devices of a run
- `server`: a server that weft starts
"""

__all__ = ["backend", "server"]
