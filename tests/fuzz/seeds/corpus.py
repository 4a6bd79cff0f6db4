"""A small sound file for each reader."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

from tests.fuzz.seeds.models import model_seeds, policy_seeds
from tests.fuzz.seeds.seed import Seed
from tests.fuzz.seeds.state import service_seeds, state_seeds
from tests.fuzz.seeds.toml_files import FILES, MACHINES_TOML, toml_seeds
from tests.support.instances import conditional_problem, cut_trace
from weft import formats
from weft.cli.main import main
from weft.errors import InvalidInput
from weft.formats.graphs.callgraph import load_callgraph
from weft.formats.native.cluster_toml import read_cluster_toml
from weft.model import Problem, Schedule, Variant, Workflow, WorkflowBuilder, Workload
from weft.runtime.costs.history_files import measurements


def _recorded(path: Path) -> object:
    recording = formats.load_recording(path)
    return recording.problem(), measurements(recording)


def _in_metadata(path: Path) -> object:
    """Read a record beside those of the sample."""
    folder = path.parent / "records" / "metadata"
    if not folder.exists():
        shutil.copytree(FILES / "snakemake" / "metadata", folder)
    (folder / "YS5jb3VudA==").write_bytes(path.read_bytes())
    return _recorded(folder)


def machines_problem() -> Problem:
    """A problem with needs, capacities, set-ups, a network and variants."""
    b = WorkflowBuilder("machines")
    b.task("a", work=4.0, kind="conv", cores=2, needs={"licence": 1.0}, memory=1e9)
    b.task("b", work=2.0, kind="net", variants=VARIANTS)
    b.edge("a", "b", data=1e9)
    machines = MACHINES_TOML.replace('bandwidth = "10 GB/s"', "") + PORTS
    return Problem.bind(b.build(), read_cluster_toml(machines, name="machines"))


PORTS = """[network]
[[network.ports]]
nodes = ["n0", "n1"]
up = "1 GB/s"
"""
VARIANTS = (
    Variant("one", seconds=3.0, accuracy=0.9),
    Variant("two", seconds={"A100": 1.0, "cpu": 4.0}, cores=2, needs={"licence": 1.0}, cost=0.5),
    Variant("three", factor=0.5, accuracy=0.7, memory=2e9, devices=("cpu",)),
)


DOT = """strict digraph g { // a comment
  node [kind="conv", color=red]; edge [label="1 kB"]
  subgraph cluster_0 { a [work=2, memory="1 GB", cores=2]; b [work=3.5] }
  a -> b -> "c d" [data="1 kB"]; "c d" [work=1, durations="{\\"cpu\\": 1}"]
}
"""
TASK_TABLE = "task,after,seconds:cpu,seconds:gpu,bytes\na,,2,1,2 kB\nb,a,3,4,10\nc,a;b,1,1,0\n"
STG = "2\n0 0 0\n1 5 1 0\n2 3 2 0 4 1 2.5\n3 0 1 2 # exit\n"
TASKGRAPH = {
    "format": "taskgraph-v1",
    "id": "g",
    "tasks": {
        "id": ["a", "b"],
        "type": ["x", "y"],
        "runtime_s": [1.0, 2.0],
        "runtime_by_device": {"cpu": [1.0, 2.0], "gpu": [None, 0.5]},
        "memory_bytes": [1, None],
        "cores": [1, 2],
    },
    "edges": {"src": [0], "dst": [1], "bytes": [8.0]},
}
WFFORMAT = {
    "schemaVersion": "1.5",
    "workflow": {
        "specification": {
            "tasks": [
                {"id": "a_ID1", "name": "a_ID1", "children": ["b"], "outputFiles": ["f"]},
                {"id": "b", "parents": ["a_ID1"], "inputFiles": ["f"]},
            ],
            "files": [{"id": "f", "sizeInBytes": 100}],
        },
        "execution": {
            "tasks": [{"id": "a_ID1", "runtimeInSeconds": 1.5, "coreCount": 2, "memoryInBytes": 8}]
        },
    },
}
STATIC = {
    "cost": [[1, 2], [3, None]],
    "edges": [[0, 1]],
    "data": [5],
    "bandwidth": [[None, 1], [2, None]],
    "name": "s",
}
CALLS = {
    "format": "conditional-graph-v1",
    "id": "g",
    "nodes": {"name": ["a", "b", "c"]},
    "edges": {"src": [0, 0], "dst": [1, 2], "prob_given_src": [0.5, 1.0]},
    "variants": [{"edges": [0], "count": 3}, {"edges": [], "count": 1.5}],
}


def seeds(folder: Path) -> dict[str, Seed]:
    """Return name -> seed, for all formats that are read; `folder` is for files in the making."""
    things = {
        "problem": (conditional_problem(), formats.load),
        "machines": (machines_problem(), formats.load),
        "workflow": (conditional_problem().workflow, formats.load_workflow),
        "cluster": (conditional_problem().cluster, formats.load_cluster),
        "workload": (Workload.of(conditional_problem(), arrival=[0.0, 1.0]), formats.load_workload),
        "schedule": (
            Schedule.of(task=[0, 1], device=[0, 1], start=[0.0, 1.0], finish=[1.0, 2.0]),
            formats.load_schedule,
        ),
        "trace": (cut_trace(), formats.load_trace),
    }
    made = {}
    for name, (thing, read) in things.items():
        for suffix in (".json", ".npz"):
            path = folder / f"seed{suffix}"
            formats.save(thing, path)
            made[f"weft{suffix.replace('.', '-')} {name}"] = Seed(suffix, path.read_bytes(), read)
    made["weft-json gz"] = _gzipped(folder)
    made["dot"] = Seed(".dot", DOT.encode(), formats.load_workflow)
    made["task-table"] = Seed(".csv", TASK_TABLE.encode(), formats.load_workflow)
    made["stg"] = Seed(".stg", STG.encode(), formats.load_workflow)
    for name, document, read in (
        ("taskgraph-v1", TASKGRAPH, formats.load),
        ("wfformat", WFFORMAT, formats.load_workflow),
        ("static-graph", STATIC, formats.load),
        ("callgraph", CALLS, load_callgraph),
    ):
        made[name] = Seed(".json", json.dumps(document).encode(), read)
    made |= {name: _sample(file, read) for name, (file, read) in SAMPLES.items()}
    return (
        made
        | toml_seeds()
        | model_seeds(folder)
        | policy_seeds()
        | _command_seeds()
        | state_seeds(folder)
        | service_seeds(folder)
    )


SAMPLES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "wfformat 1.6": ("wfformat-1.6.json", formats.load),
    "dax": ("diamond.dax", formats.load_workflow),
    "nextflow-trace": ("nextflow.txt", _recorded),
    "slurm-sacct": ("sacct.txt", _recorded),
    "slurm-sacct json": ("sacct.json", _recorded),
    "snakemake": ("benchmark.tsv", _recorded),
    "snakemake jsonl": ("benchmark.jsonl", _recorded),
    "snakemake records": ("snakemake/metadata/YS5jb3VudA==", _in_metadata),
    "dask-stream": ("dask_stream.json", _recorded),
    "dask-stream report": ("dask_report.html", _recorded),
    "otlp": ("spans.json", _recorded),
    "chrome-trace": ("chrome.json", _recorded),
}
"""Files of other engines, and how they are read."""


def _sample(file: str, read: Callable[[Path], object]) -> Seed:
    path = FILES / file
    suffix = path.suffix if path.suffix.isascii() and "=" not in path.suffix else ".json"
    return Seed(suffix or ".json", path.read_bytes(), read)


def _diamond() -> Problem:
    return Problem.from_arrays(
        [[2.0, 1.0], [3.0, 4.0], [1.0, 1.0], [2.0, 2.0]],
        [[0, 1], [0, 2], [1, 3], [2, 3]],
        [10.0, 20.0, 5.0, 0.0],
        bandwidth=5.0,
        names=["small", "b", "c", "d"],
    )


def _command_seeds() -> dict[str, Seed]:
    problem_text = formats.to_text(_diamond()).encode()
    comparison = json.dumps(COMPARISON).encode()
    return {
        "cli view": Seed(".json", comparison, _view, share=0.2),
        "cli plan": Seed(
            ".json", problem_text, lambda path: run_verb("plan", str(path)), share=0.1
        ),
        "cli arguments": Seed(".words", ARGUMENTS.encode(), _run_words, share=0.02),
    }


def _view(path: Path) -> None:
    run_verb("view", str(path), "--out", str(path.with_suffix(".html")))


PARTS = ("computing", "moving data", "lost work", "waiting for a device")
BAR = {"name": "heft", "seconds": 5.0, "low": 4.5, "high": 5.5, "wins": 2, "best": False}
ROW = {"problem": "g", "contender": "heft", "kind": "planner", "makespan": 5.0, "jct": 5.0}
NUMBERS = dict.fromkeys(
    ("planned", "slr", "speedup", "gap", "seconds", "utilisation", "energy", "cost"), 1.25
)
COMPARISON = {
    "scenarios": 2,
    "seed": 0,
    "bounds": {"g": 1.0},
    "answers": {
        "g": {
            "jobs": 1,
            "sentences": ["heft, 5 s"],
            "bars": [{**BAR, "parts": dict.fromkeys(PARTS, 1.25), "about": "heft takes 5 s"}],
        }
    },
    "rows": [{**ROW, **NUMBERS, "low": 4.5, "high": 5.5, "wins": 2, "refusal": ""}],
}

ARGUMENTS = """list formats --json
plan FILE --planner heft --seconds 1 --seed 3
plan FILE --planner cpop --json --all
plan FILE --gpus 2xV100+1xT4
explain FILE --task small
generate gauss --size 4 --seed 2
simulate FILE --policy eft --noise 0.3 --failures 0.1 --seed 1
history --file FILE
compare FILE --planners heft,cpop --scenarios 2
"""


def _run_words(path: Path) -> None:
    """Run the command lines of a file; FILE stands for a sound problem."""
    sound = path.with_name("sound.json")
    if not sound.exists():
        formats.save(_diamond(), sound)
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines()[:12]:
        words = [str(sound) if word == "FILE" else word for word in line.split(" ") if word]
        if words and not {"--out", "--gantt", "--report", "--chrome"} & set(words):
            with suppress(InvalidInput):
                run_verb(*words)


def run_verb(*words: str) -> None:
    """Run a verb; raise its one line if it refuses, and an AssertionError for any other ending."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(list(words))
        except SystemExit as leaving:  # --help and --version
            code = int(leaving.code or 0)
    unseen = [x for x in (out.getvalue() + err.getvalue()).split("\n") if not x.isprintable()]
    assert not unseen, f"prints {unseen[0]!r}"
    assert code in (0, 2), f"ends with {code}"
    if code:
        raise InvalidInput(err.getvalue().strip().rpartition("\n")[2])


def _gzipped(folder: Path) -> Seed:
    path = folder / "seed.json.gz"
    formats.save(Workflow(work=[1.0], src=[], dst=[], data=[]), path)
    return Seed(".json.gz", path.read_bytes(), formats.load_workflow)
