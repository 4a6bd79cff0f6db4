"""Handlers of the routes: a class per group, a method per route of `openapi.ROUTES`.

- `runs`: submissions, runs and their events
- `questions`: plan, simulate, explain, what if
- `pages`: the live page and the data of its charts; applications, history and metrics
"""

__all__ = ["pages", "questions", "runs"]
