"""Q-networks that choose a ready task, then a device.

- `decision`: the decision that is due, the names of features and rewards
- `candidates`: the candidates of a decision, their features and rewards
- `graph_features`: features from the graph and from where results are
- `choose`: choice of a candidate, by the plan or by the networks
- `dqn`: the policy `dqn`
"""

__all__ = ["candidates", "choose", "decision", "dqn", "graph_features"]
