"""The cache of plans: what is found, what starts a search, what is dropped."""

from __future__ import annotations

import numpy as np
import pytest

from weft.errors import InvalidInput
from weft.model import Problem
from weft.model.check import check
from weft.planners.plan_cache import PlanCache, shape_of


def drawn(scale: float = 1.0, *, extra: bool = False) -> Problem:
    durations = scale * np.array([[2.0, 1.0], [3.0, 4.0], [2.0, 2.0]])
    edges = [[0, 1], [0, 2], [1, 2]] if extra else [[0, 1], [0, 2]]
    return Problem.from_arrays(durations, edges, 10.0, bandwidth=5.0)


def test_equal_content_is_found_and_other_content_is_not() -> None:
    cache = PlanCache()
    first = cache.plan(drawn(), "heft")
    again = cache.plan(drawn(), "heft")  # another object of the same content
    assert again.schedule is first.schedule
    for other in (drawn(2.0), drawn(extra=True)):
        made = cache.plan(other, "heft")
        assert made.schedule is not first.schedule
        assert check(other, made) == []
    cache.plan(drawn(), "cpop")
    cache.plan(drawn(), "heft", seed=1)
    assert (cache.hits, cache.starts, cache.misses) == (1, 0, 5)


def test_the_same_shape_starts_a_search() -> None:
    cache = PlanCache()
    cache.plan(drawn(), "anytime", iterations=50)
    near = drawn(1.1)
    assert shape_of(near) == shape_of(drawn()) != shape_of(drawn(extra=True))
    made = cache.plan(near, "anytime", iterations=50)
    assert check(near, made) == []
    assert (cache.hits, cache.starts, cache.misses) == (0, 1, 1)


def test_the_least_recently_used_plan_is_dropped() -> None:
    cache = PlanCache(plans=2)
    for scale in (1.0, 2.0, 1.0, 3.0):  # 2 was not used since 1 was
        cache.plan(drawn(scale), "heft")
    assert len(cache) == 2
    cache.plan(drawn(1.0), "heft")
    assert cache.hits == 2
    cache.plan(drawn(2.0), "heft")
    assert cache.misses == 4


def test_bytes_are_bounded() -> None:
    cache = PlanCache(size=1.0)
    cache.plan(drawn(), "heft")
    assert len(cache) == 0
    with pytest.raises(InvalidInput, match="above zero"):
        PlanCache(plans=0)
