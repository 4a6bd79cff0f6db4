"""Workflows on a heterogeneous GPU cluster: policies and verdicts on claims.

experiment    reproduce, table, and the tables of the documentation
contenders    plans, rules, re-planning and learned policies that take part
runs          drawn points, and the evaluator that runs all contenders on them
transfer      unseen structures, with and without fine-tuning
environment   random decisions per second in the environment of `dqn`
measurements  decision times, training records, trade-offs with energy and fairness
statistics    means, paired tests, rankings
verdict       claims and aims, confirmed or not
figures       figures of the page
report        the page
"""

__all__ = [
    "contenders",
    "environment",
    "experiment",
    "figures",
    "measurements",
    "report",
    "runs",
    "statistics",
    "transfer",
    "verdict",
]
