"""Online decisions: View -> Decision. Called, the package answers with the names of all policies: ``weft.policies()``."""

import sys

from weft.policies import deft, foresight_policy, graph_policy, heft_online, rules, workflow_files
from weft.policies.policy import POLICIES
from weft.policies.rules import RulePolicy
from weft.policies.simulate import simulate
from weft.registry import CallableModule
from weft.sim.view import Block, Decision, Policy, View

__all__ = [
    "POLICIES",
    "Block",
    "Decision",
    "Policy",
    "RulePolicy",
    "View",
    "called",
    "deft",
    "foresight_policy",
    "graph_policy",
    "heft_online",
    "rules",
    "simulate",
    "workflow_files",
]


def called() -> list[str]:
    """All names, sorted."""
    return POLICIES.names()


sys.modules[__name__].__class__ = CallableModule
