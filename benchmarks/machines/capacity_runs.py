"""Predicted and measured makespans of real runs on a machine whose tasks share cores and memory.

Two workflows: one of WfCommons, whose tasks sleep for a share of their recorded seconds, run by
weft; and a Snakefile with threads and resources, run by Snakemake with weft's scheduler. Each runs
once to fill the history, and then again with the plan made from that history. With --compute, tasks
compute on as many threads as they need cores, instead of sleeping, and the machine has the cores
that it has; the machine must have nothing else to do.

    python benchmarks/machines/capacity_runs.py FILE.json.gz [--compute] [--write table.json]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from spin import spin

import weft
from weft import formats
from weft.runtime.inputs.functions import from_functions

HOST = {"cores": 4, "memory": 8e9}
SPIN = Path(__file__).with_name("spin.py")

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


def compute(*_: object, seconds: float, cores: int, memory: float) -> None:
    """Keep some cores and some memory busy."""
    held = bytearray(int(memory))
    spin(seconds, cores)
    del held


def wfcommons(path: Path, total: float, folder: Path, *, computes: bool) -> dict[str, float]:
    """Run a workflow whose tasks sleep or compute, with its recorded cores and memory."""
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
    columns = zip(workflow.task_names, workflow.work, cores, workflow.memory, strict=True)
    functions = {
        name: partial(compute, seconds=float(work), cores=int(count), memory=float(held))
        if computes
        else partial(nap, seconds=float(work))
        for name, work, count, held in columns
    }
    application = from_functions(workflow, functions)
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


def snakemake(folder: Path, *, computes: bool) -> dict[str, float]:
    """Run a Snakefile twice; the second time its graph is planned with what the first learned."""
    spins = rf"{sys.executable} {SPIN} \1 {{threads}};"
    rules = re.sub(r"sleep ([\d.]+);", spins, SNAKEFILE) if computes else SNAKEFILE
    (folder / "Snakefile").write_text(rules)
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
    parser.add_argument("--compute", action="store_true", help="tasks compute instead of sleeping")
    parser.add_argument("--write", type=Path, help="a JSON file to add the rows to")
    args = parser.parse_args()
    if args.compute:
        HOST["cores"] = len(os.sched_getaffinity(0))
    rows = []
    for name, case in (
        (args.file.name.partition(".")[0], partial(wfcommons, args.file, args.seconds)),
        ("Snakefile", snakemake),
    ):
        with tempfile.TemporaryDirectory() as scratch:
            row = case(folder=Path(scratch), computes=args.compute)
        off = 100.0 * (row["measured"] / row["predicted"] - 1.0)
        print(
            f"{name}: {row['tasks']} tasks, predicted {row['predicted']:.2f} s, measured "
            f"{row['measured']:.2f} s ({off:+.1f} %)",
            flush=True,
        )
        does = "compute" if args.compute else "sleep"
        rows.append(
            [name, does, HOST["cores"], row["tasks"], row["predicted"], row["measured"], off]
        )
    if args.write is not None:
        write(args.write, rows)


def write(path: Path, rows: list[list[Any]]) -> None:
    """Write the rows into the tables of the docs; rows of the same case are replaced."""
    known = json.loads(path.read_text())["tables"]["runs"]["rows"] if path.exists() else []
    new = {tuple(row[:2]) for row in rows}
    table = {
        "columns": ["workflow", "tasks", "cores", "number", "predicted", "measured", "difference"],
        "align": "llrrrrr",
        "decimals": [None, None, 0, 0, 2, 2, 1],
        "suffix": ["", "", "", "", " s", " s", " %"],
        "rows": [*(row for row in known if tuple(row[:2]) not in new), *rows],
    }
    document = {
        "measured_with": "python benchmarks/machines/capacity_runs.py FILE [--compute] --write "
        "docs/results/capacity_runs.json",
        "provenance": "written by the script; the second run, planned from the first",
        "tables": {"runs": table},
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
