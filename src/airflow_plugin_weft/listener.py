"""Adds the durations of Airflow's tasks to weft's history."""

import logging
from datetime import UTC, datetime
from typing import Any

from airflow.listeners import hookimpl

from weft.runtime.costs.history import history_for_run
from weft.runtime.inputs.airflow import learn_task


@hookimpl  # type: ignore[untyped-decorator]  # of a package without types here
def on_task_instance_success(
    previous_state: Any,  # noqa: ARG001  # an argument of Airflow's hook
    task_instance: Any,
) -> None:
    """Add the duration of a task that succeeded; a failure to write only warns."""
    start = task_instance.start_date
    if start is None:
        return
    end = getattr(task_instance, "end_date", None) or datetime.now(UTC)
    try:
        history = history_for_run(True)
        if history is not None:
            seconds = (end - start).total_seconds()
            learn_task(history, task_instance.dag_id, task_instance.task_id, seconds)
    except Exception as error:  # noqa: BLE001  # the task has succeeded all the same
        logging.getLogger(__name__).warning("weft could not add to its history: %s", error)
