"""Rules, networks and rollouts for streams of conditional jobs.

- `table`: registration of the policies
- `rules`: rules that choose a task kind per unit, and the tuned index
- `index`: the index as a model
- `networks`: small networks, with a compiled forward pass
- `trained_network`: a network with its card
- `pair_network`: network over pairs of unit and kind, for any stream
- `pair_view`: the same network, decided by a `View`
- `proposer`: a network that chooses inside rollouts
- `rollout`: one-step look-ahead by simulation
- `sampled_future`: sampled futures for rollouts
- `evaluate`: greedy evaluation of networks
- `waiting`: corrections of waiting
- `view_policy`: rules that decide by a `View`
- `network_policy`: networks that decide by a `View`
"""

__all__ = [
    "evaluate",
    "index",
    "network_policy",
    "networks",
    "pair_network",
    "pair_view",
    "proposer",
    "rollout",
    "rules",
    "sampled_future",
    "table",
    "trained_network",
    "view_policy",
    "waiting",
]
