"""`weft.Session`: decisions of a policy in any program.

- `session`: events in, assignments out
- `jobs`: the jobs of a session, with room for more, their workflows and branches
- `file`: a saved session
"""

__all__ = ["file", "jobs", "session"]
