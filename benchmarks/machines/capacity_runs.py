"""Predicted and measured makespans of real runs on a machine whose tasks share cores and memory.

Two workflows: one of WfCommons, whose tasks sleep for a share of their recorded seconds, run by
weft; and a Snakefile with threads and resources, run by Snakemake with weft's scheduler. Each runs
once to fill the history, and then again with the plan made from that history.

    python benchmarks/machines/capacity_runs.py FILE.json.gz [--seconds 20] [--out table.json]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

import weft
from weft import formats
from weft.runtime.inputs.functions import from_functions

HOST = {"cores": 4, "memory": 8e9}

SNAKEFILE = """
rule all:
    input: "report.txt"
rule fetch:
    output: "raw{i}.txt"
    resources: mem_mb=200
    shell: "sleep 0.8; echo {wildcards.i} > {output}"
rule index:
    output: "index.txt"
    threads: 3
    resources: mem_mb=800
    shell: "sleep 2.5; echo index > {output}"
rule align:
    input: "raw{i}.txt"
    output: "aligned{i}.txt"
    threads: 2
    resources: mem_mb=3500
    shell: "sleep 2.0; cat {input} > {output}"
rule call:
    input: "aligned{i}.txt", "index.txt"
    output: "called{i}.txt"
    resources: mem_mb=1200, licence=1
    shell: "sleep 1.2; cat {input} > {output}"
rule join:
    input: expand("called{i}.txt", i=range(6))
    output: "report.txt"
    threads: 4
    resources: mem_mb=2000
    shell: "sleep 1; cat {input} > {output}"
"""


def nap(*_: object, seconds: float) -> None:
    """Take some time."""
    time.sleep(seconds)


def wfcommons(path: Path, total: float, folder: Path) -> dict[str, float]:
    """Run a workflow whose tasks sleep, with its recorded cores and memory."""
    recorded = formats.load_workflow(path)
    cores = np.minimum(np.maximum(recorded.cores, busy_cores(path)), HOST["cores"])
    machine = weft.Cluster.host(**HOST)
    whole = weft.plan(weft.Problem.bind(replace(recorded, cores=cores), machine), "heft").makespan
    workflow = replace(
        recorded,
        work=np.round(recorded.work * total / whole, 3),
        cores=cores,
        data=np.zeros(recorded.m),
    )
    naps = {
        name: partial(nap, seconds=float(work))
        for name, work in zip(workflow.task_names, workflow.work, strict=True)
    }
    application = from_functions(workflow, naps)
    options = {"devices": machine, "history": folder / "history.sqlite", "policy": "heft"}
    weft.run(application, **options)
    trace = weft.run(application, **options)
    assert weft.check(trace.workload, trace) == []
    predicted = weft.plan(trace.workload.problems[0], "heft").makespan
    return {"tasks": workflow.n, "predicted": predicted, "measured": trace.makespan}


def busy_cores(path: Path) -> np.ndarray:
    """Return the cores that a task kept busy on average, from the records of WfCommons."""
    import gzip

    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        document = json.load(file)["workflow"]
    used = {row["id"]: row.get("avgCPU", 100.0) for row in document["execution"]["tasks"]}
    names = [row["id"] for row in document["specification"]["tasks"]]
    return np.array([max(1, math.ceil(used.get(name, 100.0) / 100.0 - 0.2)) for name in names])


def snakemake(folder: Path) -> dict[str, float]:
    """Run a Snakefile twice; the second time its graph is planned with what the first learned."""
    (folder / "Snakefile").write_text(SNAKEFILE)
    command = [sys.executable, "-m", "snakemake", "--scheduler", "weft", "--cores", HOST["cores"]]
    command += ["--resources", f"mem_mb={HOST['memory'] / 1e6:g}", "licence=2"]
    command += ["--scheduler-weft-write", "graph.json"]
    env = {**os.environ, "WEFT_HISTORY": str(folder / "history.sqlite")}
    for _ in range(2):
        shutil.rmtree(folder / ".snakemake", ignore_errors=True)
        for file in folder.glob("*.txt"):
            file.unlink()
        subprocess.run(
            [str(word) for word in command], cwd=folder, env=env, check=True, capture_output=True
        )
    problem = formats.load(folder / "graph.json")
    ran = formats.load_recording(folder / ".snakemake").executions
    measured = max(e.start + e.seconds for e in ran) - min(e.start for e in ran)
    predicted = weft.plan(problem, "heft").makespan
    return {"tasks": problem.n, "predicted": predicted, "measured": measured}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("file", type=Path, help="a WfFormat file")
    parser.add_argument("--seconds", type=float, default=20.0, help="makespan to scale it to")
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    args = parser.parse_args()
    rows = {}
    for name, case in (
        (args.file.name.partition(".")[0], partial(wfcommons, args.file, args.seconds)),
        ("Snakefile", snakemake),
    ):
        with tempfile.TemporaryDirectory() as scratch:
            row = rows[name] = case(folder=Path(scratch))
        off = row["measured"] / row["predicted"] - 1.0
        print(
            f"{name}: {row['tasks']} tasks, predicted {row['predicted']:.2f} s, measured "
            f"{row['measured']:.2f} s ({off:+.1%})"
        )
    if args.out is not None:
        args.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
