"""`weft train WHAT`: one subcommand per trainable, each with its own options only.

- `command`: the verb and the table of all trainables
- `conditional`: policies for conditional streams: PPO networks, pairs, rollouts, index
- `own_workflow`: a replanning policy for own workflows
- `workflow`: policies for workflows: tuned-list, portfolio, replan-switch,
  search-replanning, dqn, decima, lachesis
- `imitation`: networks of planners: deepsched
- `trainable`: what a subcommand offers, the progress bar, the loop over seeds
"""

from weft.cli.train.command import EXAMPLE, SUMMARY, TRAINABLES, add_arguments, run

__all__ = ["EXAMPLE", "SUMMARY", "TRAINABLES", "add_arguments", "run"]
