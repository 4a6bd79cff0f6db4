"""OpenTelemetry spans in OTLP JSON: one document, or one per line (collector)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.formats.parsing.limits import JSON_LINE_CELLS, split_lines
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import parse_json
from weft.formats.traces.recording import MeasuredExecution, Recording, distinct

ERROR = frozenset({2, "STATUS_CODE_ERROR"})

_FIRST_LINE = re.compile(r'\s*+\{\s*+"resourceSpans"')


def is_otlp(record: Record) -> bool:
    """Return whether a record holds spans."""
    return isinstance(record.content.get("resourceSpans"), list)


def is_otlp_lines(text: str) -> bool:
    """Return whether a text holds one document of spans per line."""
    return _FIRST_LINE.match(text) is not None


class _Span(NamedTuple):
    name: str
    start: int
    end: int
    host: str
    parent: str
    links: tuple[str, ...]
    failed: bool


def read_otlp_lines(text: str, *, name: str) -> Recording:
    """Return the spans of all lines."""
    lines = enumerate(split_lines(text, cells=JSON_LINE_CELLS), 1)
    filled = ((i, line) for i, line in lines if line.strip())
    return read_otlp([Record(parse_json(line), f"line {i}") for i, line in filled], name=name)


def read_otlp(documents: list[Record], *, name: str) -> Recording:
    """Return the innermost spans as tasks, with their names as kinds.

    A span that contains another one is not a task. A span waits for its parent and for the spans it
    links to, if they ended before it started.
    """
    spans: dict[str, _Span] = {}
    for document in documents:
        for group in document.children("resourceSpans"):
            for key, span in _spans(group):
                if key in spans:
                    raise InvalidInput(f"span {shown(key)} is given twice")
                spans[key] = span
    outer = {s.parent for s in spans.values() if s.parent in spans and _around(spans[s.parent], s)}
    tasks = {key: span for key, span in spans.items() if key not in outer}
    names = dict(zip(tasks, distinct(s.name for s in tasks.values()), strict=True))
    made = []
    for key, span in sorted(tasks.items(), key=lambda item: (item[1].start, names[item[0]])):
        before = dict.fromkeys(
            k for k in (span.parent, *span.links) if k in tasks and tasks[k].end <= span.start
        )
        made.append(
            MeasuredExecution(
                task=names[key],
                kind=span.name,
                seconds=(span.end - span.start) / 1e9,
                start=span.start / 1e9,
                host=span.host,
                parents=tuple(names[k] for k in before if k != key),
                done=not span.failed,
            )
        )
    return Recording(name, "OpenTelemetry", tuple(made))


def _around(outer: _Span, inner: _Span) -> bool:
    return outer.start <= inner.start and outer.end > inner.start


def _spans(group: Record) -> Iterator[tuple[str, _Span]]:
    resource = group.child("resource") if "resource" in group else Record({})
    host = _attribute(resource, "host.name") or _attribute(resource, "service.name")
    for scope in group.children("scopeSpans"):
        for span in scope.children("spans") if "spans" in scope else ():
            start, end = (_nanoseconds(span, f"{k}TimeUnixNano") for k in ("start", "end"))
            if end < start:
                raise InvalidInput(f"{span.where} ends before it starts")
            links = span.children("links") if "links" in span else []
            status = span.raw("status", {})
            code = status.get("code") if isinstance(status, dict) else None
            yield (
                span.text("spanId"),
                _Span(
                    span.text("name"),
                    start,
                    end,
                    host,
                    span.text("parentSpanId", ""),
                    tuple(link.text("spanId", "") for link in links),
                    isinstance(code, int | str) and code in ERROR,
                ),
            )


def _attribute(record: Record, key: str) -> str:
    for row in record.children("attributes") if "attributes" in record else ():
        if row.text("key", "") == key and "value" in row:
            return row.child("value").text("stringValue", "")
    return ""


def _nanoseconds(span: Record, key: str) -> int:
    value = span.raw(key)
    text = str(value)[:30] if isinstance(value, str) or type(value) is int else ""
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise InvalidInput(f"{span.path(key)} is {shown(value)}; it must be nanoseconds")
    return int(text)
