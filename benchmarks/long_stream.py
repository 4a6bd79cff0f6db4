"""A simulated stream of millions of jobs: processor time and memory.

    python benchmarks/long_stream.py 10000000

Jobs of three templates (3, 5 and 8 tasks) arrive at random on three devices, which are busy for
about 60 % of the time. Memory is the growth of the peak after the first tenth of the jobs.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator

import numpy as np

import weft
from weft.policies.long_stream import StreamSummary, simulate_stream


def templates() -> list[weft.Problem]:
    rng, made = np.random.default_rng(3), []
    for n in (3, 5, 8):
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.4]
        made.append(weft.Problem.from_arrays(rng.uniform(1, 4, (n, 3)), pairs, bandwidth=1e9))
    return [weft.Problem.bind(p.workflow, made[0].cluster) for p in made]


def arrivals(count: int, gap: float) -> Iterator[tuple[float, int]]:
    rng, now = np.random.default_rng(5), 0.0
    for first in range(0, count, 10_000):
        size = min(10_000, count - first)
        times = now + np.cumsum(rng.exponential(gap, size))
        now = float(times[-1])
        yield from zip(times.tolist(), rng.integers(0, 3, size).tolist(), strict=True)


def main(count: int) -> None:
    peaks: list[int] = []

    def progress(summary: StreamSummary) -> None:
        if summary.jobs >= count / 10:
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

    begin = time.process_time()
    found = simulate_stream(templates(), arrivals(count, 7.0), progress=progress)
    spent = time.process_time() - begin
    print(
        f"{found.jobs} jobs, {found.tasks} tasks: {spent:.1f} s, {1e6 * spent / count:.1f} us a job"
    )
    print(f"busy {(found.busy / found.end).round(2)}, mean completion {found.jct:.2f} s")
    print(f"{found.parts} parts, {found.simulated / found.jobs:.3f} simulations a job")
    print(f"memory: {peaks[-1] / 1024:.0f} MB, {(peaks[-1] - peaks[0]) / 1024:.1f} MB of growth")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
