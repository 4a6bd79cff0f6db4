"""Drawn futures: their limits, and the spells of devices."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InvalidInput
from weft.model import Problem, Scenario, Workload
from weft.model.scenario import MOST_SPELLS, _worst_of

TIMES = st.integers(0, 12).map(float)
SPELLS = st.tuples(TIMES, TIMES, st.sampled_from([1.5, 2.0, 4.0, inf])).map(
    lambda spell: (min(spell[:2]), max(spell[:2]), spell[2])
)


def plain_worst_of(spells):
    """Return (time, slowdown) at each change, by looking at all spells at each time."""
    changes = [(-inf, 1.0)]
    for time in sorted({t for begin, end, _ in spells for t in (begin, end)}):
        slowdown = max((x for begin, end, x in spells if begin <= time < end), default=1.0)
        if slowdown != changes[-1][1]:
            changes.append((time, slowdown))
    return changes[1:]


@given(st.lists(SPELLS, max_size=8))
def test_the_worst_spell_counts(spells):
    assert _worst_of(spells) == plain_worst_of(spells)


@pytest.mark.parametrize("what", ["slowdowns", "failures"])
def test_a_future_has_a_limit_of_spells(what):
    workload = Workload.of(Problem.from_arrays([[1.0, 2.0]]))
    with pytest.raises(InvalidInput, match=f"{what} is 100001.* with 2 devices"):
        Scenario.draw(workload, **{what: MOST_SPELLS / 2 + 1})
    drawn = Scenario.draw(workload, **{what: MOST_SPELLS / 200})
    assert len(drawn.change_time) > 0
