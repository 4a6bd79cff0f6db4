"""Plans as jobs of Slurm and HyperQueue: with fake commands, and in a real Slurm if it runs."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest

import weft
from tests.support.waiting import WAIT_LIMIT
from weft.cli.main import main
from weft.formats import load_recording
from weft.formats.batch import batch_jobs, load_commands, write_hyperqueue, write_slurm
from weft.formats.batch.jobs import parents_first

SBATCH = """\
#!/bin/sh
# Numbers jobs, notes what was asked for and runs the script at once.
here=$(dirname "$0")
echo "$@" >> "$here/asked"
number=$(wc -l < "$here/asked")
for script; do :; done
bash "$script" > /dev/null || exit 1
name=$(sed -n 's/#SBATCH --job-name=//p' "$script")
node=$(sed -n 's/#SBATCH --nodelist=//p' "$script")
echo "$number|$name|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:02|2|$node|1||" >> "$here/log"
echo "$number;cluster"
"""
SACCT = """\
#!/bin/sh
for option; do case "$option" in --format=*) echo "${option#--format=}" | tr , '|';; esac; done
cat "$(dirname "$0")/log"
"""


def problem():
    """One task, then three on a fast and a slow node, then one; the GPU task fits one device."""
    b = weft.WorkflowBuilder("genome")
    kinds = {"prep": "prep", "a0": "align", "a1": "align", "a2": "align", "merge": "merge"}
    for name, kind in kinds.items():
        work = 3.0 if kind == "align" else 1.0
        b.task(name, work=work, kind=kind, memory=1.5 * 2**20, cores=2 if kind == "merge" else 1)
    for k in range(3):
        b.edge("prep", f"a{k}")
        b.edge(f"a{k}", "merge")
    devices = [
        weft.Device("x", speed=2.0, node="n0", cores=2),
        weft.Device("y", kind="gpu", speed=1.0, node="n1"),
    ]
    return weft.Problem.bind(b.build(), weft.Cluster.of(devices))


COMMANDS = {
    "prep": ["sh", "-c", "echo it\\'s > prep"],
    "align": ["sh", "-c", "cat prep > {task}"],
    "merge": ["sh", "-c", "cat a0 a1 a2 > merged"],
}


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("sbatch", SBATCH), ("sacct", SACCT)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def exported(tmp_path, engine, *more):
    weft.save(problem(), tmp_path / "p.json")
    (tmp_path / "commands.json").write_text(json.dumps(COMMANDS))
    out = tmp_path / "jobs"
    files = ["--commands", str(tmp_path / "commands.json"), "--out", str(out)]
    assert main(["export", engine, str(tmp_path / "p.json"), *files, *more]) == 0
    return out


def test_slurm_jobs_wait_for_their_parents_and_are_measured(tmp_path, slurm):
    out = exported(tmp_path, "slurm")
    subprocess.run([out / "submit.sh", "--partition=long"], check=True, capture_output=True)
    assert (out / "merged").read_text() == "it's\n" * 3
    asked = [line.split() for line in (slurm / "asked").read_text().splitlines()]
    # The fast device takes a task of three units in 1.5 s and two of them before the slow one
    # ends its first; the slow one begins with the fast one's first.
    assert [line[-1] for line in asked] == [f"jobs/{k}.sh" for k in range(5)]
    assert all("--partition=long" in line for line in asked)
    assert not any(word.startswith("--dependency") for word in asked[0])
    assert all("--dependency=afterok:1" in line for line in asked[1:4])
    ids = dict(line.split("\t") for line in (out / "job.ids").read_text().splitlines())
    wanted = f"--dependency=afterok:{ids['a0']}:{ids['a1']}:{ids['a2']}"
    assert wanted in asked[4]
    subprocess.run([out / "measure.sh"], check=True)
    measured = load_recording(out / "sacct.txt").executions
    found = sorted((e.kind, e.seconds, e.host) for e in measured)
    assert found == [
        ("align", 2.0, "n0"),
        ("align", 2.0, "n0"),
        ("align", 2.0, "n1"),
        ("merge", 2.0, "n0"),
        ("prep", 2.0, "n0"),
    ]


def test_options_come_from_plan_and_needs(tmp_path):
    found = problem()
    schedule = weft.plan(found, "heft").schedule
    jobs = batch_jobs(found, schedule, COMMANDS)
    assert [job.order for job in jobs] == list(range(5))
    assert jobs[0].name == "prep"
    assert jobs[-1].parents == (1, 2, 3)
    write_slurm(jobs, tmp_path / "out", nice_step=10, time_factor=100.0)
    gpu = next(job for job in jobs if job.node == "n1")
    text = (tmp_path / "out" / "jobs" / f"{gpu.order}.sh").read_text()
    assert (
        f"--nodelist=n1\n#SBATCH --gres=gpu:1\n#SBATCH --time=5\n#SBATCH --nice={gpu.order}0"
        in text
    )
    assert "--mem=2M" in text
    last = (tmp_path / "out" / "jobs" / "4.sh").read_text()
    assert "--cpus-per-task=2" in last
    assert "gres" not in last
    write_slurm(jobs, tmp_path / "any", nodes=False)
    assert "nodelist" not in (tmp_path / "any" / "jobs" / "0.sh").read_text()


def test_a_saved_plan_is_exported_as_it_is(tmp_path):
    found = problem()
    weft.save(found, tmp_path / "p.json")
    rows = {
        "device": [0] * 5,
        "start": [0.0, 4.0, 2.0, 0.5, 5.5],
        "finish": [0.5, 5.5, 3.5, 2.0, 6.0],
    }
    plan = weft.Schedule.of(**rows)
    assert weft.check(found, plan) == []
    weft.save(plan, tmp_path / "plan.json")
    (tmp_path / "c.json").write_text(json.dumps(COMMANDS))
    given = ["--problem", str(tmp_path / "p.json"), "--commands", str(tmp_path / "c.json")]
    line = ["export", "slurm", str(tmp_path / "plan.json"), *given, "--out", str(tmp_path / "out")]
    assert main(line) == 0
    names = [(tmp_path / "out" / "jobs" / f"{k}.sh").read_text().split()[3] for k in range(5)]
    assert names == ["prep", "a2", "a1", "a0", "merge"]


def test_a_workflow_without_commands_says_how_to_give_them(tmp_path):
    weft.save(weft.generate("cholesky", tiles=2), tmp_path / "w.json")
    with pytest.raises(weft.InvalidInput, match=r"tasks have no commands; give them with --comm"):
        load_commands(tmp_path / "w.json")


def test_jobs_that_take_no_time_come_after_those_they_need():
    b = weft.WorkflowBuilder("zero")
    for name in ("late", "early"):
        b.task(name, work=0.0)
    b.edge("early", "late")
    found = weft.Problem.bind(b.build(), weft.Cluster(speed=[1.0]))
    jobs = batch_jobs(found, weft.plan(found, "heft").schedule, {"late": ["a"], "early": ["b"]})
    assert [job.name for job in parents_first(jobs)] == ["early", "late"]


def test_bad_input_is_one_line(tmp_path, capsys):
    found = problem()
    schedule = weft.plan(found, "heft").schedule
    with pytest.raises(weft.InvalidInput, match=r"task 'merge' \(kind 'merge'\) has no command"):
        batch_jobs(found, schedule, {"prep": ["a"], "align": ["b"]})
    twice = {k: np.append(v, v[:1]) for k, v in schedule.to_arrays().items() if k != "copy"}
    doubled = weft.Schedule.of(**twice, copy=[False] * 5 + [True])
    with pytest.raises(weft.Unsupported, match="more than once"):
        batch_jobs(found, doubled, COMMANDS)
    (tmp_path / "c.json").write_text('{"prep": "echo"}')
    with pytest.raises(weft.InvalidInput, match=r"c\.json: .*prep.*list of strings"):
        load_commands(tmp_path / "c.json")
    out = exported(tmp_path, "slurm")
    capsys.readouterr()
    line = [
        "export",
        "slurm",
        str(tmp_path / "p.json"),
        "--commands",
        str(tmp_path / "commands.json"),
    ]
    assert main([*line, "--out", str(out)]) == 2
    assert "is not empty; give a new folder" in capsys.readouterr().err


def test_hyperqueue_runs_the_exported_graph(tmp_path):
    pytest.importorskip("hyperqueue", reason="HyperQueue is not installed")
    from weft.runtime.backends.hyperqueue.server import OwnServer

    found = problem()
    jobs = batch_jobs(found, weft.plan(found, "heft").schedule, COMMANDS, resources={})
    out = tmp_path / "hq"
    write_hyperqueue(jobs, out)
    rows = json.loads((out / "tasks.json").read_text())
    assert [row["priority"] for row in rows] == [5, 4, 3, 2, 1]
    assert rows[-1]["cpus"] == 2
    assert rows[0]["resources"] == {"mem": 2}
    for row in rows:
        row["resources"] = {}  # a server that weft starts offers cores only
    (out / "tasks.json").write_text(json.dumps(rows))
    server = OwnServer(2)
    try:
        server.client()
        subprocess.run(
            [sys.executable, out / "submit.py", server.folder],
            check=True,
            cwd=out,
            capture_output=True,
            timeout=WAIT_LIMIT,
        )
    finally:
        server.close()
    assert (out / "merged").read_text() == "it's\n" * 3


@pytest.mark.skipif(
    "SLURM_CONF" not in os.environ or shutil.which("sbatch") is None,
    reason="there is no running Slurm (SLURM_CONF and sbatch)",
)
def test_a_real_slurm_runs_the_exported_graph(tmp_path):
    out = exported(tmp_path, "slurm", "--any-node")
    for script in (out / "jobs").iterdir():
        lines = [line for line in script.read_text().splitlines() if "--gres" not in line]
        script.write_text("\n".join(lines))
    subprocess.run([out / "submit.sh"], check=True, capture_output=True)
    last = (out / "job.ids").read_text().split()[-1]
    wait = ["srun", f"--dependency=afterany:{last}", "--time=1", "true"]
    subprocess.run(wait, check=True, capture_output=True, timeout=WAIT_LIMIT)
    assert (out / "merged").read_text() == "it's\n" * 3


# -- names from files ---------------------------------------------------------------------

HOSTILE = (
    "x; touch HIT; #",
    "$(touch HIT)`touch HIT`",
    "two\n#SBATCH --output=HIT\ntouch HIT",
    "' \"; touch HIT; \\",
    "\x1b[31mred/../../HIT %x",
)


def hostile_problem(node="n0", needs=None):
    b = weft.WorkflowBuilder("hostile")
    for name in HOSTILE:
        b.task(name, work=1.0, kind=name, needs=needs)
    capacity = {name: {node: 4.0} for name in needs or {}}
    cluster = weft.Cluster.of([weft.Device("d", node=node)], capacity=capacity)
    return weft.Problem.bind(b.build(), cluster)


def hostile_jobs(words, **options):
    found = hostile_problem(**options)
    return batch_jobs(found, weft.plan(found, "heft").schedule, dict.fromkeys(HOSTILE, words))


def test_names_of_tasks_run_nothing(tmp_path, slurm):
    words = ["sh", "-c", 'printf "%s\\0" "$1" >> "$2"', "sh", "{task}", str(tmp_path / "names")]
    out = tmp_path / "jobs"
    write_slurm(hostile_jobs(words), out)
    subprocess.run([out / "submit.sh"], check=True, capture_output=True)
    assert set((tmp_path / "names").read_text().split("\0")[:-1]) == set(HOSTILE)
    assert list(tmp_path.rglob("HIT*")) == []
    assert len((out / "job.ids").read_text().splitlines()) == len(HOSTILE)
    for script in (out / "jobs").iterdir():
        head = script.read_text().split("exec ")[0]
        assert head.replace("\n", "").isprintable()
        options = [line for line in head.splitlines() if line.startswith("#SBATCH")]
        # One word each, so that a name adds no option; a backslash would escape sbatch's quotes.
        assert [len(shlex.split(line)) for line in options] == [2] * len(options)
        assert "\\" not in "".join(options)


def test_names_inside_the_text_of_a_shell_are_refused():
    for words in (["sh", "-c", "cat > {task}"], ["env", "/bin/bash", "-ec", 'cat > "{task}"']):
        with pytest.raises(weft.InvalidInput, match="as an argument of its own"):
            hostile_jobs(words)


def test_nodes_and_capacities_that_would_be_options_are_refused(tmp_path):
    with pytest.raises(weft.InvalidInput, match="--any-node"):
        write_slurm(hostile_jobs(["true"], node="n0 --output=HIT"), tmp_path / "a")
    write_slurm(hostile_jobs(["true"], node="n0 --output=HIT"), tmp_path / "b", nodes=False)
    with pytest.raises(weft.InvalidInput, match="capacity 'x --wrap=HIT'"):
        write_slurm(hostile_jobs(["true"], needs={"x --wrap=HIT": 1.0}), tmp_path / "c")


def test_hyperqueue_gets_names_as_data(tmp_path):
    _, program = write_hyperqueue(hostile_jobs(["echo", "{task}"]), tmp_path)
    assert "HIT" not in program.read_text()
    rows = json.loads((tmp_path / "tasks.json").read_text())
    assert {tuple(row["command"]) for row in rows} == {("echo", name) for name in HOSTILE}
