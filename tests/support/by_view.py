"""Checks that a compiled policy equals its decisions by view, in both simulators."""

import numpy as np

import weft
from weft.policies import simulate
from weft.sim.reference import simulate_reference

COLUMNS = ("task", "device", "decided", "start", "finish", "status")


class Hidden:
    """A policy without its compiled path."""

    def __init__(self, policy):
        self.name, self.begin, self.decide = policy.name, policy.begin, policy.decide
        self.copies = getattr(policy, "copies", False)


def assert_same_by_view(workload, policy, scenario):
    """Assert that the compiled path is valid and equal to both simulators by view."""
    compiled = simulate(workload, policy, scenario=scenario)
    assert weft.check(workload, compiled) == []
    for run in (simulate, simulate_reference):
        other = run(workload, Hidden(policy), scenario=scenario)
        for column in COLUMNS:
            np.testing.assert_array_equal(getattr(compiled, column), getattr(other, column))
