"""A small sound file for each reader."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import numpy as np

from tests.fuzz.seed import Seed
from tests.fuzz.state import service_seeds, state_seeds
from weft import formats
from weft.cli.main import main
from weft.errors import InvalidInput
from weft.formats.graphs.callgraph import load_callgraph
from weft.formats.model_file import Model, read_model, save_model
from weft.formats.native.stream_toml import load_stream
from weft.learn.durations.forest import LEAF, NODE, Forest
from weft.learn.durations.model import DurationModel
from weft.model import (
    Cluster,
    Problem,
    Scenario,
    Schedule,
    Trace,
    Workflow,
    WorkflowBuilder,
    Workload,
)
from weft.runtime.costs.history_files import measurements

FILES = Path(__file__).parents[1] / "formats" / "samples"


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


def problem() -> Problem:
    """A problem with a choice, durations, kinds and memory."""
    b = WorkflowBuilder("cascade")
    b.task("small", work=1.0, memory=2.0)
    b.task("large", work=10.0, kind="net", durations={"A100": 0.5, "cpu": 9.0})
    b.choice("small", {"unsure": 0.25, "sure": 0.75})
    b.edge("small", "large", data=1e6, when="unsure")
    cluster = Cluster(
        speed=[1.0, 2.0],
        kinds=("cpu", "A100"),
        bandwidth=1e9,
        throughput={"net": [np.nan, 4.0]},
        memory=[4.0, np.inf],
    )
    return Problem.bind(b.build(), cluster)


def trace() -> Trace:
    """A trace of two jobs, one of which was cut short."""
    workload = Workload.of(problem(), arrival=[0.0, 1.0])
    ints = {key: np.array([0, 1], np.int64) for key in ("job", "device", "batch")}
    zeros = {key: np.zeros(2, np.int64) for key in ("task", "status")}
    clock = {key: np.array([0.0, 1.5]) for key in ("decided", "start", "finish")}
    return Trace(
        workload=workload,
        scenario=Scenario.of(workload, outcome=[0, 1], changes=[(1.0, 0, 2.0)]),
        copy=np.zeros(2, bool),
        job_finish=np.array([1.0, np.nan]),
        eager=True,
        policy="fifo",
        **ints,
        **zeros,
        **clock,
    )


CLUSTER_TOML = """name = "two nodes"
[links]
bandwidth = "100 Gbit/s"
latency = "5 us"
node_bandwidth = "300 GB/s"
[[devices]]
name = "a100"
count = 2
kind = "A100"
node = "n0"
speed = 9.7
throughput = {conv = 20.0}
memory = "40 GB"
cores = 1
batch = 8
power = "400 W"
idle_power = 50
price = "3.5 /h"
[nodes.n0]
price = 2
"""
NETWORK_TOML = """[links]
node_bandwidth = "300 GB/s"
[[devices]]
node = "n0"
[[devices]]
node = "n1"
[network]
sharing = "one-port"
[[network.ports]]
nodes = ["n0"]
up = "10 Gbit/s"
down = "5 Gbit/s"
latency = "5 us"
switch = "left"
[[network.ports]]
nodes = ["n1"]
up = "10 Gbit/s"
switch = "right"
[[network.trunks]]
between = ["left", "right"]
oversubscription = 4
latency = "1 us"
"""
STREAM_TOML = """name = "inspection"
jobs = 50
tick = "1 ms"
start = "detect"
[arrivals]
process = "normal"
gap = "80 ms"
deviation = "4 ms"
[[tasks]]
name = "detect"
time = "10 ms"
then = "classify"
kind = "vision"
memory = "2 GB"
[[tasks]]
name = "classify"
time = "5 ms"
[[tasks]]
name = "explain"
time = "5 ms"
[[choices]]
task = "classify"
branches = {defect = 0.1, good = 0.9}
leads_to = {defect = ["explain"], good = []}
estimate = true
change = "steps"
at = [{time = "60 s", branches = {defect = 0.3, good = 0.7}}]
[[units]]
name = "GPU"
count = 2
coefficient = 1.0
batch = 8
memory = "16 GB"
"""
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
        "problem": (problem(), formats.load),
        "workflow": (problem().workflow, formats.load_workflow),
        "cluster": (problem().cluster, formats.load_cluster),
        "workload": (Workload.of(problem(), arrival=[0.0, 1.0]), formats.load_workload),
        "schedule": (
            Schedule.of(task=[0, 1], device=[0, 1], start=[0.0, 1.0], finish=[1.0, 2.0]),
            formats.load_schedule,
        ),
        "trace": (trace(), formats.load_trace),
    }
    made = {}
    for name, (thing, read) in things.items():
        for suffix in (".json", ".npz"):
            path = folder / f"seed{suffix}"
            formats.save(thing, path)
            made[f"weft{suffix.replace('.', '-')} {name}"] = Seed(suffix, path.read_bytes(), read)
    made["weft-json gz"] = _gzipped(folder)
    made["cluster-toml"] = Seed(".toml", CLUSTER_TOML.encode(), formats.load_cluster)
    made["network-toml"] = Seed(".toml", NETWORK_TOML.encode(), formats.load_cluster)
    made["stream-toml"] = Seed(".toml", STREAM_TOML.encode(), load_stream)
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
        | _model_seeds(folder)
        | _learned_seeds(folder)
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


def _learned_seeds(folder: Path) -> dict[str, Seed]:
    """Return the seeds of predictors of durations."""
    rng = np.random.default_rng(1)
    model = DurationModel(("size", "width"), logs=("size",))
    for features in rng.uniform(1.0, 9.0, (20, 2)):
        model.observe(features, float(features.sum()))
    nodes = np.array([(0.5, 2, 0), (10.0, 0, LEAF), (20.0, 0, LEAF)], NODE)
    forest = Forest(("x",), nodes, np.array([0]), centre=np.zeros(1), spread=np.ones(1))
    made = {}
    for name, thing, suffix in (
        ("duration model", model, ".json"),
        ("duration arrays", model, ".npz"),
        ("forest", forest, ".npz"),
    ):
        path = folder / f"learned{suffix}"
        thing.save(path)
        made[name] = Seed(suffix, path.read_bytes(), type(thing).load)
    return made


def _model_seeds(folder: Path) -> dict[str, Seed]:
    arrays = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([0.1, 1e-300])}
    settings = {"features": ["a", "b"]}
    model = Model(name="mine", kind="test", about="", settings=settings, arrays=arrays)
    card = save_model(model, folder / "seed")
    text, numbers = card.read_bytes(), card.with_suffix(".safetensors").read_bytes()
    return {
        "model card": Seed(".json", text, read_model, ((".safetensors", numbers),)),
        "model numbers": Seed(".safetensors", numbers, read_model, ((".json", text),)),
    }
