"""The service over HTTP, behind `weft serve`.

- `answers`: plan, simulate and explain on request
- `app`: the table of routes with their handlers, which are in `routes`
- `cascade`: a cascade over HTTP, behind `weft cascade serve`
- `documents`: submitted documents as applications
- `entrance`: token and rate, before any route
- `http`: answers and refusals; the only file that imports Starlette
- `limits`: token, rate and refusals
- `live`: the data of live pages
- `metrics`: counters in the text format of Prometheus
- `openapi`: the description of the routes
- `routes`: the handlers, by group
- `runs`: the runs of a server, from submission to end
- `server`: configuration and start; the only file that imports uvicorn
- `spans`: runs as OpenTelemetry spans
- `state`: what a server has
- `store`: runs and events on disk
- `work`: the functions that workers call
"""

__all__ = [
    "answers",
    "app",
    "cascade",
    "documents",
    "entrance",
    "http",
    "limits",
    "live",
    "metrics",
    "openapi",
    "routes",
    "runs",
    "server",
    "spans",
    "state",
    "store",
    "work",
]
