"""Separable CMA-ES, plain and guarded, and the checks of settings."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Annotated, Literal

import numpy as np
import pytest

from weft.errors import InvalidInput
from weft.learn.cma import SeparableCma
from weft.learn.settings import Bound, Count, InstanceSettings, Positive, Settings


@pytest.mark.parametrize("guarded", [False, True])
def test_an_ellipse_is_minimised(guarded):
    scale = np.array([1.0, 10.0, 100.0])
    rng = np.random.default_rng(3)
    spread = 1.0 if guarded else np.ones(3)
    search = SeparableCma(np.full(3, 2.0), spread, population=10, rng=rng, guarded=guarded)
    for _ in range(150):
        candidates = search.ask()
        search.tell(candidates, (scale * candidates**2).sum(axis=1))
    assert (scale * search.mean**2).sum() < 1e-6


def test_only_the_plain_version_follows_changed_candidates():
    # All candidates are replaced by one point: the plain version moves its mean exactly there.
    for guarded in (False, True):
        rng = np.random.default_rng(0)
        search = SeparableCma(np.zeros(2), 1.0, population=6, rng=rng, guarded=guarded)
        search.ask()
        search.tell(np.ones((6, 2)), np.arange(6.0))
        assert np.allclose(search.mean, 1.0) is not guarded


@pytest.mark.parametrize(("population", "spread"), [(3, 1.0), (8, 0.0)])
def test_bad_options_are_refused(population, spread):
    with pytest.raises(InvalidInput, match=f"population is {population} and the least spread"):
        SeparableCma(np.zeros(2), spread, population=population, rng=np.random.default_rng(0))


@dataclass(frozen=True)
class ToySettings(Settings, noun="toy"):
    steps: Count = 1
    rate: Positive = 0.5
    share: Annotated[float, Bound(0, 1)] = 0.5
    base: Literal["network", "index"] = "index"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("steps", 0, "toy: steps is 0; it must be 1 or more"),
        ("steps", inf, "toy: steps is inf; it must be 1 or more"),
        ("rate", float("nan"), "toy: rate is nan; it must be above 0"),
        ("share", 1.5, r"toy: share is 1.5; it must be within \[0, 1\]"),
        ("base", "plan", "toy: base is 'plan'; it must be 'network' or 'index'"),
    ],
)
def test_settings_out_of_bounds_are_refused_by_name(name, value, message):
    assert ToySettings().noun == "toy"
    with pytest.raises(InvalidInput, match=message):
        ToySettings(**{name: value})


def test_settings_of_instances_draw_one_at_least():
    with pytest.raises(InvalidInput, match="raise alone or streams"):
        InstanceSettings(alone=0, streams=0)
