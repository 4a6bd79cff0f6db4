"""Verdicts on the claims of the document and the aims of weft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.experiments.gpu_cluster.statistics import (
    HAND_MADE,
    fair_comparison,
    find,
    hardest_comparison,
)
from weft.experiments.harness import ExperimentResults

CONFIRMED, NOT_CONFIRMED, NOT_MEASURED = "confirmed", "not confirmed", "not measured"
JUDGED = "replan-switch"
"""The policy whose results are held against the claims."""
SIGNIFICANT = 0.001

Judgement = dict[str, Any]


def verdicts(results: ExperimentResults) -> list[Judgement]:
    """Return a row per claim: claim, measurement, verdict and margin."""
    return [*_document(results, JUDGED), *_aims(results, JUDGED)]


def _document(results: ExperimentResults, who: str) -> list[Judgement]:
    rows = results["comparisons"]

    def against_heft(condition: str) -> Mapping[str, Any] | None:
        return find(rows, axis="tasks", condition=condition, ccr="all", who=who, rival="heft")

    return [
        _reduction("document", "25 to 35 % below HEFT: costs known", against_heft("static"), 0.25),
        _reduction(
            "document",
            "25 to 35 % below HEFT: changing conditions, HEFT's plan replayed",
            against_heft("changing"),
            0.25,
        ),
        _reduction(
            "document",
            "over 85 % below FIFO-DEFT with many jobs (planned together)",
            _most_jobs(results, who, "fifo-deft"),
            0.85,
        ),
        _reduction(
            "document",
            "the same, each job planned as if alone",
            _most_jobs(results, who, "fifo-deft-apart"),
            0.85,
        ),
        _slr(results, who),
        _speedup(results, who),
        _at_most("document", "8.5 ms per decision", _decision(results, who), 8500.0, "µs"),
        _at_most("document", "12 h of training", _minutes(results, who), 720.0, "min"),
        *_transfer("document", results, who),
    ]


def _aims(results: ExperimentResults, who: str) -> list[Judgement]:
    rows = results["comparisons"]

    def fair(condition: str, ccr: Any = "all") -> Mapping[str, Any] | None:
        return fair_comparison(rows, axis="tasks", condition=condition, ccr=ccr, who=who)

    def heft(ccr: Any, condition: str = "static") -> Mapping[str, Any] | None:
        return find(rows, axis="tasks", condition=condition, ccr=ccr, who=who, rival="heft")

    def hardest(axis: str, condition: str) -> Mapping[str, Any] | None:
        """Compare with the hardest rival, often affinity or copies."""
        return hardest_comparison(
            rows, HAND_MADE, axis=axis, condition=condition, ccr="all", who=who
        )

    def streams(rival: str) -> Mapping[str, Any] | None:
        return find(rows, axis="stream", condition="stream", ccr="all", who=who, rival=rival)

    replanned = "below re-planned HEFT"
    stretch = f"4 % {replanned} (stretch goal: 8 %)"
    hand_made = "not above the best hand-made rival"
    arrival = "25 % below HEFT re-planned in order of arrival"
    reductions = [
        ("changing: 25 % below HEFT's plan replayed", heft("all", "changing"), 0.25),
        (f"failing: {stretch}", fair("failing"), 0.04),
        (f"changing: {stretch}", fair("changing"), 0.04),
        (f"noisy, CCR 1: 1 % {replanned}", fair("noisy", 1.0), 0.01),
        (f"noisy, CCR 5: 8 % {replanned}", fair("noisy", 5.0), 0.08),
        (f"biased: 3 % {replanned}", fair("biased"), 0.03),
        (f"stream, load of 0.8 or more: {arrival}", streams("heft-arrival"), 0.25),
        ("stream: 5 % below srpt-replanned", streams("srpt-replanned"), 0.05),
        ("stream: 5 % below the best hand-made rival", hardest("stream", "stream"), 0.05),
        *((f"{c}: {hand_made}", hardest("tasks", c), 0.0) for c in results["conditions"]),
        ("stream: not above tuned-list", streams("tuned-list"), 0.0),
    ]
    made = [
        _reduction("aim", "static, CCR 0.1: not above HEFT", heft(0.1), 0.0),
        *(
            _reduction(
                "aim", f"static, CCR {c:g}: below HEFT (p < 0.001)", heft(c), 0.0, significant=True
            )
            for c in (1.0, 5.0)
        ),
        _plausible(results, who),
        *(_reduction("aim", *reduction) for reduction in reductions),
        *_transfer("aim", results, who),
        *_specialist(results, who),
        _at_most(
            "aim",
            "decision: at most 100 µs (median, 32 ready tasks, 16 devices)",
            _decision(results, who),
            100.0,
            "µs",
        ),
        _at_most(
            "aim", "training: at most 60 minutes on two cores", _minutes(results, who), 60.0, "min"
        ),
        _at_least(
            "aim",
            "environment: 100,000 decisions per second and core",
            results.get("environment"),
            100_000.0,
        ),
    ]
    if results["quick"] and results.get("seconds") is not None:
        claim, minutes = "this run: at most 10 minutes on two cores", results["seconds"] / 60
        made.append(_at_most("aim", claim, minutes, 10.0, "min"))
    return [{**row, "best": _best(results, row, who)} for row in made]


# -- kinds of verdict ------------------------------------------------------------------


def _reduction(
    part: str, claim: str, row: Mapping[str, Any] | None, least: float, *, significant: bool = False
) -> Judgement:
    """Judge a reduction against a rival; `significant` also asks for p < 0.001."""
    if row is None:
        return _verdict(part, claim, None, least, None, "", "")
    low, share, high = (1 - row[key] for key in ("high", "ratio", "low"))
    chance = (
        f", p = {row['p']:.2g}, d = {row['effect']:.2f}"
        if row.get("p") is not None and row.get("effect") is not None
        else ""
    )
    text = (
        f"{_below(share)} {row['rival']} [{low:+.1%} to {high:+.1%}], {row['seeds']} seeds{chance}"
    )
    sure = not significant or row["p"] < SIGNIFICANT
    by = f"{100 * (share - least):+.1f} points" + ("" if sure else f", p = {row['p']:.2g}")
    about = {"condition": row["condition"], "ccr": row["ccr"], "axis": row["axis"]}
    return {
        **_verdict(part, claim, share, least, share >= least and sure, text, by),
        "about": about,
    }


def _at_most(part: str, claim: str, value: float | None, most: float, unit: str) -> Judgement:
    if value is None:
        return _verdict(part, claim, None, most, None, "", "")
    factor = most / value if value > 0 else np.inf
    by = f"{factor:.3g} times less" if value <= most else f"{1 / factor:.3g} times more"
    return _verdict(part, claim, value, most, value <= most, f"{value:.4g} {unit}", by)


def _at_least(part: str, claim: str, value: float | None, least: float) -> Judgement:
    text = "" if value is None else f"{value:,.0f}"
    return _verdict(
        part,
        claim,
        value,
        least,
        None if value is None else value >= least,
        text,
        "" if value is None else f"{value / least:.3g} x",
    )


def _verdict(
    part: str,
    claim: str,
    value: float | None,
    wanted: float,
    holds: bool | None,
    measured: str,
    by: str,
) -> Judgement:
    word = NOT_MEASURED if holds is None else CONFIRMED if holds else NOT_CONFIRMED
    return {
        "part": part,
        "claim": claim,
        "value": value,
        "wanted": wanted,
        "verdict": word,
        "measured": measured,
        "by": by,
    }


def _below(share: float) -> str:
    return f"{share:.1%} below" if share >= 0 else f"{-share:.1%} above"


# -- values ----------------------------------------------------------------------------


def _most_jobs(results: ExperimentResults, who: str, rival: str) -> dict[str, Any] | None:
    """Compare makespans at the largest number of jobs with exact costs, over all CCRs."""
    rows = [r for r in results["points"] if r["axis"] == "jobs" and r["condition"] == "static"]
    most = max((r["x"] for r in rows), default=None)
    logs = []
    for name in (who, rival):
        own = [
            np.log(np.array(r["values"], float))
            for r in rows
            if r["x"] == most and r["contender"] == name
        ]
        if not own:
            return None
        logs.append(np.stack(own).mean(axis=0))
    ratio, spread = logs[0] - logs[1], 0.0
    if len(ratio) > 1:
        spread = 1.96 * float(np.std(ratio, ddof=1)) / float(np.sqrt(len(ratio)))
    low, middle, high = (float(np.exp(ratio.mean() + k * spread)) for k in (-1, 0, 1))
    return {
        "axis": "jobs",
        "condition": "static",
        "ccr": "all",
        "rival": f"{rival} at {most:g} jobs",
        "ratio": middle,
        "low": low,
        "high": high,
        "seeds": len(ratio),
    }


def _slr(results: ExperimentResults, who: str) -> Judgement:
    """Judge the SLR at every size and CCR; the multi-job value is reported too."""
    claim = "SLR about 1.5, 1 to 2 throughout"
    own = [
        r
        for r in results["points"]
        if r["contender"] == who and r["condition"] == "static" and r["slr"] is not None
    ]
    one = [r["slr"] for r in own if r["axis"] == "tasks"]
    if not one:
        return _verdict("document", claim, None, 2.0, None, "", "")
    text = f"one job: mean {np.mean(one):.2f}, {min(one):.2f} to {max(one):.2f}"
    many = [r for r in own if r["axis"] == "jobs"]
    if many:
        last = [r for r in many if r["x"] == max(m["x"] for m in many)]
        slr, bound = (np.mean([r[key] for r in last]) for key in ("slr", "over_bound"))
        text += f"; {last[0]['x']:g} jobs at time 0: completion / path {slr:.1f}, "
        text += f"makespan / bound {bound:.2f}"
    return _verdict(
        "document",
        claim,
        float(np.mean(one)),
        2.0,
        max(one) <= 2.0,
        text,
        f"{max(one) - 2.0:+.2f} at most",
    )


def _speedup(results: ExperimentResults, who: str) -> Judgement:
    """Judge the highest mean speedup."""
    own = [
        r
        for r in results["points"]
        if r["contender"] == who
        and r["speedup"] is not None
        and r["axis"] in {"tasks", "jobs", "devices"}
    ]
    claim = "speedup near 25"
    if not own:
        return _verdict("document", claim, None, 25.0, None, "", "")
    usual = max(
        (r for r in own if r["axis"] != "devices"), key=lambda r: r["speedup"], default=None
    )
    wide = max(own, key=lambda r: r["speedup"])
    devices = results["devices"]
    parts = []
    if usual is not None:
        where = f"{usual['x']:g} {usual['axis']} on {devices['usual']:.1f} devices"
        parts.append(f"{usual['speedup']:.1f} at {where}")
    if wide["axis"] == "devices":
        parts.append(f"{wide['speedup']:.1f} on {devices[format(wide['x'], 'g')]:.1f} devices")
    value = float(wide["speedup"])
    return _verdict(
        "document", claim, value, 25.0, value >= 22.5, "; ".join(parts), f"{value - 25:+.1f}"
    )


def _plausible(results: ExperimentResults, who: str) -> Judgement:
    """Judge the gain against a search: more would be a bug in the baseline."""
    claim = "static: no gain over HEFT beyond that of a search with exact costs"
    rows = [
        r
        for r in results["reference"]
        if r["links"] == "nodes" and {who, "anytime"} <= set(r["gains"])
    ]
    if not rows:
        return _verdict("aim", claim, None, 0.0, None, "", "")
    text = "; ".join(
        f"CCR {r['ccr']:g}: {r['gains'][who]:.1%} of {r['gains']['anytime']:.1%}" for r in rows
    )
    worst = max(r["gains"][who] - r["gains"]["anytime"] for r in rows)
    return _verdict(
        "aim", claim, worst, 0.0, worst <= 0, text, f"{100 * worst:+.1f} points at most"
    )


def _decision(results: ExperimentResults, who: str) -> float | None:
    row = find(results["decision"], policy=who)
    return None if row is None else float(row["microseconds"])


def _minutes(results: ExperimentResults, who: str) -> float | None:
    row = find(results["training"], policy=who)
    return None if row is None or row["minutes"] is None else float(row["minutes"])


def _transfer(part: str, results: ExperimentResults, who: str) -> list[Judgement]:
    """Judge the share kept, and the distance from layered graphs after tuning."""
    rows = [
        r
        for r in results["transfer"]["overall"]
        if r["policy"] == who and r["structure"] != "layered"
    ]
    kept = {r["structure"]: r["kept"] for r in rows if r["kept"] is not None}
    away = {
        r["structure"]: r["tuned_from_layered"] for r in rows if r["tuned_from_layered"] is not None
    }
    split = ""
    for key, words in (("kept_alone", "single jobs"), ("kept_stream", "streams")):
        shares = [r[key] for r in rows if r.get(key) is not None]
        split += f"; {words} {np.mean(shares):.0%}" if shares else ""
    return [
        _share_kept(part, "85 % of the advantage kept on unseen structures", kept, split),
        _distance(part, "within 3 % of the result on layered graphs after fine-tuning", away),
    ]


def _specialist(results: ExperimentResults, who: str) -> list[Judgement]:
    """Judge the same against specialists."""
    rows = [
        r
        for r in results["transfer"]["overall"]
        if r["policy"] == who and r.get("specialist_advantage") is not None
    ]
    kept = {r["structure"]: r["kept_of_specialist"] for r in rows}
    kept = {structure: share for structure, share in kept.items() if share is not None}
    away = {r["structure"]: r["tuned_from_specialist"] for r in rows} if kept else {}
    return [
        _share_kept("aim", "85 % of the advantage of a specialist kept", kept),
        _distance("aim", "within 3 % of a specialist after fine-tuning", away),
    ]


def _share_kept(part: str, claim: str, kept: Mapping[str, float], more: str = "") -> Judgement:
    if not kept:
        return _verdict(part, claim, None, 0.85, None, "", "")
    share, least = float(np.mean(list(kept.values()))), min(kept, key=kept.__getitem__)
    text = f"{share:.0%} on average of {len(kept)} structures; least {kept[least]:.0%} ({least})"
    by = f"{100 * (share - 0.85):+.0f} points"
    return _verdict(part, claim, share, 0.85, share >= 0.85, text + more, by)


def _distance(part: str, claim: str, away: Mapping[str, float]) -> Judgement:
    if not away:
        return _verdict(part, claim, None, 0.03, None, "", "")
    mean, most = float(np.mean(list(away.values()))), max(away, key=away.__getitem__)
    text = f"{mean:+.1%} on average of {len(away)} structures; at most {away[most]:+.1%} ({most})"
    by = f"{100 * (0.03 - mean):+.1f} points"
    return _verdict(part, claim, mean, 0.03, mean <= 0.03, text, by)


def _best(results: ExperimentResults, row: Judgement, who: str) -> str:
    """Return the best contender where an aim is not confirmed."""
    about = row.get("about")
    if about is None or row["verdict"] != NOT_CONFIRMED:
        return ""
    order: Sequence[Sequence[Any]] = results["rankings"].get(
        f"{about['axis']} {about['condition']} {about['ccr']}", []
    )
    best = next(((name, value) for name, value in order if name != "anytime"), None)
    own = next((value for name, value in order if name == who), None)
    if best is None or own is None or best[0] == who:
        return ""
    return f"{best[0]}: {1 - best[1] / own:.1%} below {who}"
