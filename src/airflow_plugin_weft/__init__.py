"""A plugin of Airflow: tasks with the longest path to the end go first.

``weight_rule="airflow_plugin_weft.UpwardRank"`` gives a task the weight of its upward rank, in
tenths of a second, by the median seconds of the tasks after it. A listener adds the duration of
every task that succeeds to weft's history ($WEFT_HISTORY, or that of the project of the folder in
which Airflow runs).
"""

import logging
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin
from airflow.task.priority_strategy import PriorityWeightStrategy

from airflow_plugin_weft import listener
from weft.runtime.costs.history import history_for_run
from weft.runtime.inputs.airflow import priority_weights, seconds_by_task

__all__ = ["UpwardRank", "WeftPlugin"]

FRESH_SECONDS = 60.0
"""Seconds for which the weights of a DAG are kept."""


class UpwardRank(PriorityWeightStrategy):  # type: ignore[misc]  # of a package without types here
    """Weights by upward rank.

    Attributes
    ----------
    seconds : task id -> seconds, in a subclass, instead of the history: Airflow stores no
        arguments of a strategy. A subclass is registered by a plugin of your own.
    """

    seconds: ClassVar[Mapping[str, float]] = {}
    _kept: ClassVar[dict[tuple[type, str], tuple[float, Any, dict[str, int]]]] = {}

    def get_weight(self, ti: Any) -> int:
        """Return the weight of a task instance."""
        dag = ti.task.get_dag()
        if dag is None:
            return int(ti.task.priority_weight)
        return self._weights(dag)[ti.task.task_id]

    def _weights(self, dag: Any) -> dict[str, int]:
        """Return the weights of a DAG; they are asked for once per task of a run."""
        key, now = (type(self), dag.dag_id), time.monotonic()
        since, known, weights = self._kept.get(key, (-FRESH_SECONDS, None, {}))
        if known is not dag or now - since >= FRESH_SECONDS:
            upstream = {name: task.upstream_task_ids for name, task in dag.task_dict.items()}
            weights = priority_weights(upstream, self.seconds or _measured(dag.dag_id))
            self._kept[key] = (now, dag, weights)
        return weights


def _measured(dag: str) -> dict[str, float]:
    try:
        history = history_for_run(True)
    except Exception as error:  # noqa: BLE001  # a scheduler must go on
        logging.getLogger(__name__).warning("weft has no history: %s", error)
        return {}
    return {} if history is None else seconds_by_task(history, dag)


class WeftPlugin(AirflowPlugin):  # type: ignore[misc]  # of a package without types here
    """Registers the strategy and the listener."""

    name = "weft"
    priority_weight_strategies: ClassVar[list[Any]] = [UpwardRank]
    listeners: ClassVar[list[Any]] = [listener]
