"""Figures for reports: lines with bands, bars and Pareto fronts, as inline SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput
from weft.model.explain.quantities import format_number
from weft.report.labels import shortened
from weft.report.matplot import drawing, inline_svg
from weft.report.palette import LIGHT, category, numbers_of

WIDTH, HEIGHT = 5.0, 3.2
"""Inches of a figure, by default."""

NAMES = 9.5
"""Points of names in a figure: legible on a phone, too, where a figure is shown smaller."""

_MARKERS = "osD^vPX*<>hp"
_DASHES = ("-", "--", "-.", ":")


@dataclass(frozen=True, eq=False)
class Series:
    """One line: points, a band from `low` to `high`; `steps` hold until the next."""

    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    steps: bool = field(default=False, kw_only=True)


def line_figure(
    series: Mapping[str, Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    size: tuple[float, float] = (WIDTH, HEIGHT),
) -> str:
    """Draw lines with confidence bands; they differ by colour, dash and marker."""
    with drawing(*size) as (figure, axes):
        for k, (name, line) in zip(numbers_of(list(series)), series.items(), strict=True):
            x, y = np.asarray(line.x, float), np.asarray(line.y, float)
            if x.shape != y.shape:
                raise InvalidInput(f"line '{name}' has {x.size} x values and {y.size} y values")
            marker = _MARKERS[k % len(_MARKERS)] if x.size <= 30 else None
            axes.plot(
                x,
                y,
                color=category(k),
                marker=marker,
                ms=5,
                ls=_DASHES[(k // 4) % 4],
                drawstyle="steps-post" if line.steps else "default",
                label=shortened(name, 32),
            )
            if line.low is not None and line.high is not None:
                axes.fill_between(
                    x,
                    np.asarray(line.low, float),
                    np.asarray(line.high, float),
                    color=category(k),
                    alpha=0.18,
                    lw=0,
                )
        if log_x:
            axes.set_xscale("log")
            _plain_ticks(axes.xaxis)
            _tick_points(axes, series)
        if log_y:
            axes.set_yscale("log")
            _plain_ticks(axes.yaxis)
        axes.grid(visible=True, axis="both")
        if len(series) > 1:
            _name_ends(figure, axes)
        return _finished(figure, axes, title, x_label, y_label, legend=False)


def bar_figure(
    groups: Mapping[str, Mapping[str, float]],
    *,
    title: str,
    y_label: str,
    errors: Mapping[str, Mapping[str, float]] | None = None,
    baseline: float | None = None,
    size: tuple[float, float] = (WIDTH, HEIGHT),
) -> str:
    """Draw bars: series -> (label -> value), with half widths `errors`, a `baseline`."""
    labels = list(dict.fromkeys(label for values in groups.values() for label in values))
    width = 0.8 / max(1, len(groups))
    with drawing(*size) as (figure, axes):
        numbers = numbers_of(list(groups))
        for k, (number, (name, values)) in enumerate(zip(numbers, groups.items(), strict=True)):
            at = np.arange(len(labels)) + (k - (len(groups) - 1) / 2) * width
            heights = [values.get(label, np.nan) for label in labels]
            spread = (
                [errors.get(name, {}).get(label, np.nan) for label in labels] if errors else None
            )
            axes.bar(
                at,
                heights,
                width * 0.92,
                color=category(number),
                label=shortened(name, 32),
                yerr=spread,
                ecolor=LIGHT["ink"],
                capsize=3,
            )
        if baseline is not None:
            axes.axhline(baseline, color=LIGHT["muted"], lw=1.2, ls="--")
        axes.set_xticks(range(len(labels)), _short(labels))
        if sum(map(len, _short(labels))) * 0.09 > size[0] * 0.8:
            axes.tick_params(axis="x", rotation=35)
        axes.grid(visible=True, axis="y")
        return _finished(figure, axes, title, "", y_label, legend=len(groups) > 1)


def pareto_figure(
    points: Mapping[str, tuple[float, float]],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    size: tuple[float, float] = (WIDTH, HEIGHT),
) -> str:
    """Draw points with two values, smaller is better; fill and join undominated ones."""
    best, middle = pareto_front(points), _middle([x for x, _ in points.values()], log=log_x)
    with drawing(*size) as (figure, axes):
        front = sorted(points[name] for name in best)
        axes.plot(
            [x for x, _ in front],
            [y for _, y in front],
            color=LIGHT["muted"],
            lw=1.2,
            ls="--",
            drawstyle="steps-post",
            zorder=1,
        )
        for name, (x, y) in points.items():
            axes.scatter(
                [x],
                [y],
                s=46,
                color=category(0) if name in best else "none",
                edgecolors=category(0 if name in best else 1),
                zorder=2,
            )
            weight = "bold" if name in best else "normal"
            at_right = x > middle  # there the name would leave the axes
            axes.annotate(
                shortened(name, 24),
                (x, y),
                xytext=(-6, -4) if at_right else (5, 5),
                textcoords="offset points",
                ha="right" if at_right else "left",
                va="top" if at_right else "bottom",
                fontsize=NAMES,
                fontweight=weight,
            )
        if log_x:
            axes.set_xscale("log")
            _plain_ticks(axes.xaxis)
        axes.margins(0.12)
        axes.grid(visible=True)
        return _finished(figure, axes, title, x_label, y_label, legend=False)


def _middle(values: Sequence[float], *, log: bool) -> float:
    """Return the middle of an axis that holds the values."""
    if not values:
        return 0.0
    low, high = min(values), max(values)
    return float(np.sqrt(low * high)) if log else (low + high) / 2


def pareto_front(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the names of the points that no other point dominates.

    Examples
    --------
    >>> pareto_front({"a": (1, 5), "b": (2, 2), "c": (3, 3)})
    ['a', 'b']
    """

    def beaten(x: float, y: float) -> bool:
        return any(u <= x and v <= y and (u < x or v < y) for u, v in points.values())

    return [name for name, (x, y) in points.items() if not beaten(x, y)]


def _plain_ticks(axis: Any) -> None:
    """Write numbers in full on a logarithmic axis, at 1, 2 and 5 of each power of ten."""
    from matplotlib.ticker import LogLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(lambda value, _: format_number(value))
    axis.minorticks_off()


def _tick_points(axes: Any, series: Mapping[str, Series]) -> None:
    """Put ticks at the points, if they are few, instead of powers of ten."""
    points = np.unique(
        np.concatenate([np.asarray(line.x, float) for line in series.values()] or [np.zeros(0)])
    )
    if len(points) <= 9:
        axes.set_xticks(points, [format_number(float(x)) for x in points])
        axes.xaxis.minorticks_off()


def _finished(
    figure: Any, axes: Any, title: str, x_label: str, y_label: str, *, legend: bool
) -> str:
    axes.set_title(shortened(title, 60))
    axes.set_xlabel(shortened(x_label, 70))
    axes.set_ylabel(shortened(y_label, 40))
    if legend:
        _name_lines(figure, axes)
    return inline_svg(figure, label=title)


def _name_ends(figure: Any, axes: Any) -> None:
    """Write each line's name beside its last point, apart from other names."""
    figure.draw_without_rendering()  # this sets the places of the axes
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = []
    for line in axes.get_lines():
        x, y = (np.asarray(values, float) for values in line.get_data())
        known = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        if len(known):
            ends.append((float(to_axes.transform((x[known[-1]], y[known[-1]]))[1]), line))
    ends.sort(key=lambda end: end[0])
    room = NAMES / 50 / (axes.get_position().height * figure.get_figheight())
    places = spread_out([height for height, _ in ends], room)
    for place, (_, line) in zip(places, ends, strict=True):
        axes.annotate(
            line.get_label(),
            (1.015, place),
            xycoords="axes fraction",
            va="center",
            fontsize=NAMES,
            color=line.get_color(),
        )


def spread_out(heights: Sequence[float], room: float) -> list[float]:
    """Return ascending heights at least `room` apart, near those given.

    Examples
    --------
    >>> spread_out([0.5, 0.5, 0.9], 0.1)
    [0.45, 0.55, 0.9]
    """
    groups: list[tuple[float, int]] = []  # the mean of those that touch, and their number
    for height in heights:
        group = (height, 1)
        while groups and groups[-1][0] + (groups[-1][1] + group[1]) * room / 2 > group[0]:
            mean, size = groups.pop()
            group = ((mean * size + group[0] * group[1]) / (size + group[1]), size + group[1])
        groups.append(group)
    return [
        round(mean + (k - (size - 1) / 2) * room, 12) for mean, size in groups for k in range(size)
    ]


def _name_lines(figure: Any, axes: Any) -> None:
    """Write a legend below the figure, where it hides nothing."""
    handles, names = axes.get_legend_handles_labels()
    longest = max(map(len, names), default=1)
    figure.legend(
        handles,
        names,
        fontsize=NAMES,
        loc="outside lower center",
        ncols=max(1, min(len(names), 4, int(10 * figure.get_figwidth()) // (longest + 6))),
        columnspacing=1.2,
        handlelength=2.4,
    )


def _short(labels: Sequence[str]) -> list[str]:
    """Shorten labels, so that they leave room for the figure."""
    return [shortened(label, 24) for label in labels]
