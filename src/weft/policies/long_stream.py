"""Streams of millions of jobs in constant memory.

They are simulated part by part, and cut at times when all devices are idle. When every job that has
arrived is finished before the next one arrives, the future does not depend on the past: a stable
stream is full of such moments. A part is simulated as a workload of its own; its jobs before the
last such moment are final, the others are simulated again with the next part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike

import numpy as np

from weft.errors import InvalidInput, Unsupported, WeftError
from weft.model import Problem, Workload
from weft.model.columns import FloatArray
from weft.policies.load import load_kind
from weft.policies.rules import RulePolicy
from weft.progress import Progress, silent
from weft.sim.rule import Rule
from weft.sim.simulate import simulate as simulate_workload
from weft.sim.view import Policy
from weft.typed import typed

TemplateArrivals = Iterable[tuple[float, int]]
"""(arrival in seconds, template) of each job, sorted by arrival."""


@dataclass
class StreamSummary:
    """Figures of a stream, without its jobs.

    Attributes
    ----------
    jobs, tasks : numbers of finished ones
    end : when the last job ended
    jct, jct_max : mean and largest job completion time, seconds
    busy : seconds that each device worked
    parts, simulated : simulations, and the jobs in them; jobs that were simulated again count again
    """

    busy: FloatArray = field(default_factory=lambda: np.zeros(0))
    jobs: int = 0
    tasks: int = 0
    end: float = 0.0
    jct: float = 0.0
    jct_max: float = 0.0
    parts: int = 0
    simulated: int = 0

    def add(self, arrival: FloatArray, finish: FloatArray, tasks: int, busy: FloatArray) -> None:
        """Add finished jobs."""
        times = finish - arrival
        self.jct = (self.jct * self.jobs + float(times.sum())) / (self.jobs + len(times))
        self.jct_max = max(self.jct_max, float(times.max()))
        self.jobs += len(times)
        self.tasks += tasks
        self.end = max(self.end, float(finish.max()))
        self.busy = busy + (self.busy if len(self.busy) else 0.0)


@typed
def simulate_stream(
    problems: Problem | Sequence[Problem],
    arrivals: TemplateArrivals,
    policy: str | PathLike[str] | Policy = "fifo",
    *,
    part: int = 20_000,
    most: int = 1_000_000,
    progress: Progress[StreamSummary] = silent,
) -> StreamSummary:
    """Simulate a stream of any length; durations are as estimated.

    Parameters
    ----------
    problems : the templates
    arrivals : (arrival, template) of each job, sorted by arrival; an iterator is read as needed
    policy : a rule (an order of ready tasks and a placement): other policies may depend on the past
    part : jobs simulated at once; doubled as long as no moment is idle
    most : the largest part; a stream that never drains ends with an error
    progress : called after each part

    Examples
    --------
    >>> problem = Problem.from_arrays([[1.0], [2.0]], [[0, 1]])
    >>> found = simulate_stream(problem, ((4.0 * k, 0) for k in range(1000)), part=100)
    >>> found.jobs, found.jct, found.end
    (1000, 3.0, 3999.0)
    """
    templates = [problems] if isinstance(problems, Problem) else list(problems)
    rule = load_kind(
        policy, RulePolicy, "may depend on the past; a stream in parts needs a rule, e.g. fifo"
    )
    if any(p.workflow.conditional for p in templates):
        raise Unsupported("templates with branches need drawn outcomes; use weft.simulate")
    if not 1 <= part <= most:
        raise InvalidInput(f"part is {part}; it must be 1 to {most}")
    summary = StreamSummary()
    sizes = np.array([p.n for p in templates])
    source: Iterator[tuple[float, int]] = iter(arrivals)
    waiting, size = list[tuple[float, int]](), part
    while True:
        while len(waiting) < size and (job := next(source, None)) is not None:
            waiting.append(job)
        if not waiting:
            return summary
        last = len(waiting) < size
        final = _simulate_part(templates, waiting, rule.rule, summary, sizes, last=last)
        if final:
            waiting, size = waiting[final:], part
        elif size >= most:
            raise WeftError(
                f"job {summary.jobs} and the {size} after it leave no idle moment: the devices "
                "cannot keep up with this stream; give fewer arrivals, or a larger `most`"
            )
        else:
            size = min(2 * size, most)
        progress(summary)


def _simulate_part(
    templates: Sequence[Problem],
    jobs: Sequence[tuple[float, int]],
    rule: Callable[[Workload], Rule],
    summary: StreamSummary,
    sizes: np.ndarray,
    *,
    last: bool,
) -> int:
    """Simulate jobs and add the final ones to the summary; return their number."""
    arrival = np.array([time for time, _ in jobs])
    if (down := np.flatnonzero(np.diff(arrival) < 0)).size:
        earlier, later = arrival[down[0] + 1], arrival[down[0]]
        raise InvalidInput(f"an arrival at {earlier:g} s follows one at {later:g} s; sort them")
    template = np.array([k for _, k in jobs], np.int64)
    workload = Workload.of(templates, arrival=arrival, template=template)
    trace = simulate_workload(workload, rule(workload))
    summary.parts += 1
    summary.simulated += len(jobs)
    finish = trace.job_finish
    # Strictly before: at the moment of an arrival, ends and decisions may come in any order.
    idle = np.flatnonzero(np.maximum.accumulate(finish)[:-1] < arrival[1:]) + 1
    final = len(jobs) if last else int(idle[-1]) if len(idle) else 0
    if final:
        mine = trace.job < final
        seconds = (trace.finish - trace.start)[mine]
        busy = np.zeros(workload.cluster.p)
        np.add.at(busy, trace.device[mine], seconds)
        summary.add(arrival[:final], finish[:final], int(sizes[template[:final]].sum()), busy)
    return final
