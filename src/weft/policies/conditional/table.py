"""Registration of the policies for conditional streams."""

from __future__ import annotations

from functools import partial

from weft.errors import Unsupported
from weft.formats.model_file import Model
from weft.model import Workload
from weft.policies.conditional.index import KIND as INDEX
from weft.policies.conditional.index import index_of_model
from weft.policies.conditional.network_policy import NetworkPolicy
from weft.policies.conditional.pair_view import PairNetworkPolicy
from weft.policies.conditional.rollout import Rollout, load_rollout
from weft.policies.conditional.rules import ConditionalRule
from weft.policies.conditional.trained_network import NETWORK, PAIRS, network_of_model
from weft.policies.conditional.view_policy import RuleViewPolicy
from weft.policies.policy import POLICIES, bundled_policy, register_kind
from weft.sim.view import Decision, View

FAMILY = "conditional"

SUMMARIES = {
    "unit-fifo": "Unit by unit, the kind whose first job is the oldest (Debner et al. 2024).",
    "unit-mru": "Unit by unit, the kind taken last while there is one (Debner et al. 2024).",
    "unit-depth-first": "Unit by unit, the kind deepest in the graph (Debner et al. 2024).",
    "longest-queue": "Unit by unit, the kind with the most ready tasks.",
    "batch-aware": "Unit by unit, the kind with the least time per task of the batch.",
    "shortest-remaining": "Unit by unit, the kind with the least expected time to the job's end.",
    "reservation": "Slow kinds on units with large batches, quick kinds on the others.",
}

MODELS = {
    "index": "The pair of unit and kind with the highest tuned index first; for conditional-paper.",
    "conditional-any": "A small network over pairs of unit and kind, for any stream.",
    "conditional-best": "The best network for conditional-paper when units wait for events.",
    "conditional-paper-best": "The best network for conditional-paper when idle units block 10 ms.",
    "conditional-pi0": "PPO network trained at p(c) = 0.1 (pi0 of Debner et al. 2024).",
    "conditional-pi1": "PPO network trained at p(c) = 0.5 (pi1 of Debner et al. 2024).",
    "conditional-pi2": "PPO network trained at p(c) = 0.9 (pi2 of Debner et al. 2024).",
    "conditional-pi3": "PPO network trained at random p(c) (pi3 of Debner et al. 2024).",
    "conditional-pi4": "PPO network that sees an estimate of p(c) (pi4 of Debner et al. 2024).",
}
"""Bundled models and their summaries; a test compares the list with the folder."""


class RolloutViewPolicy:
    """Rollouts, which sample future arrivals and so need the stream."""

    name = "rollout"

    def __init__(self, rollout: Rollout) -> None:
        self.stepwise = rollout

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Refuse: a workload does not say how jobs arrive."""
        raise Unsupported(
            f"policy 'rollout' samples future arrivals, which '{workload.name}' does not describe; "
            "use: weft evaluate rollout --stream FILE"
        )

    def decide(self, view: View) -> Decision | None:
        """Never reached: `begin` refuses every workload."""
        raise NotImplementedError


@register_kind(NETWORK)
def network_policy_of(model: Model) -> NetworkPolicy:
    """Build the policy of a network for one stream."""
    return NetworkPolicy(network_of_model(model))


@register_kind(PAIRS)
def pair_policy_of(model: Model) -> PairNetworkPolicy:
    """Build the policy of a network over pairs of unit and kind."""
    return PairNetworkPolicy(network_of_model(model))


@register_kind(INDEX)
def index_policy_of(model: Model) -> RuleViewPolicy:
    """Build the policy of a tuned index."""
    return RuleViewPolicy(index_of_model(model))


@POLICIES.register("rollout", family=FAMILY)
def rollout() -> RolloutViewPolicy:
    """Candidates of the best network and the index, compared in sampled futures."""
    return RolloutViewPolicy(load_rollout())


def _rule(name: str) -> RuleViewPolicy:
    return RuleViewPolicy(ConditionalRule(name))


for _name, _summary in SUMMARIES.items():
    POLICIES.register(_name, family=FAMILY, summary=_summary)(partial(_rule, _name))

for _name, _summary in MODELS.items():
    POLICIES.register(_name, family=FAMILY, summary=_summary)(partial(bundled_policy, _name))
