"""Means at every point, and paired tests of contenders against rivals.

Each seed gives one number: the mean logarithm of the ratio over the sizes on an axis. Sizes of one
seed share their cluster, so only seeds are independent pairs. The t-test uses these numbers, the
interval is a bootstrap of their mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.experiments.gpu_cluster.contenders import FAIR, LEARNED
from weft.experiments.gpu_cluster.runs import FIGURES
from weft.model.columns import FloatArray
from weft.report.statistics import bootstrap_mean, geometric_mean_ratio, holm, paired_t_test

FigureGroup = tuple[str, float, float, str]
"""(axis, x, ccr, condition)"""
Arrays = Mapping[FigureGroup, Mapping[str, FloatArray]]

HIGH_LOAD = 0.8
"""Streams are compared at this load and above."""
REPLANNED = (*FAIR, "heft-affinity", "heft-arrival", "srpt-replanned", "srpt-affinity")
HAND_MADE = ("heft", "heft-node", *REPLANNED, "fifo-deft", "fifo-deft-online", "tdca", "eft")
RIVALS = (*HAND_MADE, "tuned-list")
REPLANNING_ALONE = ("heft-replanned", "heft")
"""The gain of re-planning over a replayed plan."""


def measured(axis: str) -> str:
    """Return the compared metric: completion time in streams, else makespan."""
    return "jct" if axis == "stream" else "makespan"


def point_rows(arrays: Arrays) -> list[dict[str, Any]]:
    """Return means at every point, and interval and values of the compared metric."""
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
    """Return (seeds,) mean log of the compared metric over sizes and CCRs.

    None if the contender is absent at some point.
    """
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
    """Compare a contender with a rival: ratio of geometric means, t-test, effect size."""
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
    """Compare learned policies with rivals; p-values are corrected (Holm)."""
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
    pairs += [pair for pair in [REPLANNING_ALONE] if set(pair) <= names]
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
    """Return the first row with these values."""
    return next(
        (row for row in rows if all(row[key] == value for key, value in wanted.items())), None
    )


def fair_comparison(
    rows: Sequence[Mapping[str, Any]], *, axis: str, condition: str, ccr: Any, who: str
) -> Mapping[str, Any] | None:
    """Return the comparison with the better of the fair rivals."""
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
    """Return the comparison with the highest ratio of some rivals."""
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
    """Return (contender, geometric mean), best first, without unfinished ones."""
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


def reference_rows(arrays: Arrays) -> list[dict[str, Any]]:
    """Return gains over HEFT with exact costs, for both kinds of links."""
    rows = []
    for axis, links in (("tasks", "nodes"), ("uniform", "uniform")):
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
    """Return the geometric mean of makespan / proven bound, minus 1."""
    column = FIGURES.index("over_bound")
    own = [
        group[name][:, column]
        for (a, _, c, cond), group in arrays.items()
        if (a, c, cond) == (axis, ccr, "static") and name in group
    ]
    return number(float(np.exp(np.log(np.concatenate(own)).mean())) - 1) if own else None


def number(value: float) -> float | None:
    """Return the value with seven digits for JSON; None if it is not finite."""
    return float(f"{value:.7g}") if np.isfinite(value) else None
