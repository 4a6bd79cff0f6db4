"""Conditional task graphs (Debner, Krahn and Hirvisalo 2024).

experiment         reproduce, table
contenders         rules and learned policies, and the evaluator that runs them
runs               steps of the experiment
adaptation         branch probabilities that change at run time
any_graph          one policy on graphs it was not trained on
published          the environment of the published code exactly, with its habits as options
published_kernel   the same compiled
published_network  networks in both
statistics         tables of results.json
online             PPO during the run that is evaluated
page               tables of the documentation
report             the page
report_sections    further sections of the page
"""

__all__ = [
    "adaptation",
    "any_graph",
    "contenders",
    "experiment",
    "online",
    "page",
    "published",
    "published_kernel",
    "published_network",
    "report",
    "report_sections",
    "runs",
    "statistics",
]
