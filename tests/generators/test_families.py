"""Families of workflows: shapes of executed instances, and cases with equal shares."""

import numpy as np
import pytest

from weft.errors import UnknownName, WeftError
from weft.generators import generate, measure_ccr
from weft.generators.families.distribution import (
    CCRS,
    DEVELOPMENT,
    FAMILIES,
    FROM_BYTES,
    LEFT_OUT,
    LOADS,
    draw_case,
    draw_workflow,
)

EXECUTED = {
    "blast": [({"parts": 40}, 43, 120), ({"parts": 100}, 103, 300)],
    "bwa": [({"parts": 1000}, 1004, 4000)],
    "cycles": [({"locations": 5, "runs": 16}, 331, 485), ({"locations": 10, "runs": 16}, 661, 970)],
    "seismology": [({"signals": 100}, 101, 100), ({"signals": 1100}, 1101, 1100)],
    "soykb": [({"samples": 5}, 96, 194), ({"samples": 25, "chromosomes": 10}, 416, 914)],
    "srasearch": [({"accessions": 10}, 22, 30), ({"accessions": 50}, 104, 152)],
    "genome": [({"chromosomes": 10}, 260, 380)],
}
"""Options, tasks and edges of instances in WfInstances."""


@pytest.mark.parametrize("family", EXECUTED)
def test_shapes_are_those_of_executed_instances(family):
    for options, tasks, edges in EXECUTED[family]:
        made = generate(family, **options)
        assert made.n == tasks
        assert made.m == edges


@pytest.mark.parametrize("family", FAMILIES)
def test_families_scale_and_vary(family):
    small, large = (np.median([draw_workflow(family, s, r).n for s in range(5)]) for r in RANGES)
    assert small < large
    first, second = draw_workflow(family, 1), draw_workflow(family, 1)
    assert np.array_equal(first.work, second.work)
    assert not np.array_equal(first.work, draw_workflow(family, 2).work)


RANGES = ((20, 30), (150, 200))


def test_durations_follow_the_law_of_their_kind():
    made = generate("seismology", signals=2000, seed=4)
    work = np.log(made.work[made.kind == made.kinds.index("sG1IterDecon")])
    assert np.median(work) == pytest.approx(np.log(0.42), abs=0.08)
    assert work.std() == pytest.approx(0.81, abs=0.06)


def test_no_family_is_on_both_sides():
    assert not set(DEVELOPMENT) & set(LEFT_OUT)
    seen = {draw_case("static", seed=s).families[0] for s in range(4 * len(LEFT_OUT))}
    assert seen == set(LEFT_OUT)


def test_cases_have_the_ccr_that_was_set():
    for seed in range(8):
        case = draw_case("static", seed=seed, clusters=("rack",))
        assert case.ccr == CCRS[seed % len(CCRS)]
        if case.ccr != FROM_BYTES:
            assert measure_ccr(case.instance.workload.problems[0]) == pytest.approx(case.ccr)


@pytest.mark.parametrize("condition", LOADS)
def test_streams_mix_families(condition):
    case = draw_case(condition, seed=3, jobs=9)
    assert case.instance.workload.jobs == 9
    assert len(set(case.families)) > 2


def test_unknown_names_are_refused():
    with pytest.raises((UnknownName, WeftError), match="static"):
        draw_case("statik")
    with pytest.raises(WeftError, match="genome"):
        draw_workflow("genom", 0)
