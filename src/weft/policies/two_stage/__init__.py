"""Q-networks that choose a ready task, then a device.

- `candidates`: the candidates of a decision, their features and rewards
- `choose`: choice of a candidate, by the plan or by the networks
- `q_network`: the networks
- `policy`: the policy
"""

__all__ = ["candidates", "choose", "policy", "q_network"]
