"""Training of the policies for workflows.

- `tuned_list`: weights of list scheduling, by CMA-ES
- `portfolio`: weight sets that complement one another
- `fine_tuning`: weights fitted to sample instances
- `switch`: the network of `replan-switch`, from rollouts
- `shrinkage`: the network of `search-replanning`, by regression
- `two_stage`: environment and training of `dqn` (the algorithm is `weft.learn.dqn`)
- `graph`, `graph_episodes`, `graph_module`: graph networks, by imitation and REINFORCE
- `env`: the Gymnasium environment
"""

__all__ = [
    "env",
    "fine_tuning",
    "graph",
    "graph_episodes",
    "graph_module",
    "portfolio",
    "shrinkage",
    "switch",
    "tuned_list",
    "two_stage",
]
