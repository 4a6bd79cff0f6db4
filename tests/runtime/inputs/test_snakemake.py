"""The scheduler plugin of Snakemake: found, run on a small Snakefile, and right."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.waiting import WAIT_LIMIT
from weft import formats
from weft.runtime.costs.history import History
from weft.runtime.costs.measurements import Measurement
from weft.runtime.inputs.snakemake import (
    DEVICE,
    MISFITS,
    Finish,
    finished_jobs,
    fitting,
    learn,
    seconds_by_rule,
)

SNAKEFILE = """
rule all:
    input: "joined.txt"

rule decoy:  # four of them, which the long chain must not wait for
    output: "decoy{i}.txt"
    shell: "echo decoy{wildcards.i} >> order.log; sleep 0.05; echo {wildcards.i} > {output}"

rule head:
    output: "head.txt"
    threads: 1
    resources: mem_mb=300, licence=1
    shell: "echo head >> order.log; sleep 0.05; echo 10 > {output}"

rule tail:
    input: "head.txt"
    output: "tail.txt"
    shell: "echo tail >> order.log; sleep 0.05; echo $(( $(cat {input}) + 1 )) > {output}"

rule join:
    input: "tail.txt", expand("decoy{i}.txt", i=range(4))
    output: "joined.txt"
    shell: "cat {input} | paste -s -d+ - | xargs -I% sh -c 'echo $((%))' > {output}"
"""


def snakemake(folder: Path, *options: str) -> subprocess.CompletedProcess:
    pytest.importorskip(
        "snakemake", reason="Snakemake is not installed: pip install 'weft-scheduling[snakemake]'"
    )
    env = {
        **os.environ,
        "WEFT_HISTORY": str(folder / "history.sqlite"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    command = [sys.executable, "-m", "snakemake", "--scheduler", "weft", "--cores", "1", *options]
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=WAIT_LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def test_the_long_chain_goes_first_once_it_is_known(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    snakemake(tmp_path, "--resources", "mem_mb=500", "--scheduler-weft-write", "graph.json")
    graph = formats.load(tmp_path / "graph.json")
    assert (graph.n, graph.m) == (8, 7)
    assert {k: v.tolist() for k, v in graph.cluster.capacity.items()} == {
        "cores": [1.0],
        "memory": [5e8],
    }
    head = graph.workflow.task_names.index("head")
    assert graph.needs[head].tolist() == [1.0, 3e8]  # nothing limits licences
    assert (tmp_path / "joined.txt").read_text() == "17\n"  # 10 + 1, and 0 + 1 + 2 + 3
    known = seconds_by_rule(History(tmp_path / "history.sqlite"))
    assert sorted(known) == ["decoy", "head", "join", "tail"]
    assert min(known.values()) > 0
    slow = [Measurement("tail", DEVICE, 1000.0)] * 3  # whatever the machine measured
    History(tmp_path / "history.sqlite").add(slow)

    (tmp_path / "order.log").unlink()
    snakemake(tmp_path, "--forceall")
    assert (tmp_path / "joined.txt").read_text() == "17\n"
    order = (tmp_path / "order.log").read_text().split()
    # One core. Ranks: head leads to the 1000 seconds of tail, a decoy to join alone.
    assert order[:2] == ["head", "tail"]
    assert sorted(order[2:]) == [f"decoy{i}" for i in range(4)]
    assert len(History(tmp_path / "history.sqlite").samples("tail", DEVICE)) == 1 + 3 + 1

    # It is the history that decides: were decoys the long ones, they would go first.
    other = tmp_path / "other.sqlite"
    History(other).add(
        [
            Measurement("decoy", DEVICE, 100.0),
            *(Measurement(rule, DEVICE, 0.1) for rule in ("head", "tail", "join")),
        ]
    )
    (tmp_path / "order.log").unlink()
    snakemake(
        tmp_path,
        "--forceall",
        "--scheduler-weft-history",
        str(other),
        "--scheduler-weft-learn-nothing",
    )
    assert (tmp_path / "order.log").read_text().split() == [
        "decoy0",
        "decoy1",
        "decoy2",
        "decoy3",
        "head",
        "tail",
    ]


def test_settings_are_taken(tmp_path):
    (tmp_path / "Snakefile").write_text(
        'rule a:\n    output: "a.txt"\n    shell: "touch {output}"\n'
    )
    other = tmp_path / "other.sqlite"
    snakemake(
        tmp_path, "--scheduler-weft-history", str(other), "--scheduler-weft-learn-nothing", "a.txt"
    )
    assert History(other).durations() == []
    assert not (tmp_path / "history.sqlite").exists()


def test_the_contract_of_the_interface(tmp_path):
    """Snakemake's own test of scheduler plugins: resources are respected."""
    interface = pytest.importorskip(
        "snakemake_interface_scheduler_plugins.tests", reason="Snakemake is not installed"
    )
    import snakemake_scheduler_plugin_weft as plugin

    path = tmp_path / "history.sqlite"
    settings = plugin.SchedulerSettings(history=str(path), learn_nothing=True)
    dag = interface.DummyDAG()
    empty = plugin.Scheduler(dag, settings, logging.getLogger("test"))
    assert (
        empty.select_jobs([dag._jobs[0]], dag._jobs, {"cpu": 1}, defaultdict(int)) is None
    )  # nothing known: greedy decides
    History(path).add([Measurement("any", DEVICE, 1.0)])

    class Contract(interface.TestSchedulerBase):
        def get_scheduler_cls(self):
            return plugin.Scheduler

        def get_scheduler_settings(self):
            return settings

    Contract().test_scheduler()


def jobs_of(priorities):
    """Jobs a, b, ...; the last one reads all others."""
    found = [
        SimpleNamespace(
            rule=SimpleNamespace(name=name),
            priority=priority,
            output=[f"{name}.txt"],
            parents=[],
            scheduler_resources={"_cores": 1, "mem": 5 if name == "d" else 1},
        )
        for name, priority in priorities.items()
    ]
    jobs = [Hashed(job) for job in found]
    jobs[-1].parents.extend(jobs[:-1])
    return jobs


class Hashed:
    """A stand-in for a job: an object with attributes that can be a key."""

    def __init__(self, facts):
        vars(self).update(vars(facts))


def scheduler_of(jobs, seconds):
    plugin = pytest.importorskip(
        "snakemake_scheduler_plugin_weft", reason="Snakemake is not installed"
    )
    made = plugin.Scheduler.__new__(plugin.Scheduler)
    made.dag = SimpleNamespace(needrun_jobs=lambda: jobs, job_dependencies=lambda job: job.parents)
    made.seconds = seconds
    made.dag_updated()
    return made


def test_a_round_goes_by_priority_then_rank_then_name():
    jobs = jobs_of({"c": 0, "b": 0, "a": 0, "d": 0, "urgent": 9, "last": 0})
    scheduler = scheduler_of(jobs, {"a": 1.0, "b": 1.0, "c": 3.0, "d": 2.0, "last": 1.0})
    ready = set(jobs[:-1])

    def chosen(cores, mem=100):
        found = scheduler.select_jobs(ready, jobs, {"_cores": cores, "mem": mem}, {})
        return [job.rule.name for job in found]

    assert chosen(5) == ["urgent", "c", "d", "a", "b"]
    assert chosen(2) == ["urgent", "c"]
    assert chosen(3, mem=4) == ["urgent", "c", "a"]  # d needs 5
    group = Hashed(SimpleNamespace(jobs=jobs[1:3], scheduler_resources={"_cores": 2}))
    found = scheduler.select_jobs([group, jobs[3]], jobs, {"_cores": 9, "mem": 9}, {})
    assert found == [jobs[3], group]  # a and b, at the place of a
    late = jobs_of({"late": 0, "end": 0})[0]  # after a checkpoint, before the graph is updated
    found = scheduler.select_jobs([late, jobs[2]], jobs, {"_cores": 9, "mem": 9}, {})
    # The median of the known seconds is 1: late takes 1, a takes 1 before the last one's 1.
    assert found == [jobs[2], late]


def test_a_round_ends_where_nothing_can_start():
    asked = []
    many = [f"{k:05}" for k in range(MISFITS + 50)]

    def wants(job):
        asked.append(job)
        return {"_cores": 1, "mem": 1 if job == many[0] else 9}

    assert fitting(many, wants, {"_cores": 1, "mem": 10}) == many[:1]
    assert asked == many[:1]  # no core is left
    asked.clear()
    assert fitting(many, wants, {"_cores": 9, "mem": 1}) == many[:1]
    assert len(asked) == MISFITS + 2


def record(folder, name, **values):
    (folder / "metadata").mkdir(exist_ok=True)
    (folder / "metadata" / name).write_text(
        json.dumps({"rule": "r", "starttime": 1.0, "endtime": 3.0, "job_hash": 1, **values})
    )


def test_records_are_read_once_and_broken_ones_left_out(tmp_path):
    record(tmp_path, "a")
    record(tmp_path, "b")  # a second output of the same job
    record(tmp_path, "c", job_hash=2, endtime=5.0)
    record(tmp_path, "d", job_hash=3, starttime=None)
    record(tmp_path, "e", job_hash=4, endtime=0.5)  # before it began
    (tmp_path / "metadata" / "f").write_text("{")
    assert finished_jobs(tmp_path) == [Finish(3.0, 1.0, "r", 1), Finish(5.0, 1.0, "r", 2)]
    history = History(tmp_path / "h.sqlite")
    assert learn(tmp_path, history) == 2
    assert learn(tmp_path, history) == 0
    assert seconds_by_rule(history) == {"r": 3.0}  # the median of 2 and 4
    record(tmp_path, "g", job_hash=5, starttime=6.0, endtime=7.0)
    assert learn(tmp_path, history) == 1
