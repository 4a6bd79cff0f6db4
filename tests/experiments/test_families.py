"""The families experiment: cases, statistics with known answers, the command."""

import json
from functools import partial

import numpy as np
import pytest

import weft
from weft.cli.main import main
from weft.experiments.families import runs
from weft.experiments.families.clairvoyant import clairvoyant_completion, clairvoyant_makespan
from weft.experiments.families.contenders import (
    BASELINE,
    CHOSEN,
    CONSTANT,
    CONTENDERS,
    REFERENCE,
    UNSWITCHED,
    contenders,
)
from weft.experiments.families.rollouts import RolloutPolicy, plan_all, sample_future
from weft.experiments.families.statistics import by_condition, network_rows, ratio_rows, target_rows
from weft.generators import Instance
from weft.generators.families.distribution import LEFT_OUT, draw_case
from weft.learn.workflow.tuned_list import start_sim
from weft.policies.load import load_policy
from weft.policies.replanning.portfolio import advance_to_decision, replan

FEW = (BASELINE, REFERENCE, UNSWITCHED, CHOSEN, CONSTANT, "heft-replanned", "search alone")


def result(own, base, *, cluster="rack"):
    figures = {BASELINE: base, REFERENCE: base, "heft-replanned": 2.0 * base, CHOSEN: own}
    return {"cluster": cluster, "figures": figures, "seconds": dict.fromkeys(figures, 1e-3)}


def test_ratios_and_targets_have_known_answers():
    """Ratios of 0.5 and 0.98: the geometric mean is 0.7, the rule is the baseline itself."""
    groups = by_condition([("static", result(1.0, 2.0)), ("static", result(9.8, 10.0))])
    rows = ratio_rows(groups)
    own = next(r for r in rows if r["contender"] == CHOSEN)
    assert own["ratio"] == pytest.approx(0.7)
    assert own["low"] == pytest.approx(0.5)
    assert own["high"] == pytest.approx(0.98)
    (target,) = target_rows(groups, rows)
    assert (target["reached"], target["best_rule"], target["clear"]) == ("yes", BASELINE, "yes")


def test_single_nodes_form_a_group_of_their_own():
    alone = result(1.0, 2.0, cluster="one node, 2 kinds")
    groups = by_condition([("static", alone), ("static", result(1.0, 2.0)), ("stream .8", alone)])
    assert {name: len(found) for name, found in groups.items()} == {
        "static": 2,
        "stream .8": 1,
        "single node": 1,
    }


def test_steps_cover_every_condition_and_only_families_left_out():
    todo = runs.steps(quick=False)
    assert len(todo) == 60 * len(runs.CONDITIONS)
    assert len({step.key for step in todo}) == len(todo)
    drawn = {family for step in todo[:80] for family in runs.case_of(step).families}
    assert drawn <= set(LEFT_OUT)


def test_a_clairvoyant_search_sees_the_true_durations(monkeypatch):
    """Without noise it is the planner itself; a factor of 3 on all durations triples it."""
    monkeypatch.delenv("WEFT_DATA", raising=False)
    case = runs.case_of(runs.FamilyStep("static", 5))
    workload, scenario = case.instance
    slow = weft.Scenario.of(workload, factor=np.full(workload.instances, 3.0))
    plain = clairvoyant_makespan(case, moves=500)
    problem = workload.problems[0]
    assert plain == pytest.approx(weft.plan(problem, "anytime", iterations=500).makespan)
    known = case._replace(instance=case.instance._replace(scenario=slow))
    assert clairvoyant_makespan(known, moves=500) > plain
    assert (scenario.factor == 1.0).all()


def test_a_clairvoyant_search_of_a_stream_starts_from_a_trace():
    """Without search it is no worse than a trace without copies; with search it is better."""
    for seed in (3, 4):
        case = draw_case("stream .8", seed=seed, jobs=4)
        trace = weft.simulate(
            case.instance.workload, "srpt-replanned", scenario=case.instance.scenario
        )
        same = clairvoyant_completion(case, trace, work=0.0)
        assert same <= trace.jct * (1 + 1e-9)
        assert clairvoyant_completion(case, trace, work=200_000.0) < same


def test_rollouts_see_no_true_durations(monkeypatch):
    """Futures are drawn from what was observed: nothing, before the first task has ended."""
    monkeypatch.delenv("WEFT_DATA", raising=False)
    workload, scenario = runs.case_of(runs.FamilyStep("noisy .5", 5)).instance
    policy, futures = RolloutPolicy("mine"), []
    for factor in (scenario.factor, 3.0 * scenario.factor):
        sim = start_sim(Instance(workload, weft.Scenario.of(workload, factor=factor)))
        policy.begin(workload)
        portfolio = policy.portfolio(sim)
        advance_to_decision(sim, portfolio)
        own = replan(sim, portfolio)
        assert plan_all(sim, portfolio, own) == 0.0
        futures.append(sample_future(sim, portfolio, own, 0.3, np.random.default_rng(0)))
    for show in (lambda f: f.grid, lambda f: f.inst["factor"], lambda f: f.due):
        np.testing.assert_array_equal(*map(show, futures))
    assert np.log(futures[0].inst["factor"]).std() == pytest.approx(0.3, rel=0.3)


def test_rollouts_pass_the_oracle_and_decide_something(monkeypatch):
    monkeypatch.delenv("WEFT_DATA", raising=False)
    workload, scenario = runs.case_of(runs.FamilyStep("changing", 6)).instance
    traces = [
        weft.simulate(workload, policy, scenario=scenario)
        for policy in ("portfolio", RolloutPolicy("mine", futures=2))
    ]
    assert [weft.check(workload, trace) for trace in traces] == [[], []]
    assert traces[0].makespan != traces[1].makespan


def test_the_network_earns_its_place_if_its_interval_is_below_one():
    rows = [result(1.0, 2.0), result(9.0, 10.0)]
    for row in rows:
        row["figures"][CONSTANT] = 1.25 * row["figures"][CHOSEN]
    (row,) = network_rows(by_condition([("static", r) for r in rows]))
    assert (row["ratio"], row["earned"], row["cases"]) == (pytest.approx(0.8), "yes", 2)


def test_contenders_are_registered_or_made():
    for contender in CONTENDERS:
        assert contender.policy().name == (
            contender.name if contender.name != "prices alone" else "portfolio"
        )
    assert load_policy(CHOSEN).copies


def test_the_command_writes_results_and_a_page(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runs, "QUICK_CASES", 1)
    monkeypatch.setattr("weft.experiments.families.experiment.PROCESSES", 1)
    monkeypatch.setattr(runs, "STREAM_JOBS", 2)
    monkeypatch.setattr(runs, "clairvoyant_makespan", partial(clairvoyant_makespan, moves=50))
    monkeypatch.setattr(runs, "clairvoyant_completion", partial(clairvoyant_completion, work=1e4))
    monkeypatch.setattr(
        runs,
        "contenders",
        lambda *, stream, parts: [c for c in contenders(stream=stream) if c.name in FEW],
    )
    out = tmp_path / "out"
    assert main(["reproduce", "families", "--quick", "--out", str(out)]) == 0
    results = json.loads((out / "results.json").read_text())
    assert {row["condition"] for row in results["targets"]} >= {"static", "stream .95"}
    for name in ("network", "switch"):
        assert {row["condition"] for row in results[name]} >= {"static", "stream .95"}
    assert (out / "report.html").read_text().count("search-replanning") > 3
    assert "target" in capsys.readouterr().out
