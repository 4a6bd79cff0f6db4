"""How far below the shorter queue any router of equal requests can be: exact queueing analysis.

    python benchmarks/cascade/router_bound.py --load 0.8 --write docs/results/cascade.json

Two servers, 40 and 160 ms per request, Poisson arrivals, as in router_load.py. The lower bound
holds for every router, also for one that holds requests back in a queue of its own: it is the
optimum of a Markov decision process, found by relative value iteration (Puterman 1994, section
8.5).

Time has slots. Move every arrival and every start of a real run back to the beginning of its slot:
the result is a feasible run of the slotted system, since both service times are whole numbers of
slots, and each request ends no later than in the real run. The slotted system sees the arrivals of
a slot before it decides, and drops a request that meets a full queue at no cost. So its least mean
number of requests over the arrival rate (Little's law), minus half a slot for the arrivals that
were moved, is below the mean of every real router. Smaller slots make the bound tighter.

The shorter queue (ties at random) is simulated exactly, without slots.
"""

from __future__ import annotations

import argparse
import sys
from math import exp, factorial
from pathlib import Path

import numba
import numpy as np
from tables import put_table

FAST, SLOW = 0.04, 0.16
"""Seconds of a request on each server."""
ROOM = 50
"""Requests that the queue of the slotted system holds."""
STEP = 1e-4
"""Difference of bounds in requests at which the iteration ends."""


@numba.njit
def bounds_after(
    value: np.ndarray, following: np.ndarray, fast: int, slow: int, chance: np.ndarray
) -> tuple[float, float]:
    """Improve the relative values by one slot; return bounds of the mean number of requests."""
    room = value.shape[0] - 1
    expected = np.empty_like(value)
    for q in range(room + 1):
        for a in range(fast + 1):
            for b in range(slow + 1):
                total = 0.0
                for n in range(len(chance)):
                    total += chance[n] * value[min(q + n, room), a, b]
                expected[q, a, b] = total
    least, most = np.inf, -np.inf
    for q in range(room + 1):
        for a in range(fast + 1):
            for b in range(slow + 1):
                best = np.inf
                for to_fast in range(1 + (a == 0 and q > 0)):
                    for to_slow in range(1 + (b == 0 and q > to_fast)):
                        at_fast, at_slow = a + to_fast * fast, b + to_slow * slow
                        left = q - to_fast - to_slow
                        here = left + (at_fast > 0) + (at_slow > 0)
                        then = expected[left, max(at_fast - 1, 0), max(at_slow - 1, 0)]
                        best = min(best, here + then)
                following[q, a, b] = best
                gain = best - value[q, a, b]
                least, most = min(least, gain), max(most, gain)
    return least, most


def lower_bound(load: float, slot: float) -> float:
    """Return seconds below which no router has its mean completion time."""
    fast, slow = round(FAST / slot), round(SLOW / slot)
    rate = load * (1 / FAST + 1 / SLOW)
    chance = np.array([exp(-rate * slot) * (rate * slot) ** n / factorial(n) for n in range(6)])
    chance[0] += 1.0 - chance.sum()  # the rest of the arrivals is dropped
    value = np.zeros((ROOM + 1, fast + 1, slow + 1))
    following, least, most = np.empty_like(value), 0.0, np.inf
    while most - least > STEP:
        least, most = bounds_after(value, following, fast, slow, chance)
        value, following = following - following[0, 0, 0], value
    return least / rate - slot / 2


@numba.njit
def shorter_queue(gap: np.ndarray, tie: np.ndarray) -> float:
    """Return the mean seconds of requests that take the shorter queue."""
    time, total, free = 0.0, 0.0, np.zeros(2)
    for k in range(len(gap)):
        time += gap[k]
        at_fast = np.ceil(max(free[0] - time, 0.0) / FAST)
        at_slow = np.ceil(max(free[1] - time, 0.0) / SLOW)
        chosen = tie[k] if at_fast == at_slow else int(at_slow < at_fast)
        free[chosen] = max(free[chosen], time) + (SLOW if chosen else FAST)
        total += free[chosen] - time
    return total / len(gap)


def shorter_queues(load: float, requests: int, runs: int = 20) -> np.ndarray:
    """Return the mean seconds of each of several runs."""
    rng, rate = np.random.default_rng(1), load * (1 / FAST + 1 / SLOW)
    each = requests // runs
    return np.array(
        [
            shorter_queue(rng.exponential(1 / rate, each), rng.integers(0, 2, each))
            for _ in range(runs)
        ]
    )


def main() -> None:
    """Compute and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--load", type=float, default=0.8)
    parser.add_argument("--slots", type=float, nargs="*", default=[8.0, 4.0, 2.0], help="in ms")
    parser.add_argument("--requests", type=int, default=20_000_000)
    parser.add_argument("--write", type=Path, help="set the table of this file of docs/results")
    args = parser.parse_args()
    parts = 1000.0 * shorter_queues(args.load, args.requests)
    mean, error = float(parts.mean()), float(parts.std(ddof=1) / np.sqrt(len(parts)))
    print(f"shorter queue: {mean:.2f} ms (standard error {error:.2f})")
    rows: list[list[object]] = []
    for slot in args.slots:
        bound = 1000.0 * lower_bound(args.load, slot / 1000.0)
        rows.append([f"{slot:g} ms", mean, bound, 100.0 * (1.0 - bound / mean)])
        print(f"slots of {slot:g} ms: every router takes at least {bound:.2f} ms: ", end="")
        print(f"at most {1.0 - bound / mean:.1%} below", flush=True)
    if args.write is not None:
        columns = [("slots", None, ""), ("shorter queue", 1, ""), ("every router, at least", 1, "")]
        put_table(
            args.write,
            "router_bound",
            [*columns, ("at most below", 1, " %")],
            rows,
            commands=["python " + " ".join(sys.argv)],
            conditions=f"{args.requests} requests; standard error {error:.2f} ms",
        )


if __name__ == "__main__":
    main()
