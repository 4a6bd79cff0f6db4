"""Microseconds per decision of `weft.Session`: a rule, an index and networks.

    python benchmarks/session_decisions.py [jobs]

Jobs arrive and assignments end at regular times. The clock runs within `decide` only; the time is
divided by the number of assignments.
"""

from __future__ import annotations

import heapq
import sys
import time
from itertools import count

import weft

POLICIES = {
    "workflows": ("fifo", "eft", "rank-first", "dqn", "replan-switch"),
    "conditional-paper": ("fifo", "shortest-remaining", "index", "conditional-any"),
}


def main() -> None:
    """Print a line per kind of session and policy."""
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    cluster = weft.gpu_cluster("2xV100+2xT4")
    problem = weft.Problem.bind(weft.generate("cholesky", tiles=4, tile_size=7680), cluster)
    for where, policies in POLICIES.items():
        for policy in policies:
            spent = []
            for size in (5, jobs):  # the first run loads the kernels
                if where == "workflows":
                    session = weft.Session(cluster, policy, workflows=[problem])
                else:
                    session = weft.Session(where, policy)
                spent.append(measure(session, size))
            print(f"{where:18s} {policy:20s} {1e6 * spent[-1]:8.1f} us per decision")


def measure(session: weft.Session, jobs: int) -> float:
    """Return the seconds in `decide` per assignment; all choices take their first branch."""
    numbers, ends, made, spent = count(), [], 0, 0.0
    for job in range(jobs):
        session.arrived(at=float(4 * job))
        while True:
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
    return spent / max(1, made)


if __name__ == "__main__":
    main()
