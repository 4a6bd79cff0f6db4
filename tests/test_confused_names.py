"""A policy where a planner is expected, and the reverse, is named as what it is."""

import pytest

import weft
from weft.cli.main import main
from weft.planners import PLANNERS
from weft.policies import POLICIES
from weft.registry import Registry

PROBLEM = weft.Problem.from_arrays([[1.0, 2.0]])
ANSWER = "'fifo' is a policy, not a planner: weft.simulate(problem, 'fifo'), "
REVERSE = "'peft' is a planner, not a policy: weft.plan(problem, 'peft'), "


@pytest.mark.parametrize(
    "call",
    [
        lambda: weft.plan(PROBLEM, "fifo"),
        lambda: weft.plan(PROBLEM, "fifo", threads=2),
        lambda: weft.PlanCache().plan(PROBLEM, "fifo"),
        lambda: weft.whatif(PROBLEM, ["remove d0"], planner="fifo"),
        lambda: weft.tornado(PROBLEM, planner="fifo"),
    ],
    ids=["plan", "plan with options", "PlanCache", "whatif", "tornado"],
)
def test_a_policy_is_no_planner(call):
    with pytest.raises(weft.UnknownName) as caught:
        call()
    assert str(caught.value).startswith(ANSWER)


@pytest.mark.parametrize(
    "call",
    [
        lambda: weft.simulate(PROBLEM, "peft"),
        lambda: weft.simulate_stream(PROBLEM, [(0.0, 0)], "peft"),
        lambda: weft.Session(PROBLEM.cluster, "peft"),
        lambda: weft.Session(PROBLEM.cluster, "eft", shadow="peft"),
        lambda: weft.run(weft.task(len)("a"), devices=1, history=False, shadow="peft"),
        lambda: weft.load_policy("peft"),
        lambda: weft.export_onnx("peft", "policy.onnx"),
    ],
    ids=["simulate", "simulate_stream", "Session", "shadow", "run", "load_policy", "export_onnx"],
)
def test_a_planner_is_no_policy(call):
    with pytest.raises(weft.UnknownName) as caught:
        call()
    assert str(caught.value).startswith(REVERSE)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("plan PROBLEM --planner dqn", "weft simulate --policy dqn"),
        ("whatif PROBLEM --faster d0=2 --planner fifo", "weft simulate --policy fifo"),
        ("simulate PROBLEM --policy peft", "weft plan --planner peft"),
        ("evaluate peft", "weft plan --planner peft"),
    ],
    ids=lambda text: text.split()[0],
)
def test_verbs_name_the_verb_that_takes_the_name(words, answer, tmp_path, capsys):
    path = tmp_path / "problem.json"
    weft.save(PROBLEM, path)
    code = main([str(path) if word == "PROBLEM" else word for word in words.split()])
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert code != 0
    assert answer in said


def test_names_of_both_tables_and_of_none_stay_what_they_are():
    assert weft.plan(PROBLEM, "heft").planner == weft.simulate(PROBLEM, "heft").policy == "heft"
    with pytest.raises(weft.UnknownName, match=r"^unknown planner 'hefft'; did you mean 'heft'"):
        weft.plan(PROBLEM, "hefft")
    with pytest.raises(weft.UnknownName, match=r"^unknown policy 'fifoo'; did you mean 'fifo'"):
        weft.simulate(PROBLEM, "fifoo")


def test_every_name_of_one_table_only_is_recognised_by_the_other():
    for own, other in ((PLANNERS, POLICIES), (POLICIES, PLANNERS)):
        for name in set(other.names()) - set(own.names()):
            with pytest.raises(weft.UnknownName, match=f"is a {other.noun}, not a {own.noun}: "):
                own.factory(name)


def test_a_table_without_another_one_imports_nothing():
    tools: Registry[object] = Registry("tool")
    with pytest.raises(weft.UnknownName, match=r"^unknown tool 'saw'$"):
        tools.factory("saw")
