"""Attacks: they find bad problems, repeat by seed, and their worst cases are held."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import weft
from weft.cli.main import main
from weft.errors import InvalidInput, UnknownName
from weft.experiments.arena.attack import LEAST, MOST, attack, makespan
from weft.experiments.arena.library import load_library
from weft.runtime.deciders.contender import load_contender

WORST = [i for i in load_library().values() if i.origin == "adversarial"]
SMALL = {"tasks": 5, "devices": 2, "runs": 2, "steps": 40}


def test_worst_is_the_highest_ratio_and_can_be_planned_again():
    found = attack("olb", "heft", **SMALL)
    assert [v.ratio for v in found.cases] == sorted((v.ratio for v in found.cases), reverse=True)
    worst = found.worst
    assert worst.ratio > 2  # OLB ignores speeds, which differ by up to 100
    assert worst.makespan == weft.plan(worst.problem, "olb").makespan
    assert worst.against == weft.plan(worst.problem, "heft").makespan
    assert worst.ratio == worst.makespan / worst.against
    assert found.evaluations == 80


def test_numbers_stay_within_the_limits():
    problem = attack("fifo", "heft", **SMALL).worst.problem
    w, c = problem.workflow, problem.cluster
    links = c.bandwidth[~np.eye(c.p, dtype=bool)]
    for numbers in (w.work, w.data, c.speed, links):
        assert ((numbers >= LEAST) & (numbers <= MOST)).all()


def test_the_same_seed_finds_the_same_and_another_does_not():
    first, again, other = (attack("peft", "heft", seed=s, **SMALL) for s in (1, 1, 2))
    assert first.worst.ratio == again.worst.ratio
    assert first.worst.problem.work.tolist() == again.worst.problem.work.tolist()
    assert first.worst.problem.work.tolist() != other.worst.problem.work.tolist()


def test_annealing_finds_worse_than_its_start():
    start = attack("cpop", "heft", tasks=6, devices=3, runs=1, steps=1)
    found = attack("cpop", "heft", tasks=6, devices=3, runs=1, steps=120)
    assert found.worst.ratio > start.worst.ratio


def test_progress_counts_every_problem():
    seen = []

    def track(steps):
        for step in steps:
            seen.append(step)
            yield step

    attack("olb", "heft", tasks=3, devices=1, runs=2, steps=3, track=track)
    assert seen == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("options", "text"),
    [({"tasks": 1}, "tasks is 1"), ({"runs": 0}, "runs is 0"), ({"steps": 0}, "steps is 0")],
)
def test_sizes_that_make_no_sense_are_refused(options, text):
    with pytest.raises(InvalidInput, match=text):
        attack("heft", "cpop", **options)


def test_unknown_contenders_are_refused():
    with pytest.raises(UnknownName, match="hefft"):
        attack("hefft", "cpop")


@pytest.mark.parametrize("instance", WORST, ids=lambda i: i.name)
def test_worst_cases_that_ship_are_as_recorded(instance):
    problem, known = instance.problem(), instance.attack
    mine, other = (
        makespan(problem, load_contender(known[side])) for side in ("contender", "against")
    )
    assert mine == pytest.approx(known["makespan"], rel=1e-9)
    assert other == pytest.approx(known["against_makespan"], rel=1e-9)
    assert mine / other > 1.05


def test_command_writes_the_worst_problem(tmp_path, capsys):
    out = tmp_path / "worst.json"
    sizes = ["--tasks", "4", "--devices", "2", "--runs", "1", "--steps", "20"]
    assert main(["attack", "olb", "--against", "heft", "--out", str(out), *sizes]) == 0
    assert "olb takes" in capsys.readouterr().out
    problem = weft.load(out)
    assert problem.n == 4
    assert main(["attack", "olb", "--against", "heft", "--json", *sizes]) == 0
    document = json.loads(capsys.readouterr().out)
    ratio = weft.plan(problem, "olb").makespan / weft.plan(problem, "heft").makespan
    assert document["runs"][0]["ratio"] == ratio


def test_command_without_against_is_one_line(capsys):
    assert main(["attack", "heft"]) == 2
    assert "--against" in capsys.readouterr().err


def test_makespans_on_the_command_line_have_units(capsys):
    line = "attack olb --against heft --tasks 3 --devices 2 --runs 1 --steps 2"
    assert main(line.split()) == 0
    heading, _, row, *_ = capsys.readouterr().out.splitlines()
    assert heading.split() == ["run", "ratio", "olb", "heft", "tasks", "edges", "devices"]
    assert len(re.findall(r"\d (?:s|ms|µs)\b", row)) == 2
