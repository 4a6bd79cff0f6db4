"""The description of a lab."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.lab import spec
from benchmarks.lab.spec import load_spec, parse_spec

from weft.errors import InvalidInput

LAB = Path(spec.__file__).parent


def test_the_lab_of_the_table() -> None:
    four = load_spec(LAB / "four.toml")
    assert [host.speed for host in four.hosts] == [1, 0.5, 0.25, 0.25]
    assert sum(host.quota for host in four.hosts) * four.core <= 1.6
    # The slower of two links counts: 1 Gbit and 80 Mbit give 80 Mbit.
    assert (four.rate("a", "b"), four.rate("a", "c"), four.rate("head", "d")) == (8e7, 1e9, 8e7)


def test_a_pair_has_a_rate_of_its_own_in_both_directions() -> None:
    given = parse_spec(
        {"host": [{"name": "a"}, {"name": "b"}], "pair": [{"between": ["a", "b"], "link": "5mbit"}]}
    )
    assert given.rate("a", "b") == given.rate("b", "a") == 5e6


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"host": [{"name": "a", "spede": 1}]}, "'spede' in host[0]; did you mean 'speed'"),
        ({"host": [{"name": "a"}, {"name": "a"}]}, "different names"),
        ({"host": [{"name": "head"}]}, "none of them 'head'"),
        ({"host": []}, "different names"),
        ({"host": [{"name": "Big Host"}]}, "is called 'Big Host'"),
        ({"host": [{"name": "a", "link": "80"}]}, "'80' is not a rate"),
        ({"host": [{"name": "a", "memory": "much"}]}, "'much' is not an amount"),
        ({"host": [{"name": "a", "speed": 0}]}, "a number above 0"),
        ({"host": [{"name": "a"}], "pair": [{"between": ["a", "x"], "link": "1mbit"}]}, "'x'"),
        (
            {"host": [{"name": "a"}], "pair": [{"between": ["a"], "link": "1mbit"}]},
            "give two hosts",
        ),
        ({"host": [{"name": "a", "cores": 1.5}]}, "a whole number"),
        ({"host": [{"name": "a", "link": "1.2.3gbit"}]}, "is not a rate"),
        ({"host": 5}, "must be a list of objects"),
    ],
)
def test_mistakes_are_named(document: dict, words: str) -> None:
    with pytest.raises(InvalidInput) as error:
        parse_spec(document)
    assert words in str(error.value)
