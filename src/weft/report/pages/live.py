"""The live page: a report that the events of a run fill while it goes on."""

from __future__ import annotations

from typing import Any

from weft.model import Trace
from weft.planners.planner import Plan
from weft.report.document import document
from weft.report.gantt.chart import Chart
from weft.report.gantt.html import chart_data


def live_page() -> bytes:
    """Return the page; it has no data and fetches it from the server it came from."""
    body = (
        '<header class="bar"><h1 id="title">weft</h1><p id="link" role="status">connecting</p>'
        '</header><main id="live"><noscript>This page needs JavaScript.</noscript></main>'
    )
    return document(title="weft", body=body, page_class="report live", live=True).encode()


def draw_live(result: Plan | Trace) -> dict[str, Any]:
    """Return the data of a live page's chart: of the plan, or of the ended run."""
    title = "measured" if isinstance(result, Trace) and result.measured else "predicted"
    return chart_data(Chart.of(result, title=title))
