"""One HTML document that fetches nothing, in which no user's name becomes code."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

import numpy as np

from weft.model.columns import FloatArray
from weft.report.labels import escaped
from weft.report.palette import css_variables

SCRIPTS = (
    "gantt_model.js",
    "gantt_scale.js",
    "gantt_paint.js",
    "gantt_marks.js",
    "gantt_panel.js",
    "gantt_pointers.js",
    "gantt.js",
    "tabs.js",
    "start.js",
)
LIVE_SCRIPTS = (
    *SCRIPTS[:-1],
    "live_events.js",
    "live_parts.js",
    "live_cascade.js",
    "live_run.js",
    "live_whatif.js",
    "live.js",
    "start.js",
)
STYLES = ("page.css", "answers.css", "gantt.css")


@cache
def asset(name: str) -> str:
    """Return the text of a file of `report/assets`."""
    return (files("weft.report") / "assets" / name).read_text(encoding="utf-8")


@cache
def _script(names: tuple[str, ...]) -> str:
    return '(() => {\n"use strict";\n' + "\n".join(asset(name) for name in names) + "\n})();\n"


def embedded_json(value: object) -> str:
    r"""Return compact JSON with `<`, `>` and `&` escaped, safe inside a script element.

    Examples
    --------
    >>> embedded_json({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def compact(values: FloatArray, *, digits: int = 10) -> list[float | int]:
    """Return floats as short JSON numbers, rounded to digits of the largest.

    Examples
    --------
    >>> import numpy as np
    >>> compact(np.array([1.0, 2.0])), compact(np.array([0.1 + 0.2, 1.0]))
    ([1, 2], [0.3, 1.0])
    """
    largest = float(np.abs(values).max(initial=0.0))
    if largest < 2**53 and bool((values == np.floor(values)).all()):
        return [int(v) for v in values.tolist()]
    return [
        float(v)
        for v in np.round(values, max(0, digits - int(np.ceil(np.log10(largest))))).tolist()
    ]


def facts_html(facts: Iterable[tuple[str, str]]) -> str:
    """Return labels and values as a list of cards."""
    cells = "".join(f"<div><dt>{escaped(k)}</dt><dd>{escaped(v)}</dd></div>" for k, v in facts)
    return f'<dl class="facts">{cells}</dl>'


def document(*, title: str, body: str, page_class: str, live: bool = False) -> str:
    """Wrap a body into a page that runs only its own script and has no network access.

    A live page talks to the server it came from, and to no other.
    """
    script = _script(LIVE_SCRIPTS if live else SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src "
        "data:; base-uri 'none'; form-action 'none'" + ("; connect-src 'self'" if live else "")
    )
    values = {
        "policy": policy,
        "title": escaped(title),
        "style": css_variables()
        + "".join(asset(name) for name in (*STYLES, *(["live.css"] if live else []))),
        "page_class": page_class,
        "body": body,
        "script": script,
    }
    page = asset("page.html")
    # One pass over the template: inserted text is never expanded again.
    parts = page.split("{{")
    return parts[0] + "".join(
        values[key.strip()] + rest for key, _, rest in (part.partition("}}") for part in parts[1:])
    )
