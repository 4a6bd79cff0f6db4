"""What the plays come to: means at every point, and paired tests of contender against rival.

One number a seed: the mean, over the sizes on an axis, of the logarithm of the ratio. Sizes of one seed share their cluster, so they
are no independent pairs; seeds are. The t-test is on these numbers, the interval is a bootstrap of their mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.experiments.gpu_cluster.contenders import FAIR, LEARNED
from weft.experiments.gpu_cluster.evaluator import FIGURES
from weft.model.columns import FloatArray
from weft.report.statistics import bootstrap_mean, geometric_mean_ratio, holm, paired_t_test

Group = tuple[str, float, float, str]
"""(axis, x, ccr, condition)"""
Arrays = Mapping[Group, Mapping[str, FloatArray]]

HIGH_LOAD = 0.8
"""Streams are judged from this load on."""
PLANNED_ANEW = (*FAIR, "heft-affinity", "heft-arrival", "srpt-replanned", "srpt-affinity")
HAND_MADE = ("heft", "heft-node", *PLANNED_ANEW, "fifo-deft", "fifo-deft-online", "tdca", "eft")
RIVALS = (*HAND_MADE, "tuned-list")
STRAW = ("heft-replanned", "heft")
"""What re-planning alone takes off a replayed plan."""


def measured(axis: str) -> str:
    """What is compared on an axis: makespans, and in a stream the mean completion time of a job."""
    return "jct" if axis == "stream" else "makespan"


def point_rows(arrays: Arrays) -> list[dict[str, Any]]:
    """Means at every point, with half the 95 % bootstrap interval of the main figure, and its value for every seed."""
    rows = []
    for (axis, x, ccr, condition), group in arrays.items():
        for name, table in group.items():
            main = table[:, FIGURES.index(measured(axis))]
            ended = table[np.isfinite(main)]
            low, high = _band(main[np.isfinite(main)])
            rows.append(
                {
                    "axis": axis,
                    "x": x,
                    "ccr": ccr,
                    "condition": condition,
                    "contender": name,
                    "seeds": len(main),
                    "unfinished": int(np.isnan(main).sum()),
                    **{
                        key: number(ended[:, k].mean()) if len(ended) else None
                        for k, key in enumerate(FIGURES)
                    },
                    "low": low,
                    "high": high,
                    "values": [number(v) for v in main],
                }
            )
    return rows


def _band(values: FloatArray) -> tuple[float | None, float | None]:
    if not len(values):
        return None, None
    found = bootstrap_mean(values, draws=1000)
    return number(found.low), number(found.high)


def seed_logs(
    arrays: Arrays, axis: str, condition: str, ccrs: Sequence[float], name: str
) -> FloatArray | None:
    """(seeds,) mean logarithm of the main figure over the sizes (a stream: the high loads) and the CCRs; None where somebody is missing."""
    column = FIGURES.index(measured(axis))
    tables = [
        group[name][:, column] if name in group else None
        for (a, x, ccr, c), group in arrays.items()
        if a == axis
        and c == condition
        and ccr in ccrs
        and (axis != "stream" or x >= HIGH_LOAD - 1e-9)
    ]
    known = [t for t in tables if t is not None]
    if not known or len(known) < len(tables) or len({len(t) for t in known}) > 1:
        return None
    mean: FloatArray = np.log(np.stack(known)).mean(axis=0)
    return mean


def comparison(
    arrays: Arrays, axis: str, condition: str, ccrs: Sequence[float], who: str, rival: str
) -> dict[str, Any] | None:
    """One contender against one rival: ratio of geometric means with its interval, t-test, effect size."""
    first, second = (seed_logs(arrays, axis, condition, ccrs, name) for name in (who, rival))
    if first is None or second is None:
        return None
    both = np.isfinite(first) & np.isfinite(second)
    first, second = first[both], second[both]
    if len(first) < 2:
        return None
    test = paired_t_test(first, second)
    ratio = geometric_mean_ratio(np.exp(first), np.exp(second))
    return {
        "axis": axis,
        "condition": condition,
        "ccr": ccrs[0] if len(ccrs) == 1 else "all",
        "who": who,
        "rival": rival,
        "ratio": ratio.estimate,
        "low": ratio.low,
        "high": ratio.high,
        "t": number(test.t),
        "p": test.p_value,
        "effect": number(test.effect),
        "seeds": test.pairs,
    }


def comparisons(arrays: Arrays) -> list[dict[str, Any]]:
    """Every learned policy against every rival, in every condition, at each CCR and over all; p-values corrected over the table (Holm)."""
    axes = list(
        dict.fromkeys(
            (axis, condition)
            for axis, _, _, condition in arrays
            if axis in {"tasks", "jobs", "stream", "uniform"}
        )
    )
    ccrs = sorted(
        {ccr for axis, _, ccr, _ in arrays if axis == "tasks"} or {ccr for _, _, ccr, _ in arrays}
    )
    names = {name for group in arrays.values() for name in group}
    pairs = [
        (who, rival)
        for who in LEARNED
        if who in names
        for rival in RIVALS
        if rival != who and rival in names
    ]
    pairs += [pair for pair in [STRAW] if set(pair) <= names]
    found = [
        comparison(arrays, axis, condition, chosen, who, rival)
        for axis, condition in axes
        for chosen in [*([c] for c in ccrs), list(ccrs)]
        if len(chosen) == 1 or len(ccrs) > 1
        for who, rival in pairs
    ]
    rows = [row for row in found if row is not None]
    corrected = holm({str(k): row["p"] for k, row in enumerate(rows)})
    return [{**row, "p_holm": corrected[str(k)]} for k, row in enumerate(rows)]


def find(rows: Iterable[Mapping[str, Any]], **wanted: Any) -> Mapping[str, Any] | None:
    """The first row with these values."""
    return next(
        (row for row in rows if all(row[key] == value for key, value in wanted.items())), None
    )


def fair_comparison(
    rows: Sequence[Mapping[str, Any]], *, axis: str, condition: str, ccr: Any, who: str
) -> Mapping[str, Any] | None:
    """Against the better of the rivals that are given the same information: the one against which the ratio is higher."""
    return hardest_comparison(rows, FAIR, axis=axis, condition=condition, ccr=ccr, who=who)


def hardest_comparison(
    rows: Sequence[Mapping[str, Any]],
    rivals: Sequence[str],
    *,
    axis: str,
    condition: str,
    ccr: Any,
    who: str,
) -> Mapping[str, Any] | None:
    """Against the best of some rivals."""
    own = [
        find(rows, axis=axis, condition=condition, ccr=ccr, who=who, rival=rival)
        for rival in rivals
    ]
    return max(
        (row for row in own if row is not None), key=lambda row: float(row["ratio"]), default=None
    )


def ranking(
    arrays: Arrays, axis: str, condition: str, ccrs: Sequence[float]
) -> list[tuple[str, float]]:
    """(contender, geometric mean of the main figure), the best first; whoever did not get to the end somewhere is left out."""
    names = dict.fromkeys(
        name
        for (a, _, _, c), group in arrays.items()
        if a == axis and c == condition
        for name in group
    )
    logs = {name: seed_logs(arrays, axis, condition, ccrs, name) for name in names}
    means = {
        name: float(np.exp(log.mean()))
        for name, log in logs.items()
        if log is not None and np.isfinite(log).all()
    }
    return sorted(means.items(), key=lambda item: item[1])


def yardstick_rows(arrays: Arrays) -> list[dict[str, Any]]:
    """What can be gained over HEFT with exact costs, by a search and by everybody else; on nodes, and with links all alike."""
    rows = []
    for axis, links in (("tasks", "nodes"), ("uniform", "all alike")):
        for ccr in sorted({c for a, _, c, _ in arrays if a == axis}):
            means = dict(ranking(arrays, axis, "static", [ccr]))
            above = {name: _over_bound(arrays, axis, ccr, name) for name in ("heft", "anytime")}
            gains = {
                name: 1 - mean / means["heft"]
                for name, mean in means.items()
                if "heft" in means and name != "heft"
            }
            rows.append({"links": links, "ccr": ccr, "over_bound": above, "gains": gains})
    return rows


def _over_bound(arrays: Arrays, axis: str, ccr: float, name: str) -> float | None:
    """Geometric mean of makespan / proven bound, less 1."""
    column = FIGURES.index("over_bound")
    own = [
        group[name][:, column]
        for (a, _, c, cond), group in arrays.items()
        if (a, c, cond) == (axis, ccr, "static") and name in group
    ]
    return number(float(np.exp(np.log(np.concatenate(own)).mean())) - 1) if own else None


def number(value: float) -> float | None:
    """Fit for JSON: seven digits, None where there is no finite number."""
    return float(f"{value:.7g}") if np.isfinite(value) else None
