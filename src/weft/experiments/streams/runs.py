"""Steps of the streams experiment: all contenders on one setting."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from weft.experiments.streams.contenders import CONTENDERS, RULES, TestbedContender, TestbedRule
from weft.experiments.streams.testbed import JOBS, TestbedSetting, find_testbed
from weft.policies import simulate

FEW = 2_000
"""Workflows per setting in a quick run, and for slow contenders."""

PROCESSES = 2


@dataclass(frozen=True)
class StreamStep:
    """All contenders on the first jobs of a setting."""

    setting: TestbedSetting
    jobs: int

    @property
    def key(self) -> str:
        """Unique name of the step."""
        return f"{self.setting.key} {self.jobs}"


def steps(settings: list[TestbedSetting], *, quick: bool) -> list[StreamStep]:
    """Return the steps: few workflows with all contenders, then all workflows with the quick."""
    return [StreamStep(s, jobs) for jobs in ([FEW] if quick else [FEW, JOBS]) for s in settings]


def run_step(step: StreamStep) -> dict[str, Any]:
    """Return mean flowtime and processor time of each contender."""
    workload = find_testbed().workload(step.setting, step.jobs)
    found = {}
    for contender in CONTENDERS:
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
