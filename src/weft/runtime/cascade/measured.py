"""Times, branches and arrivals, measured while a cascade runs, as a stream file."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from math import inf, sqrt

import numpy as np
from scipy.optimize import isotonic_regression

from weft.model.conditional_stream import ConditionalStream
from weft.model.workflow import ALWAYS

STEADY = 0.7
"""Coefficient of variation of gaps below which arrivals are not written as Poisson."""
WORTH = 0.02
"""Share of the time per task that a larger batch must save; otherwise batches stay smaller, since
every request of a batch waits for the whole batch."""


class Measurements:
    """Sums over all batches, branches and gaps; their size does not grow."""

    def __init__(self, stream: ConditionalStream) -> None:
        self.stream = stream
        self.batches: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(dict)
        """(kind of unit, task) -> size of the batch -> [number, seconds]."""
        self.branches: Counter[tuple[str, str]] = Counter()
        self.arrivals = 0
        self._last = inf
        self._gaps = self._squares = 0.0

    def batch(self, kind: str, task: str, size: int, seconds: float) -> None:
        """Add a batch."""
        entry = self.batches[kind, task].setdefault(size, [0.0, 0.0])
        entry[0] += 1.0
        entry[1] += seconds

    def branch(self, task: str, label: str | None) -> None:
        """Add the branch that a task took."""
        if label is not None:
            self.branches[task, label] += 1

    def arrival(self, time: float) -> None:
        """Add a request."""
        if self.arrivals:
            gap = max(0.0, time - self._last)
            self._gaps += gap
            self._squares += gap * gap
        self.arrivals += 1
        self._last = time

    def forget_arrivals(self) -> None:
        """Drop the arrivals, which a probe makes up."""
        self.arrivals, self._last = 0, inf
        self._gaps = self._squares = 0.0

    def copy(self) -> Measurements:
        """Return the measurements so far."""
        return self.since(Measurements(self.stream))

    def since(self, before: Measurements) -> Measurements:
        """Return the measurements that came after earlier ones."""
        new = Measurements(self.stream)
        for key, sizes in self.batches.items():
            old = before.batches.get(key, {})
            for size, (count, seconds) in sizes.items():
                known = old.get(size, (0.0, 0.0))
                if count > known[0]:
                    new.batches[key][size] = [count - known[0], seconds - known[1]]
        new.branches = self.branches - before.branches
        new.arrivals, new._last = self.arrivals - before.arrivals, self._last
        new._gaps, new._squares = self._gaps - before._gaps, self._squares - before._squares
        return new

    def curve(self, kind: str, task: str, largest: int) -> list[float]:
        """Return the seconds of batches of 1 to `largest`; empty if none was measured.

        A fuller batch takes no less time, so means that say otherwise are joined. Sizes between
        measured ones are interpolated; beyond them the time follows the curve of the stream.
        """
        found = self.batches.get((kind, task), {})
        if not found:
            return []
        sizes = sorted(found)
        means = [found[size][1] / found[size][0] for size in sizes]
        seconds = isotonic_regression(means, weights=[found[size][0] for size in sizes]).x
        known = self.expected(kind, task, largest)
        ratio = np.interp(
            np.arange(1, largest + 1),
            sizes,
            [s / known[b - 1] for b, s in zip(sizes, seconds, strict=True)],
        )
        return [float(r * s) for r, s in zip(ratio, known, strict=True)]

    def expected(self, kind: str, task: str, largest: int) -> list[float]:
        """Return the seconds of batches of 1 to `largest` by the stream."""
        problem = self.stream.problem
        unit, t = problem.cluster.kinds.index(kind), problem.workflow.index[task]
        one = max(problem.duration(t, unit), 1e-9)
        growth = problem.cluster.batch_growth([self._kind(t)])[0, unit]
        return [one * float(growth[min(b, len(growth) - 1)]) for b in range(largest)]

    def _kind(self, t: int) -> str:
        workflow = self.stream.problem.workflow
        return str(workflow.kinds[int(workflow.kind[t])])

    def gaps(self) -> tuple[str, float, float]:
        """Return the process of the arrivals, their mean gap and its deviation."""
        known = self.stream.arrivals
        if self.arrivals < 3 or self._gaps <= 0:
            return known.process, known.gap, known.deviation
        mean = self._gaps / (self.arrivals - 1)
        deviation = sqrt(max(0.0, self._squares / (self.arrivals - 1) - mean * mean))
        return ("poisson" if deviation >= STEADY * mean else "normal"), mean, deviation

    def share(self, task: str, labels: list[str], known: list[float]) -> dict[str, float]:
        """Return the probabilities of branches.

        One branch is added to the counts, in the known proportions.
        """
        seen = [self.branches[task, label] + p for label, p in zip(labels, known, strict=True)]
        return {label: count / sum(seen) for label, count in zip(labels, seen, strict=True)}

    def to_toml(self, *, whole: bool = False) -> str:
        """Return the stream with all that was measured, in the format of streams.

        Its batch curves end at the largest batch that pays; with `whole` at the largest one.
        """
        stream = self.stream
        process, gap, deviation = self.gaps()
        lines = [
            f"# Measured: {self.arrivals} requests. What was not measured is as it was before.",
            f"name = {_text(stream.name)}",
            f"jobs = {stream.jobs}",
            f"tick = {_number(stream.tick)}",
            f"start = {_text(self._starts())}",
            "",
            "[arrivals]",
            f"process = {_text(process)}",
            f"gap = {_number(gap)}",
        ]
        if process == "normal":
            lines.append(f"deviation = {_number(deviation)}")
        elif process == "trace":
            lines.append(f"times = {[float(t) for t in stream.arrivals.times]}")
        for t in range(stream.problem.workflow.n):
            lines += self._task_table(t)
        for c in range(len(stream.problem.workflow.choices.task)):
            lines += self._choice_table(c)
        return "\n".join([*lines, *self._unit_tables(whole=whole), ""])

    def _starts(self) -> list[str]:
        workflow = self.stream.problem.workflow
        pointers = workflow.pred_ptr
        return [workflow.task_name(t) for t in range(workflow.n) if pointers[t] == pointers[t + 1]]

    def _kinds(self) -> dict[str, int]:
        """Return each kind of unit with the index of its first unit."""
        kinds = self.stream.problem.cluster.kinds
        return {kind: kinds.index(kind) for kind in dict.fromkeys(kinds)}

    def _seconds(self, kind: str, t: int) -> list[float]:
        problem = self.stream.problem
        largest = int(problem.cluster.batch[self._kinds()[kind]])
        name = problem.workflow.task_name(t)
        return self.curve(kind, name, largest) or self.expected(kind, name, largest)

    def _task_table(self, t: int) -> list[str]:
        workflow = self.stream.problem.workflow
        times = {kind: self._seconds(kind, t)[0] for kind in self._kinds()}
        span = slice(int(workflow.succ_ptr[t]), int(workflow.succ_ptr[t + 1]))
        always = workflow.choices.edge_choice[span] == ALWAYS
        then = [workflow.task_name(int(v)) for v in workflow.dst[span][always]]
        return [
            "",
            "[[tasks]]",
            f"name = {_text(workflow.task_name(t))}",
            f"time = {_table({kind: _number(s) for kind, s in times.items()})}",
            f"kind = {_text(self._kind(t))}",
            *([f"then = {_text(then)}"] if then else []),
        ]

    def _choice_table(self, c: int) -> list[str]:
        workflow, choices = self.stream.problem.workflow, self.stream.problem.workflow.choices
        task = workflow.task_name(int(choices.task[c]))
        labels = [choices.labels[b] for b in choices.branches(c)]
        share = self.share(task, labels, self.stream.drift[c].probability[0].tolist())
        leads: dict[str, list[str]] = {label: [] for label in labels}
        for e in np.flatnonzero(choices.edge_choice == c).tolist():
            target = workflow.task_name(int(workflow.dst[e]))
            leads[labels[int(choices.edge_branch[e])]].append(target)
        return [
            "",
            "[[choices]]",
            f"task = {_text(task)}",
            f"branches = {_table({label: repr(p) for label, p in share.items()})}",
            f"leads_to = {_table({label: _text(targets) for label, targets in leads.items()})}",
            *(["estimate = true"] if c in self.stream.watched else []),
        ]

    def _unit_tables(self, *, whole: bool) -> list[str]:
        cluster, workflow = self.stream.problem.cluster, self.stream.problem.workflow
        lines: list[str] = []
        for kind, unit in self._kinds().items():
            curves = {}
            for t in range(workflow.n):
                seconds = self._seconds(kind, t)
                used = seconds if whole else seconds[: _worthwhile(seconds)]
                curves[self._kind(t)] = str([1.0, *(round(s / used[0], 4) for s in used[1:])])
            batch = int(cluster.batch[unit])
            lines += ["", "[[units]]", f"name = {_text(kind)}"]
            lines += [f"count = {cluster.kinds.count(kind)}", f"batch = {batch}"]
            lines += [f"batch_curve = {_table(curves)}"] if batch > 1 else []
        return lines


def _worthwhile(seconds: list[float]) -> int:
    """Return the smallest batch whose time per task is within `WORTH` of the least.

    Examples
    --------
    >>> _worthwhile([1.0, 1.2, 1.4, 1.6]), _worthwhile([1.0, 1.99, 2.96, 3.94])
    (4, 1)
    """
    per_task = [s / size for size, s in enumerate(seconds, 1)]
    least = min(per_task) / (1.0 - WORTH)
    return next(size for size, s in enumerate(per_task, 1) if s <= least)


def _text(value: str | list[str]) -> str:
    return json.dumps(value)  # such texts and lists are TOML, too


def _number(seconds: float) -> str:
    return f'"{1000.0 * seconds:.6g} ms"'


def _table(entries: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{_text(key)} = {value}" for key, value in entries.items()) + "}"
