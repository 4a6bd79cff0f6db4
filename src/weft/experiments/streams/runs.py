"""Steps of the streams experiment: all contenders on one setting."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from weft.experiments.harness import Keyed
from weft.experiments.streams.contenders import (
    CONTENDERS,
    RULES,
    TestbedContender,
    TestbedRule,
    every_policy,
)
from weft.experiments.streams.testbed import JOBS, TestbedSetting, find_testbed
from weft.policies import simulate

FEW = 2_000
"""Workflows per setting in a quick run, and for slow contenders."""

FIRST = 30
"""Workflows per setting for all of weft's policies, some of which decide in Python."""


@dataclass(frozen=True)
class StreamStep(Keyed, key="{setting} {jobs}"):
    """All contenders on the first jobs of a setting."""

    setting: TestbedSetting
    jobs: int
    every: bool = False
    """Whether all of weft's policies run, instead of the contenders."""


def steps(settings: list[TestbedSetting], *, quick: bool) -> list[StreamStep]:
    """Return the steps: first workflows with all policies, then more with fewer."""
    lengths = [FEW] if quick else [FEW, JOBS]
    first = [StreamStep(s, FIRST, every=True) for s in settings]
    return [*first, *(StreamStep(s, jobs) for jobs in lengths for s in settings)]


def run_step(step: StreamStep) -> dict[str, Any]:
    """Return mean flowtime and processor time of each contender."""
    workload = find_testbed().workload(step.setting, step.jobs)
    found = {}
    every = every_policy(find_testbed().workload(step.setting, 1)) if step.every else ()
    for contender in every or CONTENDERS:
        if contender.slow and step.jobs > FEW:
            continue
        begin = time.process_time()
        trace = simulate(workload, _policy(contender))
        seconds = time.process_time() - begin
        found[contender.name] = {"flowtime": float(trace.jct), "seconds": seconds}
    return found


def _policy(contender: TestbedContender) -> TestbedRule | str:
    rule, _, clock = contender.name.partition(", ")
    return TestbedRule(rule, stale=clock == "stale clock") if rule in RULES else contender.name
