"""Runs as OpenTelemetry spans in OTLP's JSON encoding.

There is a span per run and per task.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from weft import __version__


def run_spans(run: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the spans of a run as an OTLP export request.

    Ids follow from the run's id.
    """
    trace, root = _digest(run["id"], 32), _digest(f"{run['id']} run", 16)
    end = run["ended"] or max([run["submitted"], *(e["time"] for e in events)])
    spans = [
        {
            **_span(trace, root, str(run["name"]), run["submitted"], end),
            "attributes": _attributes(
                {"weft.run": run["id"], "weft.application": run["application"]}
            ),
            "status": _status(run["state"] == "failed", run["error"] or ""),
        }
    ]
    ends = [event for event in events if event["kind"] in ("finished", "failed")]
    spans += [_task_span(trace, root, event) for event in ends]
    scope = {"scope": {"name": "weft", "version": __version__}, "spans": spans}
    resource = {"attributes": _attributes({"service.name": "weft"})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def _task_span(trace: str, root: str, event: Mapping[str, Any]) -> dict[str, Any]:
    own = _digest(f"{trace} {event['seq']}", 16)
    return {
        **_span(trace, own, event["task"], event["time"] - event["seconds"], event["time"]),
        "parentSpanId": root,
        "attributes": _attributes({"weft.task": event["task"], "weft.device": event["device"]}),
        "status": _status(event["kind"] == "failed", event.get("error", "")),
    }


def _span(trace: str, own: str, name: str, start: float, end: float) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": own,
        "name": name,
        "kind": 1,  # internal
        "startTimeUnixNano": str(round(start * 1e9)),
        "endTimeUnixNano": str(round(end * 1e9)),
    }


def _status(failed: bool, text: str) -> dict[str, Any]:
    return {"code": 2, "message": text} if failed else {"code": 1}


def _attributes(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]
