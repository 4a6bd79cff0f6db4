"""The service over HTTP, behind `weft serve`.

- `answers`: plan, simulate and explain on request
- `cascade`: a cascade over HTTP, behind `weft cascade serve`
- `connections`: bounds of the head of a request
- `documents`: submitted documents as applications
- `http`: token and rate, routes, answers and refusals; the only file that imports Starlette
- `limits`: tokens, rates and refusals
- `live`: the data of live pages
- `metrics`: counters in the text format of Prometheus
- `openapi`: the description of the routes
- `routes`: the handlers
- `runs`: the runs of a server, from submission to end
- `server`: configuration and start; it and `connections` import uvicorn
- `spans`: runs as OpenTelemetry spans
- `state`: applications, runs, documents, counters and the page of a server
- `store`: runs and events on disk
- `work`: the functions that workers call
"""

__all__ = [
    "answers",
    "cascade",
    "connections",
    "documents",
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
