"""Steps of the families experiment: all contenders on one case."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from weft.experiments.families.clairvoyant import clairvoyant_completion, clairvoyant_makespan
from weft.experiments.families.contenders import CHOSEN, contenders
from weft.experiments.harness import Keyed, data_folder
from weft.formats.loading import load_workflow
from weft.generators.families.distribution import (
    FAMILY_CONDITIONS,
    LOADS,
    FamilyCase,
    draw_case,
    draw_workflow,
)
from weft.model import Workflow
from weft.policies import simulate
from weft.rng import generator

FIRST_SEED = 1_000_000
"""Seeds of the evaluation begin here; no constant was chosen with these."""
CASES, QUICK_CASES = 60, 8
ABLATION_CASES, QUICK_ABLATION_CASES = 10, 2
"""Cases per condition, the first ones, on which parts of the search policy run too."""
STREAM_JOBS = 8
MEASURED = {
    "genome": "wfinstances/dev/1000genome",
    "blast": "wfinstances/dev/blast",
    "cycles": "wfinstances/dev/cycles",
    "seismology": "wfinstances/dev/seismology",
    "soykb": "wfinstances/dev/soykb",
    "srasearch": "wfinstances/dev/srasearch",
    "transformer": "ml_dags/dev",
    "lu": "tiled_dags/dev",
}
"""Folders of measured graphs of families, below the data folder."""
PREFIX = {"transformer": "gpt2", "lu": "denselu"}
CONDITIONS = tuple(c for c in FAMILY_CONDITIONS if c != "measured")
"""Conditions of the experiment; the measured noise of kernels lies between the first two."""
EXACT = ("static", "noisy .3", "noisy .5", "biased")
"""Conditions without changes over time: a plan with the true durations can be made in advance."""


@dataclass(frozen=True)
class FamilyStep(Keyed, key="{condition} {seed}"):
    """All contenders on one case."""

    condition: str
    seed: int
    parts: bool = False


def steps(*, quick: bool) -> list[FamilyStep]:
    """Return the steps; all conditions advance together."""
    cases = QUICK_CASES if quick else CASES
    parts = QUICK_ABLATION_CASES if quick else ABLATION_CASES
    return [FamilyStep(c, FIRST_SEED + k, k < parts) for k in range(cases) for c in CONDITIONS]


def case_of(step: FamilyStep) -> FamilyCase:
    """Draw the case of a step from measured graphs if there are any, else generate it."""
    return draw_case(step.condition, seed=step.seed, jobs=STREAM_JOBS, source=measured_or_drawn)


def run_step(step: FamilyStep) -> dict[str, Any]:
    """Return makespans and seconds per task of all contenders.

    In streams, mean completion times stand for makespans.
    """
    case = case_of(step)
    workload, scenario = case.instance
    stream = step.condition in LOADS
    found: dict[str, float] = {}
    spent: dict[str, float] = {}
    known: dict[str, float] = {}
    for contender in contenders(stream=stream, parts=step.parts):
        policy, begin = contender.policy(), time.process_time()
        trace = simulate(workload, policy, scenario=scenario)
        spent[contender.name] = (time.process_time() - begin) / workload.instances
        found[contender.name] = float(trace.jct if stream else trace.makespan)
        if contender.name == CHOSEN and stream and step.parts:
            known["clairvoyant"] = clairvoyant_completion(case, trace)
    if step.condition in EXACT:
        known["clairvoyant"] = clairvoyant_makespan(case)
    return {
        "families": sorted(set(case.families)),
        "cluster": case.cluster,
        "ccr": case.ccr,
        "tasks": workload.instances,
        "measured": sum(any(_files(f)) for f in case.families) / len(case.families),
        "figures": found | known,
        "seconds": spent,
    }


# -- measured graphs -------------------------------------------------------------------


def measured_or_drawn(family: str, seed: int, sizes: tuple[int, int]) -> Workflow:
    """Return a measured graph of a family and a range of sizes, else a generated one."""
    files, rng = _files(family), generator(seed, "families", "measured")
    for k in rng.permutation(len(files)).tolist():
        workflow = _read(files[k])
        if sizes[0] <= workflow.n <= sizes[1] and workflow.m:
            return workflow
    return draw_workflow(family, seed, sizes)


@cache
def _files(family: str) -> tuple[Path, ...]:
    folder = data_folder(MEASURED[family]) if family in MEASURED else None
    return tuple(sorted(folder.glob(f"{PREFIX.get(family, '')}*.json.gz"))) if folder else ()


@cache
def _read(path: Path) -> Workflow:
    return dataclasses.replace(load_workflow(path), names=None)
