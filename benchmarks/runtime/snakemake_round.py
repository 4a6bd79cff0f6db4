"""Processor seconds of a scheduling round of the Snakemake plugin, by number of jobs.

    python benchmarks/runtime/snakemake_round.py 700000

Half of the jobs can run; each is read by one other, and all of these by one last. The jobs are
stand-ins with the attributes that the plugin reads, and outputs of one file each. The first round
orders the whole graph; it is done again when Snakemake changes the graph.
"""

from __future__ import annotations

import logging
import sys
import time
from types import SimpleNamespace
from typing import Any

from snakemake_scheduler_plugin_weft import Scheduler


class Job:
    __slots__ = ("name", "output", "parents", "priority", "rule", "scheduler_resources")

    def __init__(self, name: str, rule: Any, parents: list[Job]) -> None:
        self.name, self.rule, self.parents = name, rule, parents
        self.priority, self.output = 0, [f"results/{name}.txt"]
        self.scheduler_resources = {"_cores": 1, "_nodes": 1}


def workflow(n: int) -> tuple[list[Job], list[Job]]:
    rules = {name: SimpleNamespace(name=name) for name in SECONDS}
    first = [Job(f"a{k}", rules[f"first{k % 7}"], []) for k in range(n // 2)]
    second = [Job(f"b{k}", rules[f"second{k % 7}"], [job]) for k, job in enumerate(first)]
    return first, [*first, *second, Job("last", rules["last"], second)]


SECONDS = {f"{kind}{k}": 1.0 + k for kind in ("first", "second") for k in range(7)} | {"last": 3.0}


def main(n: int) -> None:
    first, jobs = workflow(n)
    scheduler: Any = Scheduler.__new__(Scheduler)
    scheduler.settings, scheduler.logger = None, logging.getLogger()
    scheduler.dag = SimpleNamespace(
        needrun_jobs=lambda: jobs, job_dependencies=lambda job: job.parents
    )
    scheduler.history, scheduler.seconds = None, SECONDS
    scheduler.dag_updated()
    ready, free = set(first), {"_cores": 64, "_nodes": 1 << 40}
    for turn in range(4):
        begin = time.process_time()
        chosen = scheduler.select_jobs(ready, jobs, free, {})
        print(f"{n} jobs, round {turn}: {time.process_time() - begin:.2f} s, {len(chosen)} chosen")
        ready.difference_update(chosen)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 700_000)
