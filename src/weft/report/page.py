"""One self-contained HTML page: figures, tables, workflows and interactive charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Protocol

from weft.formats.parsing.source import write_file
from weft.model import Problem, Workflow
from weft.model.explain import compare_explanations
from weft.report.causes.contenders import CLIPPED
from weft.report.dag_svg import dag_legend, dag_svg
from weft.report.document import document, embedded_json, facts_html
from weft.report.gantt.chart import Chart, Drawable
from weft.report.gantt.html import gantt_fragment
from weft.report.labels import escaped
from weft.report.tables import Columns, TableRow, table_html


class PageBlock(Protocol):
    """A part of a section; `mark` is a name no other part of the page has."""

    def html(self, mark: str) -> str:
        """Return the part as HTML, with every text of users escaped."""
        ...


@dataclass(frozen=True)
class Text:
    """Paragraphs, parted by empty lines. Plain text: it is escaped."""

    text: str

    def html(self, mark: str) -> str:
        """Return one `p` per paragraph."""
        return "".join(
            f"<p>{escaped(part.strip())}</p>" for part in self.text.split("\n\n") if part.strip()
        )


@dataclass(frozen=True)
class Facts:
    """Headline figures: label -> formatted value."""

    facts: Mapping[str, str]

    def html(self, mark: str) -> str:
        """Return a list of cards."""
        return facts_html(self.facts.items())


@dataclass(frozen=True)
class Table:
    """Rows of dicts as a table; see `weft.report.tables`."""

    rows: Sequence[TableRow]
    columns: Columns | None = None
    sort: str | None = None
    caption: str = ""

    def html(self, mark: str) -> str:
        """Return the table."""
        return table_html(self.rows, self.columns, sort=self.sort, caption=self.caption)


@dataclass(frozen=True, eq=False)
class Dag:
    """The picture of a workflow, linked with the charts of its section.

    `template` is its number among the problems of their workload.
    """

    workflow: Workflow
    caption: str = ""
    template: int = 0

    def html(self, mark: str) -> str:
        """Return the legend, and the picture in a box that scrolls."""
        picture = dag_svg(self.workflow, legend=False)
        box = f'<div class="wide dag" tabindex="0" data-template="{self.template}">{picture}</div>'
        return f"<figure>{dag_legend(self.workflow)}{box}{_caption(self.caption)}</figure>"


@dataclass(frozen=True)
class Figure:
    """A figure from `weft.report.figures`: SVG drawn by weft, inserted unchanged."""

    svg: str
    caption: str = ""

    def html(self, mark: str) -> str:
        """Return the figure."""
        return f'<figure class="plot">{self.svg}{_caption(self.caption)}</figure>'


@dataclass(frozen=True)
class Figures:
    """Several figures, side by side where there is room."""

    figures: Sequence[Figure]

    def html(self, mark: str) -> str:
        """Return a grid of figures."""
        return (
            '<div class="plots">' + "".join(figure.html(mark) for figure in self.figures) + "</div>"
        )


@dataclass(frozen=True, eq=False)
class Gantts:
    """Interactive charts in tabs, name -> schedule, plan or trace.

    They share their time axis, except charts more than twice as long as the shortest. `beside`
    names the one that is drawn below the bars of the others at first; `bound` is a line in each.
    """

    results: Mapping[str, Drawable]
    problem: Problem | None = None
    caption: str = ""
    beside: str = ""
    bound: float | None = None

    def html(self, mark: str) -> str:
        """Return the tabs and their panels."""
        charts = {
            name: Chart.of(result, self.problem, title=name, bound=self.bound)
            for name, result in self.results.items()
        }
        ends = [chart.span[1] for chart in charts.values()]
        until = max((end for end in ends if end <= CLIPPED * min(ends)), default=0.0)
        panels = "".join(
            f'<div class="panel" id="{mark}-{k}" data-label="{escaped(name)}">'
            f"{facts_html(chart.facts())}{gantt_fragment(chart, until=until)}</div>"
            for k, (name, chart) in enumerate(charts.items())
        )
        bar = '<div class="tablist"></div>'
        pairs = f'<script type="application/json">{embedded_json(_differences(charts))}</script>'
        return (
            f'<figure class="tabs" data-beside="{escaped(self.beside)}">{bar}{panels}{pairs}'
            f"{_caption(self.caption)}</figure>"
        )


def _differences(charts: Mapping[str, Chart]) -> dict[str, str]:
    """Return a sentence for each pair of charts."""
    found = {name: replace(chart.explanation, name=name) for name, chart in charts.items()}
    return {
        f"{a}\n{b}": compare_explanations(found[a], found[b]).sentence
        for a, b in combinations(found, 2)
    }


@dataclass(frozen=True)
class Section:
    """A heading and its blocks."""

    title: str
    blocks: Sequence[PageBlock] = field(default_factory=tuple)


def report_html(
    *, title: str, sections: Sequence[Section], lead: str = "", footer: str = ""
) -> str:
    """Return the page as a string.

    Examples
    --------
    >>> table = Table([{"planner": "heft", "makespan": 80.0}])
    >>> page = report_html(title="Two planners", sections=[Section("Makespan", [table])])
    >>> "http://" in page or "https://" in page
    False
    """
    marks = [f"s{i}" for i in range(len(sections))]
    listed = "".join(
        f'<li><a href="#{m}">{escaped(s.title)}</a></li>'
        for m, s in zip(marks, sections, strict=True)
    )
    contents = (
        f'<nav class="contents" aria-label="Contents"><ol>{listed}</ol></nav>'
        if len(sections) > 2
        else ""
    )
    head = (
        f"<header><h1>{escaped(title)}</h1>"
        + (f'<p class="lead">{escaped(lead)}</p>' if lead else "")
        + f"{contents}</header>"
    )
    body = "".join(_section(mark, section) for mark, section in zip(marks, sections, strict=True))
    foot = f"<footer>{escaped(footer)}</footer>" if footer else ""
    return document(title=title, body=f"{head}<main>{body}</main>{foot}", page_class="report")


def write_report(
    path: str | Path, *, title: str, sections: Sequence[Section], lead: str = "", footer: str = ""
) -> Path:
    """Write the page to a file; it needs only a browser and no network."""
    page = report_html(title=title, sections=sections, lead=lead, footer=footer)
    return write_file(Path(path), page)


def _section(mark: str, section: Section) -> str:
    parts = "".join(block.html(f"{mark}-{i}") for i, block in enumerate(section.blocks))
    return f'<section id="{mark}"><h2>{escaped(section.title)}</h2>{parts}</section>'


def _caption(text: str) -> str:
    return f"<figcaption>{escaped(text)}</figcaption>" if text else ""
