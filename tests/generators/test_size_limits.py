"""Sizes that no memory holds are refused before work starts."""

from __future__ import annotations

import pytest

from weft.cli.main import main
from weft.errors import InvalidInput
from weft.generators import GENERATORS, generate, generator_options
from weft.generators.generators import estimated_tasks


@pytest.mark.parametrize("name", GENERATORS.names())
@pytest.mark.parametrize("value", [10**8, 99999999999999999999])
def test_huge_sizes_are_refused_at_once(name, value):
    sizes = [key for key in generator_options(name) if estimated_tasks(name, {key: value}) > 10**7]
    assert sizes
    for key in {*sizes, "tasks"}:
        with pytest.raises(InvalidInput, match=r"at most 5000000 are made; .* WEFT_MAX_TASKS"):
            generate(name, **{key: value})


@pytest.mark.parametrize("name", GENERATORS.names())
def test_estimates_are_near(name):
    made = generate(name)
    assert made.n / 2 <= estimated_tasks(name, {}) <= 2 * (made.n + made.m)


@pytest.mark.parametrize("name", ["out_tree", "fft"])
def test_trees_of_many_tasks_are_found_without_making_larger_ones(name):
    assert 100_000 < generate(name, tasks=200_000).n <= 200_000


def test_the_limit_is_raised_by_a_variable(monkeypatch):
    monkeypatch.setenv("WEFT_MAX_TASKS", "10")
    with pytest.raises(InvalidInput, match="about 20 tasks or edges; at most 10 are made"):
        generate("cholesky", tiles=4)
    monkeypatch.setenv("WEFT_MAX_TASKS", "20")
    assert generate("cholesky", tiles=4).n == 20


@pytest.mark.parametrize(
    "argv",
    [
        ["montage", "--images", "100000000"],
        ["cholesky", "--tiles", "99999999999999999999"],
        ["gauss", "--size", "100000000"],
        ["epigenomics", "--lanes", "100000000"],
    ],
)
def test_the_command_refuses_in_one_line(argv, capsys):
    assert main(["generate", *argv]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert "WEFT_MAX_TASKS" in printed.err
