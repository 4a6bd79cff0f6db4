"""A lab of two hosts, for tests on machines that can have one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks.lab.commands import missing
from benchmarks.lab.lab import Lab
from benchmarks.lab.spec import parse_spec

TWO = {
    "core": 0.8,
    "host": [{"name": "a", "link": "1gbit"}, {"name": "b", "speed": 0.5, "link": "80mbit"}],
    "pair": [{"between": ["a", "b"], "link": "40mbit"}],
}


@pytest.fixture(name="lab")
def _lab() -> Iterator[Lab]:
    if reason := missing():
        pytest.skip(reason)
    with Lab(parse_spec(TWO)) as lab:
        yield lab
