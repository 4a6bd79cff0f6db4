"""Rules of conditional streams that decide by a view."""

import numpy as np
import pytest
from hypothesis import assume, given, settings

from tests.support.strategies import futures
from weft.errors import Unsupported
from weft.model import Problem
from weft.model.check import check
from weft.policies import simulate
from weft.policies.conditional.rules import RULES
from weft.policies.load import list_policies

CONDITIONAL = [name for name in list_policies() if name.family == "conditional"]


@pytest.mark.parametrize("name", CONDITIONAL)
def test_more_devices_than_tasks_and_failures(name):
    problem = Problem.from_arrays([[np.inf, np.inf, 1.0], [np.inf, 1.0, 1.0]])
    if not name.supports(problem):
        with pytest.raises(Unsupported):
            simulate(problem, name)
        return
    for seed in range(5):
        trace = simulate(problem, name, failures=0.5, seed=seed)
        assert check(problem, trace) == []


@given(future=futures(max_devices=6, min_tasks=1, max_tasks=3, max_jobs=2, max_templates=1))
@settings(deadline=None, max_examples=60)
def test_rules_on_drawn_clusters_larger_than_their_jobs(future):
    workload, scenario = future
    assume(workload.cluster.p > workload.instances)
    for name in [name for name in CONDITIONAL if name in RULES and name.supports(workload)]:
        trace = simulate(workload, name, scenario=scenario)
        assert check(workload, trace) == []
