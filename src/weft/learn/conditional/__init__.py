"""Learning for streams of conditional jobs.

- `env`: Gymnasium environments (`weft.sim.vector.observation` makes what they observe)
- `fitting`: the best policy for one stream
- `index`: tuning of the index rule by CMA-ES
- `online`: PPO during the run that is evaluated
- `pair_network`: the policy for any graph, by CMA-ES
- `peers`: sb3-contrib, torch and onnxruntime for benchmarks
- `rollout_examples`: steps with the costs of their choices
- `rollout_imitation`: a network that imitates rollouts
- `scores`: job completion times of policies and rules
- `training`: PPO, and the recipes of the shipped policies
"""

__all__ = [
    "env",
    "fitting",
    "index",
    "online",
    "pair_network",
    "peers",
    "rollout_examples",
    "rollout_imitation",
    "scores",
    "training",
]
