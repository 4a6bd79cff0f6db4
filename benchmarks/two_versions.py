"""Old problems on two versions of weft: the same bits, and the processor time of both.

Two processes live side by side, one per version, and take turns in many short rounds. A round
gives one ratio, new over old; the table has the median ratio and its 95 % interval (of the order
statistics): of the compiled kernel alone and, as a user meets it, of the whole call with its tables
and trace. Problems use no capacities, batch curves, set-ups or networks.

    git worktree add --detach ../old 7fb4380   # before capacities; with its own environment
    python benchmarks/two_versions.py --old ../old/.venv/bin/python
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.experiments.benchmarks.large import layered
from weft.sim.kernel import rules
from weft.sim.kernel.tables import make_sim

SIZES = {"300 x 8": (300, 8), "3,000 x 16": (3000, 16)}
STREAM = "100 jobs of 30 x 8"
DECIDERS = ("fifo", "eft", "replay", "heft")
DRAWN = 15
"""Drawn workloads whose results are compared; times the deciders."""


# -- one version -----------------------------------------------------------------------


def workloads() -> dict[str, Any]:
    """Make the problems, and a stream of small jobs."""
    made = {name: weft.Problem.from_arrays(**layered(*size)) for name, size in SIZES.items()}
    small = weft.Problem.from_arrays(**layered(30, 8, seed=1))
    arrival = np.cumsum(np.random.default_rng(0).exponential(3.0, 100))
    return {**made, STREAM: weft.Workload.of(small, arrival=arrival)}


def call(workload: Any, decider: str) -> Callable[[], Any] | None:
    """Return the call to measure; None: a planner does not plan streams."""
    if decider == "heft":
        if isinstance(workload, weft.Workload):
            return None
        return lambda: weft.plan(workload, "heft").schedule
    if decider != "replay":
        return lambda: weft.simulate(workload, decider)
    problem = workload if isinstance(workload, weft.Problem) else workload.problems[0]
    schedule = weft.plan(problem, "heft").schedule
    return lambda: weft.simulate(workload, schedule)


def kernel(workload: Any, decider: str) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Return what makes the tables of a simulation, and the kernel that runs on them."""
    work = workload if isinstance(workload, weft.Workload) else weft.Workload.of(workload)
    scenario = weft.Scenario.draw(work)
    if decider == "replay":
        guide: Any = [weft.plan(work.problems[0], "heft").schedule]
    else:
        guide = weft.load_policy(decider).rule(work)
    run = getattr(rules, "replay", rules.run_to_end) if decider == "replay" else rules.run_to_end
    return lambda: make_sim(work, scenario, guide, eager=True), run


def digest(result: Any) -> str:
    """Return a hash of the bytes of a trace or a schedule."""
    columns = ("task", "device", "start", "finish", "copy", "decided", "job", "status", "batch")
    arrays = [np.asarray(getattr(result, c)) for c in columns if hasattr(result, c)]
    return sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()


def drawn(case: int, decider: str) -> str:
    """Return the hash of a result on a drawn workload: noise, failures, cancelled jobs."""
    rng = np.random.default_rng([7, case])
    size = int(rng.integers(5, 80)), int(rng.integers(1, 9))
    problem = weft.Problem.from_arrays(**layered(*size, seed=case, dense=case % 2 == 0))
    if decider == "heft":
        return digest(weft.plan(problem, "heft").schedule)
    jobs = np.cumsum(rng.exponential(20.0, int(rng.integers(1, 9))))
    policy = weft.plan(problem, "heft").schedule if decider == "replay" else decider
    draws = {"noise": 0.3, "slowdowns": 0.5, "cancellations": 0.2}
    failures = 0.0 if decider == "replay" else 0.5
    workload = weft.Workload.of(problem, arrival=jobs)
    return digest(weft.simulate(workload, policy, seed=case, failures=failures, **draws))


def serve() -> None:
    """Answer requests: processor seconds per call of a case, or hashes."""
    made = workloads()
    calls = {(w, d): call(made[w], d) for w in made for d in DECIDERS}
    kernels = {(w, d): kernel(made[w], d) for w in made for d in DECIDERS if d != "heft"}
    for line in sys.stdin:
        ask = json.loads(line)
        if "drawn" in ask:
            answer: Any = drawn(ask["drawn"], ask["decider"])
        elif ask["part"] == "kernel":
            make, compiled = kernels[ask["workload"], ask["decider"]]
            sims = [make() for _ in range(ask["calls"])]
            start = time.process_time()
            for sim in sims:
                compiled(sim)
            answer = (time.process_time() - start) / ask["calls"]
            if ask["calls"] == 1:
                answer = [answer, sims[0].execution.tobytes().hex()]
        else:
            run = calls[ask["workload"], ask["decider"]]
            assert run is not None
            start = time.process_time()
            for _ in range(ask["calls"]):
                run()
            answer = (time.process_time() - start) / ask["calls"]
            if ask["calls"] == 1:
                answer = [answer, digest(run())]
        print(json.dumps(answer), flush=True)


# -- both ------------------------------------------------------------------------------


class Version:
    """A process that runs one version."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **request: Any) -> Any:
        """Send a request and return its answer."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Return the median and its 95 % interval, by order statistics."""
    ordered, n = sorted(ratios), len(ratios)
    reach = 0.98 * n**0.5
    low, high = max(0, int(n / 2 - reach)), min(n - 1, int(np.ceil(n / 2 + reach)))
    return float(np.median(ordered)), ordered[low], ordered[high]


def measure(old: Version, new: Version, case: dict[str, str], args: Any) -> dict[str, Any]:
    """Measure one case in rounds that take turns in who is first."""
    first = [v.ask(**case, calls=1) for v in (old, new)]
    again = [v.ask(**case, calls=1) for v in (old, new)]
    calls = max(2, int(args.slice / max(again[0][0], 1e-6)))
    times: dict[str, list[float]] = {"old": [], "new": []}
    for k in range(args.rounds):
        turns = [("old", old), ("new", new)]
        for name, version in turns if k % 2 == 0 else turns[::-1]:
            times[name].append(version.ask(**case, calls=calls))
    ratios = [b / a for a, b in zip(times["old"], times["new"], strict=True)]
    median, low, high = interval(ratios)
    return {
        **case,
        "old_us": round(float(np.median(times["old"])) * 1e6, 1),
        "new_us": round(float(np.median(times["new"])) * 1e6, 1),
        "ratio": round(median, 4),
        "interval": [round(low, 4), round(high, 4)],
        "same": first[0][1] == first[1][1],
    }


def timed_cases(deciders: list[str]) -> list[dict[str, str]]:
    """Return the cases to measure; planners do not plan streams and have no kernel of their own."""
    return [
        {"decider": decider, "part": part, "workload": name}
        for decider in deciders
        for part in ("kernel", "call")
        for name in (*SIZES, STREAM)
        if decider != "heft" or (part == "call" and name != STREAM)
    ]


def document(rows: list[dict[str, Any]], same: str, args: Any) -> dict[str, Any]:
    """Return the tables of the docs."""
    lines = [
        [
            *(row["decider"], row["part"], row["workload"]),
            *(row["old_us"], row["new_us"], row["ratio"], *row["interval"]),
            "same" if row["same"] else "other",
        ]
        for row in rows
    ]
    texts, numbers = ["", "part", "workload"], ["old", "new", "new / old", "from", "to"]
    return {
        "measured_with": "python benchmarks/two_versions.py --old PYTHON",
        "provenance": f"{args.rounds} rounds of {args.slice * 1000:g} ms; {same} drawn cases "
        "have the same bits",
        "tables": {
            "times": {
                "columns": [*texts, *numbers, "bits"],
                "align": "lllrrrrrl",
                "decimals": [None, None, None, 0, 0, 2, 2, 2, None],
                "suffix": ["", "", "", " us", " us", "", "", "", ""],
                "rows": lines,
            }
        },
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", help="Python of the older version")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--slice", type=float, default=0.02, help="seconds of a turn")
    parser.add_argument("--only", nargs="*", default=DECIDERS, choices=DECIDERS)
    parser.add_argument("--write", type=Path, help="a file for the figures")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve()
        return
    old, new = Version(args.old), Version(sys.executable)
    rows = []
    for case in timed_cases(args.only):
        row = measure(old, new, case, args)
        rows.append(row)
        print(
            f"{row['decider']:7} {row['part']:7} {row['workload']:20} "
            f"old {row['old_us']:9.1f} us  new {row['new_us']:9.1f} us  "
            f"ratio {row['ratio']:.3f} ({row['interval'][0]:.3f} to {row['interval'][1]:.3f})"
            f"  {'same' if row['same'] else 'OTHER'} bits",
            flush=True,
        )
    cases = [{"drawn": c, "decider": d} for d in args.only for c in range(DRAWN)]
    same = sum(old.ask(**c) == new.ask(**c) for c in cases)
    print(f"{same} of {len(cases)} drawn cases have the same bits")
    old.close()
    new.close()
    if args.write:
        args.write.write_text(
            json.dumps(document(rows, f"{same} of {len(cases)}", args), indent=1) + "\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
