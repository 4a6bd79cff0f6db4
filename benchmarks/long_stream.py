"""A simulated stream of millions of jobs: processor time and memory.

    python benchmarks/long_stream.py 10000000 [--out docs/results/long_stream.json]

Jobs of three templates (3, 5 and 8 tasks) arrive at random on three devices, which are busy for
about 60 % of the time. Memory is the growth of the peak after the first tenth of the jobs.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import weft
from weft.experiments.harness import describe_machine, page_table
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


def main(count: int, out: Path | None) -> None:
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
    growth = (peaks[-1] - peaks[0]) / 1024
    print(f"memory: {peaks[-1] / 1024:.0f} MB, {growth:.1f} MB of growth")
    if out is not None:
        columns = {"jobs": 0, "tasks": 0, "seconds": 1, "us per job": 1, "peak, MB": 0}
        row = [found.jobs, found.tasks, spent, 1e6 * spent / count, peaks[-1] / 1024, growth]
        document = {
            "measured_with": f"benchmarks/long_stream.py {count} --out docs/results/{out.name}",
            "provenance": "written by that script",
            "machine": describe_machine(),
            "tables": {"stream": page_table(columns | {"growth, MB": 1}, [row])},
        }
        out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=10_000_000)
    parser.add_argument("--out", type=Path, help="JSON file with the table of the page")
    main(**vars(parser.parse_args()))
