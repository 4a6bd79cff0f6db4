"""Airflow: weights by upward rank, in the real package where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from weft.runtime.costs.history import History
from weft.runtime.inputs.airflow import learn_task, priority_weights, seconds_by_task

UPSTREAM = {"load": [], "fast": ["load"], "slow": ["load"], "join": ["fast", "slow"]}

DAG = """
import json, os, sys, time
from pathlib import Path
from airflow.sdk import DAG
from airflow.providers.standard.operators.python import PythonOperator

from airflow_plugin_weft import UpwardRank

def wait(seconds):
    time.sleep(seconds)


with DAG("etl", default_args={"weight_rule": "airflow_plugin_weft.UpwardRank"}) as dag:
    made = {
        name: PythonOperator(task_id=name, python_callable=wait, op_args=[seconds])
        for name, seconds in (("load", 0.1), ("fast", 0.1), ("slow", 12.0), ("join", 0.1))
    }
    made["load"] >> [made["fast"], made["slow"]] >> made["join"]

if __name__ == "__main__":
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    found = []
    for _ in range(2):
        dag.test()
        with create_session() as session:
            rows = session.query(TaskInstance).all()
            found.append({row.task_id: row.priority_weight for row in rows})
            for row in rows:
                session.delete(row)
        UpwardRank._kept.clear()
    Path(sys.argv[1]).write_text(json.dumps(found))
"""


def test_weights_are_upward_ranks_in_tenths_of_a_second():
    # join 0.5; fast 2 + 0.5; slow 9 + 0.5; load 1 + 9.5.
    seconds = {"load": 1.0, "fast": 2.0, "slow": 9.0, "join": 0.5}
    found = priority_weights(UPSTREAM, seconds)
    assert found == {"load": 105, "fast": 25, "slow": 95, "join": 5}
    # The median of 2 and 9 is 5.5: join 5.5; fast 7.5; slow 14.5; load 20.
    found = priority_weights(UPSTREAM, {"fast": 2.0, "slow": 9.0})
    assert found == {"load": 200, "fast": 75, "slow": 145, "join": 55}
    assert priority_weights({"a": []}, {"a": 0.0}) == {"a": 1}
    assert priority_weights({"a": []}, {"a": 1e12}) == {"a": 2**31 - 1}


def test_seconds_are_medians_of_the_same_dag(tmp_path):
    history = History(tmp_path / "h.sqlite")
    for seconds in (1.0, 2.0, 9.0):
        learn_task(history, "etl", "slow", seconds)
    learn_task(history, "etl2", "slow", 70.0)
    learn_task(history, "etl", "bad", float("nan"))
    assert seconds_by_task(history, "etl") == {"slow": 2.0}


def test_a_real_airflow_weighs_and_learns(tmp_path):
    """The first run knows nothing, the second one the seconds of the first."""
    pytest.importorskip("airflow", reason="Airflow is not installed: pip install apache-airflow")
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "weft_plugin.py").write_text("from airflow_plugin_weft import WeftPlugin\n")
    (tmp_path / "etl.py").write_text(DAG)
    env = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path),
        "WEFT_HISTORY": str(tmp_path / "history.sqlite"),
    }
    for command in (["-m", "airflow", "db", "migrate"], ["etl.py", "found.json"]):
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    first, second = json.loads((tmp_path / "found.json").read_text())
    assert first == {"load": 30, "fast": 20, "slow": 20, "join": 10}
    assert second["load"] > second["slow"] > 120
    assert second["slow"] >= second["fast"] + 20  # it sleeps 11.9 s longer
    assert second["fast"] > second["join"]
