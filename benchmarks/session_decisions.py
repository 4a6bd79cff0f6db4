"""Microseconds per decision of `weft.Session`, for every policy.

    python benchmarks/session_decisions.py [jobs] [policy ...]

Jobs arrive and assignments end at regular times. The clock runs within `decide` only; the time is
divided by the number of assignments. Policies that need more than `MOST` seconds see fewer jobs.
"""

from __future__ import annotations

import heapq
import json
import sys
import time
from itertools import count

import weft
from weft.formats.native.stream_toml import load_stream

MOST = 2.0
"""Seconds of processor time per policy."""


def main() -> None:
    """Print a line per kind of session and policy."""
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    cluster = weft.gpu_cluster("2xV100+2xT4")
    problem = weft.Problem.bind(weft.generate("cholesky", tiles=4, tile_size=7680), cluster)
    stream = load_stream("conditional-paper")
    found: dict[str, dict[str, float]] = {"workflows": {}, "conditional-paper": {}}
    for policy in weft.list_policies():
        if sys.argv[2:] and policy not in sys.argv[2:]:
            continue
        for name, what in (("workflows", problem), ("conditional-paper", stream)):
            if policy.supports(what):
                for size in (5, jobs):  # the first run loads the kernels
                    session = (
                        weft.Session(cluster, str(policy), workflows=[problem])
                        if what is problem
                        else weft.Session(stream, str(policy))
                    )
                    spent, made = measure(session, size)
                found[name][str(policy)] = 1e6 * spent / made
                print(
                    f"{name:18s} {policy:22s} {1e6 * spent / made:8.1f} us per decision,"
                    f" {made} decisions",
                    flush=True,
                )
    print(json.dumps(found))


def measure(session: weft.Session, jobs: int) -> tuple[float, int]:
    """Return the seconds in `decide`, and the assignments; choices take their first branch."""
    numbers, ends, made, spent = count(), [], 0, 0.0
    for job in range(jobs):
        session.arrived(at=float(4 * job))
        while spent < MOST:
            began = time.thread_time()
            orders = session.decide(at=session.now)
            spent += time.thread_time() - began
            made += len(orders)
            for order in orders:
                heapq.heappush(ends, (session.now + 1.0, next(numbers), order))
            if not ends or (job + 1 < jobs and ends[0][0] > 4 * job + 4):
                break
            at, _, done = heapq.heappop(ends)
            session.finished(done, 0, at=at)
    return spent, max(1, made)


if __name__ == "__main__":
    main()
