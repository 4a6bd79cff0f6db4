"""The service over HTTP, behind `weft serve`.

- `answers`: plan, simulate and explain on request
- `app`: the routes; the only file that imports Starlette
- `board`: the events of one run, for `weft run --live`
- `cascade`: a cascade over HTTP, behind `weft cascade serve`
- `documents`: submitted documents as applications
- `limits`: token, rate and refusals
- `live_server`: the server of `weft run --live`
- `live_status`: the status of a service and its runs
- `metrics`: counters in the text format of Prometheus
- `openapi`: the description of the routes
- `runs`: the runs of a server, from submission to end
- `server`: configuration and start; the only file that imports uvicorn
- `spans`: runs as OpenTelemetry spans
- `store`: runs and events on disk
- `work`: the functions that workers call
"""

__all__ = [
    "answers",
    "app",
    "board",
    "cascade",
    "documents",
    "limits",
    "live_server",
    "live_status",
    "metrics",
    "openapi",
    "runs",
    "server",
    "spans",
    "store",
    "work",
]
