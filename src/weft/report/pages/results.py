"""Pages about saved results: plans, traces, runs, comparisons and experiments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from weft.errors import InvalidInput
from weft.formats.parsing.source import one_line
from weft.model import Problem, Schedule, Trace
from weft.model.explain.quantities import format_seconds
from weft.report.causes.contenders import Answer, ContenderBar, difference_sentences
from weft.report.comparison import columns_of
from weft.report.gantt.chart import Chart
from weft.report.page import Dag, Facts, Gantts, PageBlock, Section, Table, report_html
from weft.report.tables import Column

MOST_DAGS = 4


def results_page(found: Mapping[str, tuple[Schedule | Trace, Problem | None]]) -> str:
    """Return a page about one or several schedules and traces, the shortest first."""
    charts = {name: Chart.of(one, problem, title=name) for name, (one, problem) in found.items()}
    order = sorted(charts, key=lambda name: charts[name].explanation.makespan)
    explanations = {name: replace(charts[name].explanation, name=name) for name in order}
    sentences = [explanations[order[0]].sentence]
    if len(order) > 1:
        sentences += difference_sentences(explanations)
    answer = Answer([ContenderBar.of(charts[name]) for name in order], sentences=sentences)
    groups: dict[int, dict[str, Schedule | Trace]] = {}
    for name in order:
        groups.setdefault(id(found[name][1]), {})[name] = found[name][0]
    blocks: list[PageBlock] = [answer]
    blocks += [Gantts(group, found[next(iter(group))][1]) for group in groups.values()]
    workload = charts[order[0]].workload
    dags = [Dag(p.workflow, template=k) for k, p in enumerate(workload.problems[:MOST_DAGS])]
    title = f"{workload.name}: {order[0]}" if len(order) == 1 else workload.name
    sections = [Section("Why it takes as long as it does", [*blocks, *dags])]
    return report_html(title=title, sections=sections)


def comparison_page(document: Mapping[str, Any], *, title: str) -> str:
    """Return a page about the JSON document that `weft compare --json` prints."""
    try:
        return report_html(
            title=title,
            lead=f"{document['scenarios']} drawn futures, seed {document['seed']}.",
            sections=[_section(document, name) for name in document["answers"]],
        )
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise InvalidInput(one_line(f"{title}: not a comparison of weft ({error!r})")) from None


def experiment_page(document: Mapping[str, Any], *, title: str) -> str:
    """Return a page about an experiment: page.json, as `weft reproduce` writes it."""
    try:
        facts = {}
        if document.get("machine"):
            facts["processor"] = one_line(str(document["machine"]["processor"]))
        if document.get("seconds") is not None:
            facts["took"] = format_seconds(float(document["seconds"]))
        tables = [Section(_words(name), [_table(t)]) for name, t in document["tables"].items()]
        first = [Section("The measurement", [Facts(facts)])] if facts else []
        about = f"{document['measured_with']}: {document['provenance']}."
        return report_html(title=_words(title), lead=one_line(about), sections=[*first, *tables])
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise InvalidInput(one_line(f"{title}: not an experiment of weft ({error!r})")) from None


def _words(name: str) -> str:
    return name.replace("_", " ").replace("-", " ")


def _table(found: Mapping[str, Any]) -> Table:
    names = [str(name) for name in found["columns"]]
    places = found.get("decimals") or [None] * len(names)
    columns = [
        Column(str(k), title=name, places=None if digits is None else int(digits))
        for k, (name, digits) in enumerate(zip(names, places, strict=True))
    ]
    rows = [{str(k): _plain(cell) for k, cell in enumerate(row)} for row in found["rows"]]
    if any(len(row) != len(names) for row in rows):
        raise ValueError("a row has another length than the columns")
    return Table(rows, columns)


def _plain(cell: Any) -> Any:
    """Return a cell without the marks of code in Markdown."""
    return cell.replace("`", "") if isinstance(cell, str) else cell


def _section(document: Mapping[str, Any], name: str) -> Section:
    answer, rows = document["answers"][name], []
    for row in document["rows"]:
        if row["problem"] == name:
            spread = None if row["low"] is None else (row["high"] - row["low"]) / 2
            rows.append({**row, "half": spread})
    bars = [ContenderBar(**bar) for bar in answer["bars"]]
    bound = float(document["bounds"][name])
    made = Answer(bars, bound, answer["sentences"], int(document["scenarios"]))
    facts = Facts({"bound": format_seconds(bound)} if bound > 0 else {})
    columns = columns_of(jobs=int(answer["jobs"]), scenarios=int(document["scenarios"]))
    return Section(name, [made, facts, Table(rows, columns)])
