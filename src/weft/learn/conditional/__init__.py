"""Learning for streams of conditional jobs.

- `env`: Gymnasium environments (`weft.sim.vector.observation` makes what they observe)
- `fitting`: the best policy for one stream
- `index`: tuning of the index rule by CMA-ES
- `pair_network`: the policy for any graph, by CMA-ES
- `rollout_examples`: steps with the costs of their choices
- `rollout_imitation`: a network that imitates rollouts
- `scores`: job completion times of policies and rules
- `training`: PPO, and the recipes of the shipped policies
"""

__all__ = [
    "env",
    "fitting",
    "index",
    "pair_network",
    "rollout_examples",
    "rollout_imitation",
    "scores",
    "training",
]
