"""The arena: records that hold, a checker, contenders at equal time."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import weft
from weft.cli.main import main
from weft.errors import InvalidInput, UnknownName
from weft.experiments.arena.contest import certify, contend, improve, judge
from weft.experiments.arena.library import ArenaInstance, find_instance, load_library, save_library
from weft.formats import save
from weft.planners.bounds import lower_bound

LIBRARY = load_library()
HERE = [i for i in LIBRARY.values() if i.origin != "real"]
SMALL = "heft-against-cpop"


def test_library_has_every_origin_and_only_finite_records():
    assert {i.origin for i in LIBRARY.values()} == {"drawn", "adversarial", "real"}
    for instance in LIBRARY.values():
        assert 0 < instance.bound <= instance.best * (1 + 1e-9) < 1e300
        assert instance.by in {"anytime", "exact"}


@pytest.mark.parametrize("instance", HERE, ids=lambda i: i.name)
def test_bounds_are_computed_again_and_records_are_not_beaten_by_heft(instance):
    problem = instance.problem()
    bound = lower_bound(problem)
    assert instance.bound >= bound * (1 - 1e-9)
    if instance.proof == "bounds":
        assert instance.bound == pytest.approx(bound, rel=1e-9)
    assert weft.plan(problem, "heft").makespan >= instance.best * (1 - 1e-9)


def test_verdicts():
    instance = find_instance(SMALL)
    problem = instance.problem()
    schedule = weft.plan(problem, "heft").schedule
    ratio = schedule.makespan / instance.best
    assert judge(instance, schedule).verdict == f"{ratio - 1:.2%} above the best known"
    equal = replace(instance, best=schedule.makespan)
    assert judge(equal, schedule).verdict == "equal to the best known"
    beaten = replace(instance, best=2 * schedule.makespan)
    assert judge(beaten, schedule).verdict == "a new record: 50.00% below the best known"
    wrong = replace(instance, bound=2 * schedule.makespan)
    assert "the bound is wrong" in judge(wrong, schedule).verdict


def test_invalid_schedules_are_refused_with_the_first_reason():
    instance = find_instance(SMALL)
    schedule = weft.plan(instance.problem(), "heft").schedule
    early = replace(schedule, start=schedule.start * 0.5, finish=schedule.finish * 0.5)
    with pytest.raises(InvalidInput, match="no valid schedule of 'heft-against-cpop'"):
        judge(instance, early)


def test_contenders_at_equal_time():
    chosen = [find_instance(SMALL), find_instance("layered-20-a")]
    rows = contend(["heft", "cpop", "eft"], chosen, seconds=0.05)
    assert {row["contender"] for row in rows} == {"heft", "cpop", "eft"}
    own = {row["contender"]: row for row in rows}
    heft = weft.plan(chosen[0].problem(), "heft").makespan
    assert own["heft"]["adversarial"] == pytest.approx(heft / chosen[0].best)
    assert all(row["worst"] >= 1 - 1e-9 for row in rows)


def test_improve_finds_a_record_and_a_bound():
    fresh = replace(find_instance(SMALL), best=1e9, by="", bound=0.0, proof="bounds")
    found = improve(fresh, seconds=0.5)
    assert lower_bound(fresh.problem()) <= found.bound <= found.best * (1 + 1e-9)
    assert found.best <= weft.plan(fresh.problem(), "heft").makespan


def test_certificates_are_checked_again():
    instance = find_instance(SMALL)
    row = certify(instance, seconds=10.0)
    assert (row["record"], row["certificate"]) == ("reached", "holds")
    assert row["again"] == pytest.approx(instance.bound)
    # A bound above the optimum cannot be proved, and a record below it cannot be reached.
    wrong = replace(instance, bound=1.5 * instance.bound, best=0.5 * instance.best)
    found = certify(wrong, seconds=0.5)
    assert (found["record"], found["certificate"]) == ("not reached", "not repeated")


def test_library_round_trip(tmp_path):
    save_library(LIBRARY.values(), tmp_path / "library.json")
    assert load_library(tmp_path / "library.json") == LIBRARY


def test_real_instances_need_their_data(monkeypatch, tmp_path):
    monkeypatch.setenv("WEFT_DATA", str(tmp_path))
    real = next(i for i in LIBRARY.values() if i.origin == "real")
    assert not real.available
    with pytest.raises(InvalidInput, match="set WEFT_DATA"):
        real.problem()


def test_real_instance_from_a_file(monkeypatch, tmp_path):
    (tmp_path / "folder").mkdir()
    tasks = weft.generate("layered", tasks=5, seed=0)
    save(tasks, tmp_path / "folder" / "a.json")
    monkeypatch.setenv("WEFT_DATA", str(tmp_path))
    how = {"path": "folder/a.json", "speeds": [1.0, 2.0], "bandwidth": 1e9}
    instance = ArenaInstance("a", "real", how)
    assert instance.available
    assert instance.problem().cluster.speed.tolist() == [1.0, 2.0]


def test_commands(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("WEFT_DATA", str(tmp_path))
    assert main(["arena"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in LIBRARY)
    assert main(["arena", "--instance", SMALL, "--export", str(tmp_path / "out")]) == 0
    problem = weft.load(tmp_path / "out" / f"{SMALL}.json")
    save(weft.plan(problem, "heft"), tmp_path / "mine.json")
    capsys.readouterr()
    check = ["arena", "--instance", SMALL, "--check", str(tmp_path / "mine.json")]
    assert main([*check, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"].endswith("above the best known")
    assert main(check) == 0
    assert "valid" in capsys.readouterr().out
    certified = ["arena", "--instance", SMALL, "--certify", "--seconds", "0.5", "--json"]
    assert main(certified) == 0
    assert json.loads(capsys.readouterr().out)[0]["certificate"] == "holds"
    contend = ["arena", "--instance", SMALL, "--contenders", "heft,cpop", "--json"]
    assert main(contend) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_wrong_commands_are_one_line(capsys):
    assert main(["arena", "--check", "x.json"]) == 2
    assert "--check needs --instance" in capsys.readouterr().err
    with pytest.raises(UnknownName, match="did you mean"):
        find_instance("layered-20-z")
    assert main(["arena", "--instance", "nothing"]) == 2
    assert "unknown instance" in capsys.readouterr().err
