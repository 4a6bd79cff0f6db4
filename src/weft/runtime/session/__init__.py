"""`weft.Session`: decisions of a policy in any program.

- `session`: events in, assignments out
- `jobs`: the jobs of a session, with room for more
- `outcomes`: the branches that tasks took, as callers name them
- `file`: a saved session
- `templates`: the workflows that jobs run
"""

__all__ = ["file", "jobs", "outcomes", "session", "templates"]
