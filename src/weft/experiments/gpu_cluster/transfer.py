"""Policies trained on layered graphs, tried on structures they never saw; before and after fine-tuning on a few samples.

What can be won over HEFT differs from structure to structure, so there are two measures of what a policy keeps: its advantage at home, and
the advantage of a *native*: the same policy fitted to the structure with many samples and more time.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments.gpu_cluster.contenders import FAIR, LEARNED, contender, policy
from weft.experiments.gpu_cluster.evaluator import Evaluator
from weft.experiments.gpu_cluster.runs import FIRST_SEED, ExperimentPlan
from weft.experiments.gpu_cluster.statistics import number
from weft.experiments.harness import Progress, in_processes
from weft.formats.loading import load_workflow
from weft.generators import (
    Instance,
    draw_instance,
    fit_workflow,
    heterogeneous_gpus,
    instance_of,
    scale_ccr,
)
from weft.model import Cluster, Problem, Workflow
from weft.policies.replanning.policy import ReplanningPolicy
from weft.report.statistics import geometric_mean_ratio
from weft.rng import generator
from weft.sim.view import Policy

HOME = "layered"
"""The structure of the training."""
FOLDERS = ("wfinstances", "tpch_spark", "ml_dags")
ALONE, STREAM = ("static", "changing"), "stream"
"""Conditions: one job, judged by its makespan against HEFT planned anew; jobs that arrive, by their mean completion time."""
BASELINES = {**dict.fromkeys(ALONE, FAIR[0]), STREAM: "heft-arrival"}
TRANSFER_CCRS = (1.0, 5.0)
LOAD, STREAM_JOBS = 0.9, 12
SEARCH = "anytime"
"""Says, with exact costs, what there is to gain on a structure."""
TUNABLE = "replan-switch"
"""Who is fine-tuned."""
TUNER = "weft.learn.workflow.fine_tuning"
"""Where `fine_tune(policy_name, cases, seconds, seed)` lives, once it does."""
FEW, MANY = 4, 20
"""Draws of each condition and CCR a policy is fine-tuned on, and a native is fitted to."""
TUNING_SEED = FIRST_SEED - 10_000
APART = 100_000
"""Between seeds of the graphs of one stream."""
MOST_TASKS = 400
QUERIES = 8
"""Queries of TPC-H for each job elsewhere, in streams too: one alone is smaller than any job here."""


@dataclass(frozen=True)
class TransferTrial:
    """One draw of one structure in one condition."""

    structure: str
    condition: str
    ccr: float
    seed: int
    names: tuple[str, ...]


def data_folder() -> Path:
    """The folder of downloaded data: $WEFT_DATA, or `shared/data` beside the working folder."""
    return Path(os.environ.get("WEFT_DATA") or Path.cwd().parent / "shared" / "data")


def available(structures: Sequence[str]) -> tuple[list[str], list[str]]:
    """Structures that can be drawn here, and those whose data is absent."""
    absent = [
        name for name in structures if name in FOLDERS and not _files(data_folder() / name / "dev")
    ]
    return [name for name in structures if name not in absent], absent


def draw_structure(structure: str, condition: str, *, seed: int, ccr: float) -> Instance:
    """Draw a case of a structure: a generator's, or a measured graph scaled to this CCR, on a cluster drawn as everywhere."""
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
    graphs = [w for k in range(jobs) for w in _measured(structure, seed + k * APART)]
    return instance_of([_bound(w, cluster, ccr) for w in graphs], condition, seed=seed, load=LOAD)


def play_trial(trial: TransferTrial) -> dict[str, float]:
    """Makespan of everybody on one draw; in a stream the mean completion time."""
    case = draw_structure(trial.structure, trial.condition, seed=trial.seed, ccr=trial.ccr)
    arena = Evaluator(case.workload, stream=trial.condition == STREAM)
    figure = "jct" if arena.stream else "makespan"
    found = {name: arena.play_policy(policy(name), case.scenario)[figure] for name in trial.names}
    search = arena.play(contender(SEARCH), case.scenario) if trial.condition == "static" else None
    return found if search is None else {**found, SEARCH: search["makespan"]}


def transfer(plan: ExperimentPlan, names: Sequence[str], *, progress: Progress = iter) -> dict[str, Any]:
    """Advantage over re-planned HEFT on every structure, as a share of that on layered graphs; in streams over that in arrival order."""
    learned = [name for name in LEARNED if name in names]
    present, absent = available(plan.structures)
    if not learned or not set(BASELINES.values()) <= set(names):
        return {
            "rows": [],
            "overall": [],
            "absent": absent,
            "tuner": False,
            "note": "no learned policy, or no rival of it, takes part",
        }
    trials = [
        TransferTrial(
            structure, condition, ccr, FIRST_SEED + seed, (BASELINES[condition], *learned)
        )
        for seed in range(plan.transfer_seeds)
        for structure in (HOME, *present)
        for condition in BASELINES
        for ccr in TRANSFER_CCRS
    ]
    played = in_processes(play_trial, trials, processes=plan.processes)
    spans: dict[tuple[str, str, float], list[dict[str, float]]] = {}
    for trial in progress(trials):
        spans.setdefault((trial.structure, trial.condition, trial.ccr), []).append(next(played))
    tuned = _tune(plan, present) if fine_tuner() is not None and TUNABLE in learned else {}
    rows = [_row(name, key, spans, tuned) for name in learned for key in spans]
    return {
        "rows": rows,
        "overall": overall(rows),
        "absent": absent,
        "tuner": bool(tuned),
        "seeds": plan.transfer_seeds,
        "note": "",
    }


def fine_tuner() -> Any | None:
    """The function that fine-tunes a policy, where there is one."""
    return (
        getattr(import_module(TUNER), "fine_tune", None) if find_spec(TUNER) is not None else None
    )


@dataclass(frozen=True)
class Fitting:
    """A policy to be fitted to a structure, and then tried on it."""

    structure: str
    draws: int
    seconds: float
    seeds: int


Fitted = dict[tuple[str, float], list[float]]
"""(condition, ccr) -> makespans."""


def fit_and_try(fitting: Fitting) -> Fitted:
    """Fine-tune on draws of a structure, then play others of it."""
    tuner = fine_tuner()
    assert tuner is not None
    worlds = [(condition, ccr) for condition in ALONE for ccr in TRANSFER_CCRS]

    def case(condition: str, ccr: float, seed: int) -> Instance:
        return draw_structure(fitting.structure, condition, seed=seed, ccr=ccr)

    samples = [case(*world, TUNING_SEED + k) for k in range(fitting.draws) for world in worlds]
    better = tuner(_aimed(TUNABLE), samples, fitting.seconds, 0)
    cases = {
        world: [case(*world, FIRST_SEED + seed) for seed in range(fitting.seeds)]
        for world in worlds
    }
    return {
        world: [Evaluator(c.workload).play_policy(better, c.scenario)["makespan"] for c in found]
        for world, found in cases.items()
    }


def _tune(plan: ExperimentPlan, present: Sequence[str]) -> dict[str, tuple[Fitted, Fitted]]:
    """Structure -> what comes of fine-tuning on a few samples, and of a native."""
    structures = [s for s in plan.tuned if s in present]
    amounts = ((FEW, plan.tuning_seconds), (MANY, plan.native_seconds))
    fittings = [
        Fitting(structure, *amount, plan.transfer_seeds)
        for structure in structures
        for amount in amounts
    ]
    played = in_processes(fit_and_try, fittings, processes=plan.processes)
    return {structure: (next(played), next(played)) for structure in structures}


def _aimed(name: str) -> Policy:
    """The policy of a name, told that the makespan counts where it can be."""
    given = policy(name)
    return given.aimed_at("makespan") if isinstance(given, ReplanningPolicy) else given


def _row(
    name: str,
    key: tuple[str, str, float],
    spans: Mapping[tuple[str, str, float], list[dict[str, float]]],
    tuned: Mapping[str, tuple[Fitted, Fitted]],
) -> dict[str, Any]:
    structure, condition, ccr = key
    rival, at_home = BASELINES[condition], spans[HOME, condition, ccr]
    home = _ratio([s[name] for s in at_home], [s[rival] for s in at_home])
    base = [s[rival] for s in spans[key]]
    ratio = geometric_mean_ratio([s[name] for s in spans[key]], base)
    fitted = tuned.get(structure) if name == TUNABLE and condition in ALONE else None
    after, native = (
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
        "home": home,
        "tuned": after,
        "native": native,
        "search": _ratio([s[SEARCH] for s in spans[key]], base)
        if all(SEARCH in s for s in spans[key])
        else None,
    }


def overall(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each policy on each structure, over conditions and CCRs: its advantage, and the share kept of the one at home.

    The share means something only where there is an advantage at home; below 1 % it is left out, and so is that of a native's. How much
    can be won over the baseline differs from structure to structure, so `captured` says, for exact costs, which share of what a search
    wins the policy does. Streams count beside single jobs (`kept_alone`, `kept_stream`); policies are fitted to single jobs only.

    Examples
    --------
    >>> row = {"policy": "replan-switch", "condition": "static", "ccr": 1.0, "home": 0.9, "tuned": None, "native": None, "search": 0.84}
    >>> found = overall([{**row, "structure": "layered", "ratio": 0.9}, {**row, "structure": "lu", "ratio": 0.92}])
    >>> [(r["structure"], round(r["advantage"], 3), round(r["kept"], 3), round(r["captured"], 3)) for r in found]
    [('layered', 0.1, 1.0, 0.625), ('lu', 0.08, 0.8, 0.5)]
    """
    found = []
    for name, structure in dict.fromkeys((row["policy"], row["structure"]) for row in rows):
        every = [row for row in rows if row["policy"] == name and row["structure"] == structure]
        own, streams = (
            [row for row in every if (row["condition"] == STREAM) == of] for of in (False, True)
        )
        alone, home, after, native = (
            _mean_ratio([row[key] for row in own]) for key in ("ratio", "home", "tuned", "native")
        )
        here, all_home, in_stream, stream_home = (
            _mean_ratio([row[key] for row in part])
            for part in (every, streams)
            for key in ("ratio", "home")
        )
        assert here is not None
        assert all_home is not None
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
                "home_advantage": 1 - all_home,
                "kept": _share(here, all_home),
                "kept_alone": _share(alone, home),
                "kept_stream": _share(in_stream, stream_home),
                "captured": number(won / there) if there >= 0.01 else None,
                "native_advantage": None if native is None else 1 - native,
                "kept_of_native": _share(alone, native),
                "tuned_advantage": None if after is None else 1 - after,
                "tuned_kept": _share(after, home),
                "tuned_from_home": None if after is None or home is None else after / home - 1,
                "tuned_from_native": None
                if after is None or native is None
                else after / native - 1,
            }
        )
    return found


def _mean_ratio(ratios: Sequence[float | None]) -> float | None:
    known = [ratio for ratio in ratios if ratio is not None]
    return float(np.exp(np.mean(np.log(known)))) if known and len(known) == len(ratios) else None


def _share(ratio: float | None, reference: float | None) -> float | None:
    """The share of an advantage; None where there is next to none."""
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


@cache
def _files(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(p for p in folder.rglob("*.json.gz"))) if folder.is_dir() else ()


def _measured(structure: str, seed: int) -> list[Workflow]:
    """A graph of a folder, drawn by the seed among those that are neither tiny nor huge; of TPC-H several queries."""
    files, rng = _files(data_folder() / structure / "dev"), generator(seed, "transfer", structure)
    if structure == "tpch_spark":
        return [
            _query(files[int(rng.integers(len(files)))], int(rng.integers(100)))
            for _ in range(QUERIES)
        ]
    for k in rng.permutation(len(files)).tolist():
        workflow = load_workflow(files[k])
        if 20 <= workflow.n <= MOST_TASKS and workflow.m:
            return [replace(workflow, names=None)]
    raise FileNotFoundError(f"no graph of 20 to {MOST_TASKS} tasks in {data_folder() / structure}")


def _query(path: Path, draw: int) -> Workflow:
    """A query of TPC-H at one of its input sizes: a task is a stage, its work the time of all its tasks."""
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
