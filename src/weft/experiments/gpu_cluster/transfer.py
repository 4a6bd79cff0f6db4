"""Transfer of policies trained on layered graphs to other structures.

The possible gain over HEFT differs between structures, so there are two references: the policy's
advantage on layered graphs, and the advantage of a *specialist*: the same policy fitted to the
structure with many samples and more time.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments.gpu_cluster.contenders import FAIR, LEARNED, contender, policy
from weft.experiments.gpu_cluster.runs import FIRST_SEED, Evaluator, ExperimentPlan
from weft.experiments.gpu_cluster.statistics import number
from weft.experiments.harness import data_folder, in_processes
from weft.formats.loading import load_workflow
from weft.generators import (
    Instance,
    draw_instance,
    fit_workflow,
    heterogeneous_gpus,
    instance_of,
    scale_ccr,
)
from weft.learn.workflow.fine_tuning import fine_tune
from weft.model import Cluster, Problem, Workflow
from weft.policies.replanning.policy import ReplanningPolicy
from weft.progress import Track
from weft.report.statistics import geometric_mean_ratio
from weft.rng import generator

TRAINED_ON = "layered"
"""Structure of the training graphs."""
FOLDERS = ("wfinstances", "tpch_spark", "ml_dags")
ALONE, STREAM = ("static", "changing"), "stream"
"""Conditions: one job, compared by makespan; a stream, compared by mean completion time."""
BASELINES = {**dict.fromkeys(ALONE, FAIR[0]), STREAM: "heft-arrival"}
TRANSFER_CCRS = (1.0, 5.0)
LOAD, STREAM_JOBS = 0.9, 12
SEARCH = "anytime"
"""Reference search with exact costs: the possible gain on a structure."""
TUNABLE = "replan-switch"
"""The policy that is fine-tuned."""
FEW, MANY = 4, 20
"""Draws per condition and CCR for fine-tuning, and for a specialist."""
TUNING_SEED = FIRST_SEED - 10_000
SEED_STRIDE = 100_000
"""Distance between seeds of the graphs of one stream."""
MOST_TASKS = 400
QUERIES = 8
"""TPC-H queries per job: a single query is smaller than any other job."""


@dataclass(frozen=True)
class TransferTrial:
    """One draw of one structure in one condition."""

    structure: str
    condition: str
    ccr: float
    seed: int
    names: tuple[str, ...]


def available(structures: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return structures that can be drawn, and those without data in $WEFT_DATA."""
    absent = [name for name in structures if name in FOLDERS and not _files(name)]
    return [name for name in structures if name not in absent], absent


def draw_structure(structure: str, condition: str, *, seed: int, ccr: float) -> Instance:
    """Draw a generated or a measured graph with this CCR on a random cluster."""
    jobs = STREAM_JOBS if condition == STREAM else 1
    if structure not in FOLDERS:
        return draw_instance(
            condition,
            seed=seed,
            structure=structure,
            ccr=ccr,
            tasks=(30, 120),
            jobs=jobs,
            load=LOAD,
        )
    cluster = heterogeneous_gpus(seed)
    graphs = [w for k in range(jobs) for w in _measured(structure, seed + k * SEED_STRIDE)]
    return instance_of([_bound(w, cluster, ccr) for w in graphs], condition, seed=seed, load=LOAD)


def run_trial(trial: TransferTrial) -> dict[str, float]:
    """Return the makespan (stream: mean completion time) of all contenders."""
    case = draw_structure(trial.structure, trial.condition, seed=trial.seed, ccr=trial.ccr)
    evaluator = Evaluator(case.workload, stream=trial.condition == STREAM)
    figure = "jct" if evaluator.stream else "makespan"
    found = {
        name: evaluator.run_policy(policy(name), case.scenario)[figure] for name in trial.names
    }
    search = (
        evaluator.run(contender(SEARCH), case.scenario) if trial.condition == "static" else None
    )
    return found if search is None else {**found, SEARCH: search["makespan"]}


def transfer(plan: ExperimentPlan, names: Sequence[str], *, track: Track = iter) -> dict[str, Any]:
    """Return the advantage over re-planned HEFT per structure.

    In streams the baseline is HEFT re-planned in order of arrival.
    """
    learned = [name for name in LEARNED if name in names]
    present, absent = available(plan.structures)
    if not learned or not set(BASELINES.values()) <= set(names):
        return {
            "rows": [],
            "overall": [],
            "absent": absent,
            "note": "no learned policy, or no rival of it, takes part",
        }
    trials = [
        TransferTrial(
            structure, condition, ccr, FIRST_SEED + seed, (BASELINES[condition], *learned)
        )
        for seed in range(plan.seeds.transfer)
        for structure in (TRAINED_ON, *present)
        for condition in BASELINES
        for ccr in TRANSFER_CCRS
    ]
    simulated = in_processes(run_trial, trials, processes=plan.processes)
    spans: dict[tuple[str, str, float], list[dict[str, float]]] = {}
    for trial in track(trials):
        spans.setdefault((trial.structure, trial.condition, trial.ccr), []).append(next(simulated))
    tuned = _tune(plan, present) if TUNABLE in learned else {}
    rows = [_row(name, key, spans, tuned) for name in learned for key in spans]
    return {
        "rows": rows,
        "overall": overall(rows),
        "absent": absent,
        "seeds": plan.seeds.transfer,
        "note": "",
    }


@dataclass(frozen=True)
class Fitting:
    """Amount of fitting of a policy to a structure, and seeds of its evaluation."""

    structure: str
    draws: int
    seconds: float
    seeds: int


FittedMakespans = dict[tuple[str, float], list[float]]
"""(condition, ccr) -> makespans."""


def fit_and_try(fitting: Fitting) -> FittedMakespans:
    """Fine-tune on draws of a structure, then evaluate on others."""
    worlds = [(condition, ccr) for condition in ALONE for ccr in TRANSFER_CCRS]

    def case(condition: str, ccr: float, seed: int) -> Instance:
        return draw_structure(fitting.structure, condition, seed=seed, ccr=ccr)

    samples = [case(*world, TUNING_SEED + k) for k in range(fitting.draws) for world in worlds]
    given = policy(TUNABLE)
    assert isinstance(given, ReplanningPolicy)
    better = fine_tune(given.with_objective("makespan"), samples, fitting.seconds, 0)
    cases = {
        world: [case(*world, FIRST_SEED + seed) for seed in range(fitting.seeds)]
        for world in worlds
    }
    return {
        world: [Evaluator(c.workload).run_policy(better, c.scenario)["makespan"] for c in found]
        for world, found in cases.items()
    }


def _tune(
    plan: ExperimentPlan, present: Sequence[str]
) -> dict[str, tuple[FittedMakespans, FittedMakespans]]:
    """Return structure -> makespans after fine-tuning, and of a specialist."""
    structures = [s for s in plan.tuned if s in present]
    amounts = ((FEW, plan.tuning_seconds), (MANY, plan.specialist_seconds))
    fittings = [
        Fitting(structure, *amount, plan.seeds.transfer)
        for structure in structures
        for amount in amounts
    ]
    simulated = in_processes(fit_and_try, fittings, processes=plan.processes)
    return {structure: (next(simulated), next(simulated)) for structure in structures}


def _row(
    name: str,
    key: tuple[str, str, float],
    spans: Mapping[tuple[str, str, float], list[dict[str, float]]],
    tuned: Mapping[str, tuple[FittedMakespans, FittedMakespans]],
) -> dict[str, Any]:
    structure, condition, ccr = key
    rival, reference = BASELINES[condition], spans[TRAINED_ON, condition, ccr]
    layered = _ratio([s[name] for s in reference], [s[rival] for s in reference])
    base = [s[rival] for s in spans[key]]
    ratio = geometric_mean_ratio([s[name] for s in spans[key]], base)
    fitted = tuned.get(structure) if name == TUNABLE and condition in ALONE else None
    after, specialist = (
        (None, None) if fitted is None else (_ratio(each[condition, ccr], base) for each in fitted)
    )
    return {
        "structure": structure,
        "condition": condition,
        "ccr": ccr,
        "policy": name,
        "ratio": ratio.estimate,
        "low": ratio.low,
        "high": ratio.high,
        "layered": layered,
        "tuned": after,
        "specialist": specialist,
        "search": _ratio([s[SEARCH] for s in spans[key]], base)
        if all(SEARCH in s for s in spans[key])
        else None,
    }


def overall(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each policy's advantage per structure, and the share it keeps.

    Shares are None if the reference advantage is below 1 %. `captured` is the share of the gain of
    a search with exact costs. Streams count beside single jobs (`kept_alone`, `kept_stream`);
    policies are fitted to single jobs only.

    Examples
    --------
    >>> row = {"policy": "replan-switch", "condition": "static", "ccr": 1.0, "layered": 0.9}
    >>> row |= {"tuned": None, "specialist": None, "search": 0.84}
    >>> layered = {**row, "structure": "layered", "ratio": 0.9}
    >>> found = overall([layered, {**row, "structure": "lu", "ratio": 0.92}])
    >>> [[round(r[key], 3) for key in ("advantage", "kept", "captured")] for r in found]
    [[0.1, 1.0, 0.625], [0.08, 0.8, 0.5]]
    """
    found = []
    for name, structure in dict.fromkeys((row["policy"], row["structure"]) for row in rows):
        every = [row for row in rows if row["policy"] == name and row["structure"] == structure]
        own, streams = (
            [row for row in every if (row["condition"] == STREAM) == of] for of in (False, True)
        )
        alone, layered, after, specialist = (
            _mean_ratio([row[key] for row in own])
            for key in ("ratio", "layered", "tuned", "specialist")
        )
        here, all_layered, in_stream, stream_layered = (
            _mean_ratio([row[key] for row in part])
            for part in (every, streams)
            for key in ("ratio", "layered")
        )
        assert here is not None
        assert all_layered is not None
        known = [row for row in own if row["search"] is not None]
        won, there = (
            1 - (_mean_ratio([row[key] for row in known]) or 1.0) for key in ("ratio", "search")
        )
        found.append(
            {
                "policy": name,
                "structure": structure,
                "ratio": here,
                "advantage": 1 - here,
                "layered_advantage": 1 - all_layered,
                "kept": _share(here, all_layered),
                "kept_alone": _share(alone, layered),
                "kept_stream": _share(in_stream, stream_layered),
                "captured": number(won / there) if there >= 0.01 else None,
                "specialist_advantage": None if specialist is None else 1 - specialist,
                "kept_of_specialist": _share(alone, specialist),
                "tuned_advantage": None if after is None else 1 - after,
                "tuned_kept": _share(after, layered),
                "tuned_from_layered": None
                if after is None or layered is None
                else after / layered - 1,
                "tuned_from_specialist": None
                if after is None or specialist is None
                else after / specialist - 1,
            }
        )
    return found


def _mean_ratio(ratios: Sequence[float | None]) -> float | None:
    known = [ratio for ratio in ratios if ratio is not None]
    return float(np.exp(np.mean(np.log(known)))) if known and len(known) == len(ratios) else None


def _share(ratio: float | None, reference: float | None) -> float | None:
    """Return the share of an advantage; None if the reference is below 1 %."""
    return (
        None
        if ratio is None or reference is None or 1 - reference < 0.01
        else number((1 - ratio) / (1 - reference))
    )


def _ratio(first: Sequence[float], second: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(np.asarray(first) / np.asarray(second)))))


# -- measured graphs -------------------------------------------------------------------


def _bound(workflow: Workflow, cluster: Cluster, ccr: float) -> Problem:
    fitted = fit_workflow(workflow, cluster)
    return Problem.bind(scale_ccr(fitted, ccr, cluster), cluster)


def _files(structure: str) -> tuple[Path, ...]:
    folder = data_folder(f"{structure}/dev")
    return () if folder is None else _scan(folder)


@cache
def _scan(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(folder.rglob("*.json.gz")))


def _measured(structure: str, seed: int) -> list[Workflow]:
    """Draw a measured graph of 20 to 400 tasks; for TPC-H, several queries."""
    files, rng = _files(structure), generator(seed, "transfer", structure)
    if structure == "tpch_spark":
        return [
            _query(files[int(rng.integers(len(files)))], int(rng.integers(100)))
            for _ in range(QUERIES)
        ]
    for k in rng.permutation(len(files)).tolist():
        workflow = load_workflow(files[k])
        if 20 <= workflow.n <= MOST_TASKS and workflow.m:
            return [replace(workflow, names=None)]
    raise FileNotFoundError(f"no graph of 20 to {MOST_TASKS} tasks in $WEFT_DATA/{structure}")


def _query(path: Path, draw: int) -> Workflow:
    """Return a TPC-H query; its tasks are stages, work is total task time."""
    jobs = json.loads(gzip.decompress(path.read_bytes()))["jobs"]
    job = jobs[draw % len(jobs)]
    work = np.array([stage["num_tasks"] * stage["mean_task_ms"] for stage in job["stages"]], float)
    src, dst = (np.array(job["edges"][end], np.int64) for end in ("src", "dst"))
    return Workflow(
        name=path.name.removesuffix(".json.gz"),
        work=work,
        src=src,
        dst=dst,
        data=np.zeros(len(src)),
    )
