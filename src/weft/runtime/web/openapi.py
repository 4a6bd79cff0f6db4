"""The description of the routes, as an OpenAPI 3.1 document."""

from __future__ import annotations

from typing import Any, NamedTuple

from weft import __version__


class Route(NamedTuple):
    """A route: method, path, handler's name, summary, status and kind of answer."""

    method: str
    path: str
    handler: str
    summary: str
    status: int = 200
    content: str = "application/json"
    query: tuple[str, ...] = ()
    body: str = ""


ROUTES = (
    Route(
        "POST",
        "/v1/runs",
        "submit",
        "Submit a workflow, or a list of them, to run",
        202,
        query=("application", "priority", "id"),
        body="Submission",
    ),
    Route(
        "GET",
        "/v1/runs",
        "list_runs",
        "List the newest runs",
        query=("application", "state", "limit"),
    ),
    Route("GET", "/v1/runs/{id}", "show_run", "Show a run, with its results once it is done"),
    Route("DELETE", "/v1/runs/{id}", "cancel_run", "Cancel a run that waits or runs"),
    Route(
        "GET",
        "/v1/runs/{id}/events",
        "stream_events",
        "Stream the events of a run; Last-Event-ID resumes, status=1 adds its status",
        content="text/event-stream",
        query=("status",),
    ),
    Route(
        "GET", "/v1/runs/{id}/spans", "show_spans", "Show a run as OpenTelemetry spans (OTLP/JSON)"
    ),
    Route("GET", "/v1/runs/{id}/chart", "show_chart", "Show the plan of a run, as chart data"),
    Route(
        "GET",
        "/v1/live",
        "stream_status",
        "Stream the status of the service, once per second",
        content="text/event-stream",
    ),
    Route("POST", "/v1/plan", "plan", "Plan a workflow", body="Question"),
    Route("POST", "/v1/simulate", "simulate", "Simulate a policy on a workflow", body="Question"),
    Route(
        "POST", "/v1/explain", "explain", "Explain a plan, a schedule or a trace", body="Question"
    ),
    Route(
        "POST",
        "/v1/whatif",
        "whatif",
        "Say what other machines, links or faster tasks would change",
        body="Question",
    ),
    Route("GET", "/v1/applications", "list_applications", "List applications, shares and budgets"),
    Route("GET", "/v1/history", "show_history", "Show the measured durations of task kinds"),
    Route("GET", "/v1/openapi.json", "show_openapi", "Show this document"),
    Route("GET", "/metrics", "show_metrics", "Show metrics for Prometheus", content="text/plain"),
)
"""All routes of the server."""

_ERRORS = {
    "400": "The request is not valid.",
    "401": "The bearer token is missing or wrong.",
    "404": "There is no such run.",
    "408": "The body did not arrive in time.",
    "413": "The body is too large.",
    "429": "The rate or the queue is at its limit; Retry-After says when to retry.",
}

_SCHEMAS: dict[str, Any] = {
    "Error": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]},
    "Task": {
        "type": "object",
        "properties": {
            "function": {"type": "string"},
            "args": {"type": "array"},
            "kwargs": {"type": "object"},
            "command": {"type": "array", "items": {"type": "string"}},
        },
    },
    "Submission": {
        "type": "object",
        "description": "A workflow in weft JSON or WfFormat and what its tasks call.",
        "properties": {
            "workflow": {"type": "object"},
            "tasks": {
                "type": "object",
                "additionalProperties": {"$ref": "#/components/schemas/Task"},
            },
        },
        "required": ["workflow"],
    },
    "Question": {
        "type": "object",
        "description": "A problem, or a workflow with or without a cluster, and options.",
        "properties": {
            "problem": {"type": "object"},
            "workflow": {"type": "object"},
            "cluster": {"type": "object"},
            "planner": {"type": "string"},
            "policy": {"type": "string"},
            "schedule": {"type": "object"},
            "trace": {"type": "object"},
            "changes": {"type": "array", "items": {"type": "string"}},
            "seconds": {"type": "number"},
            "seed": {"type": "integer"},
        },
    },
}


def document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    bearer = {"type": "http", "scheme": "bearer"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "weft serve", "version": __version__},
        "paths": paths,
        "components": {"schemas": _SCHEMAS, "securitySchemes": {"token": bearer}},
        "security": [{"token": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": route.handler,
        "summary": route.summary,
        "responses": {
            str(route.status): {"description": "Success.", "content": {route.content: {}}},
            **{code: _error(text) for code, text in _ERRORS.items()},
        },
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string"}} for name in route.query
        ],
    }
    if "{id}" in route.path:
        made["parameters"].append(
            {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
        )
    if route.body:
        schema = {"$ref": f"#/components/schemas/{route.body}"}
        made["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    return made


def _error(text: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": text, "content": {"application/json": {"schema": schema}}}
