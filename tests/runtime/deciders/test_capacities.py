"""Real runs on nodes whose tasks share capacities: never more at once than the node has."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import weft
from tests.support import run_functions as f
from weft import formats
from weft.errors import InvalidInput, Unsupported
from weft.model import Scenario, Workload
from weft.model.trace import LOST
from weft.planners import PLANNERS
from weft.runtime import FakeBackend, History, LocalBackend, RayBackend, TaskFailed
from weft.runtime.deciders.backfill import next_start
from weft.runtime.deciders.plan import PlanDecider
from weft.runtime.engine.driver import Driver
from weft.runtime.engine.live_lifecycle import LiveLifecycle

HOST = weft.Cluster.host(cores=3, memory=8e9, licence=1)

nap = weft.task(f.naps)
wide = nap.options(cores=2, memory=3e9)
licensed = nap.options(needs={"licence": 1})


def most_at_once(trace, amounts):
    """Return the largest sum of amounts of tasks that ran at the same time."""
    amount = np.asarray(amounts, float)[trace.task]
    return max(
        float(amount[(trace.start <= t) & (trace.finish > t)].sum()) for t in trace.start.tolist()
    )


@pytest.fixture(scope="module")
def host():
    with LocalBackend(HOST) as backend:
        yield backend


@pytest.mark.parametrize("policy", ["heft", "anytime", "fifo", "mru", "rank-first", "eft"])
def test_tasks_start_when_their_node_has_room(host, policy):
    calls = [*(wide() for _ in range(3)), *(licensed() for _ in range(4)), nap()]
    trace = weft.run(calls, backend=host, policy=policy, history=False, seconds=0.1)
    w = trace.workload.problems[0].workflow
    assert not trace.replaced
    assert set(trace.value) <= set(HOST.names)
    assert most_at_once(trace, w.cores) <= 3
    assert most_at_once(trace, w.needs["licence"]) == 1
    assert most_at_once(trace, np.ones(len(calls))) > 1  # side by side where they can


def test_a_cluster_file_says_what_a_machine_has(tmp_path):
    file = tmp_path / "machine.toml"
    file.write_text(
        'devices = [{name = "slot", count = 2, node = "host"}]\n'
        "[nodes.host]\ncapacity = {cores = 2, memory = 4e9, licence = 1}\n"
    )
    trace = weft.run([licensed() for _ in range(3)], devices=str(file), history=False)
    assert most_at_once(trace, [1, 1, 1]) == 1
    assert trace.workload.cluster.capacity.keys() == {"cores", "memory", "licence"}


def test_needs_that_cannot_be_met_are_refused():
    with pytest.raises(InvalidInput, match="no node of 'local' has it"):
        weft.run(licensed(), devices=1, history=False)
    with pytest.raises(InvalidInput, match="needs 4 cores"):
        weft.run(nap.options(cores=4)(), devices=HOST, history=False)
    with pytest.raises(InvalidInput, match="needs of task 'naps-0' is 3"):
        weft.run(nap.options(needs=3)(), devices=HOST, history=False)
    with pytest.raises(Unsupported, match="executor does not share"):
        weft.Executor(HOST)
    batching = weft.Cluster.of([weft.Device("gpu", batch=4)])
    with pytest.raises(Unsupported, match="batches of 4"):
        LocalBackend(batching)
    with pytest.raises(InvalidInput, match="whole number"):
        weft.Cluster.host(cores=0)


def test_a_resumed_run_keeps_to_the_capacities(tmp_path):
    options = {"devices": HOST, "history": False, "run_id": "packed", "folder": tmp_path}
    calls = [nap.options(cores=2)() for _ in range(3)]
    with pytest.raises(TaskFailed):
        weft.run([*calls, weft.task(f.raises)(*calls)], **options)
    again = weft.run([*calls, weft.task(f.raises)(*calls)], on_error="continue", **options)
    assert len(again) == 4  # three from the journal, and the one that fails again
    assert most_at_once(again, [2, 2, 2, 1]) <= 3


def packed_run(workflow, *, scenario=None, planner="heft", cluster=HOST):
    """Return the trace of a run without modelled transfers on a virtual clock."""
    workload = Workload.of(weft.Problem.bind(workflow, cluster))
    life = LiveLifecycle(workload)
    backend = FakeBackend(cluster, scenario, modelled=False)
    backend.begin(workload, None)
    decider = PlanDecider(PLANNERS.create(planner))
    driver = Driver(life, backend, decider)
    driver.run()
    return driver.trace()


def test_an_overdue_task_keeps_its_room_for_the_one_that_waits():
    # The first is late by 0.05 s; the second needs all cores as soon as it ends.
    w = weft.Workflow(work=[2.0, 2.0, 0.5], src=[], dst=[], data=[], cores=[2, 3, 1])
    life = LiveLifecycle(Workload.of(weft.Problem.bind(w, weft.Cluster.host(cores=3))))
    life.arrive(0, 0.0)
    life.commit([0], 0, 0.0)
    life.begin(0, 0.0)
    turn = {1: (0, 1), 2: (1, 2)}
    assert next_start(life, turn, np.zeros(3, np.int64), 2.05) is None
    life.finish(0, 2.06)
    found = next_start(life, turn, np.zeros(3, np.int64), 2.06)
    assert found is not None
    assert found.instance == 1


@pytest.mark.parametrize(("seconds", "started"), [(3.5, True), (4.5, False)])
def test_a_task_overtakes_one_that_waits_for_room_only_if_it_ends_before(seconds, started):
    w = weft.Workflow(work=[6.0, 3.0, seconds], src=[], dst=[], data=[], cores=[2, 3, 1])
    problem = weft.Problem.bind(w, weft.Cluster.host(cores=3))
    life = LiveLifecycle(Workload.of(problem))
    life.arrive(0, 0.0)
    life.commit([0], 0, 0.0)
    life.begin(0, 0.0)  # the first runs to 6 s; the second waits for its cores
    turn = {1: (0, 1), 2: (1, 2)}
    found = next_start(life, turn, np.zeros(3, np.int64), 2.0)
    assert (found is not None and found.instance == 2) == started


def test_a_lost_device_gives_its_share_back():
    w = weft.Workflow(work=[4.0, 2.0, 2.0], src=[], dst=[], data=[], cores=[2, 1, 2])
    cluster = weft.Cluster.host(cores=3)
    workload = Workload.of(weft.Problem.bind(w, cluster))
    down = Scenario.of(workload, changes=[(1.0, 0, np.inf), (1.5, 0, 1.0)])
    trace = packed_run(w, scenario=down, cluster=cluster)
    assert (trace.status == LOST).sum() == 1
    assert np.isfinite(trace.job_finish).all()
    assert most_at_once(trace, w.cores) == 3


def test_a_new_plan_counts_what_runs():
    w = weft.Workflow(
        work=[6.0] + [1.0] * 6,
        src=[],
        dst=[],
        data=[],
        cores=[2] + [1] * 6,
        kind=[0] + [1] * 6,
        kinds=("long", "short"),
    )
    cluster = weft.Cluster.host(cores=3)
    workload = Workload.of(weft.Problem.bind(w, cluster))
    down = Scenario.of(workload, changes=[(2.5, 1, np.inf), (2.6, 1, 1.0)])
    trace = packed_run(w, scenario=down, cluster=cluster, planner="anytime")
    assert most_at_once(trace, w.cores) <= 3


def test_forecasts_are_left_out_where_tasks_wait_for_capacities(tmp_path):
    history = History(tmp_path / "history.db")
    for _ in range(2):
        trace = weft.run([wide(), wide()], devices=HOST, history=history)
    assert trace.forecast is None
    with pytest.raises(Unsupported, match="capacities of nodes that tasks wait for"):
        weft.forecast(weft.plan(trace.workload.problems[0]), history=history)
    measured = [row.seconds for row in history.tasks]
    assert 0.03 <= min(measured) <= trace.workload.problems[0].duration(0, 0) <= max(measured)


def test_a_workflow_file_with_cores_and_memory_runs_as_planned(tmp_path):
    built = weft.WorkflowBuilder("recorded")
    for i in range(6):
        built.task(f"t{i}", work=0.02 * (i + 1), cores=1 + i % 3, memory=2e9)
    built.edge("t0", "t5")
    formats.save(built.build(), tmp_path / "recorded.wfformat.json")
    w = formats.load_workflow(tmp_path / "recorded.wfformat.json")
    naps = {
        name: partial(f.sleeps, seconds=float(work))
        for name, work in zip(w.task_names, w.work, strict=True)
    }
    history = History(tmp_path / "history.db")
    for _ in range(2):
        trace = weft.run(w, functions=naps, devices=HOST, history=history)
    assert most_at_once(trace, w.cores) <= 3
    assert most_at_once(trace, w.memory) <= 8e9
    planned = weft.plan(trace.workload.problems[0], "heft")
    assert planned.makespan >= 0.14  # measured seconds: the last task takes 0.12, its parent 0.02


def test_workers_of_a_dask_cluster_have_threads_memory_and_resources():
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    options = {"dashboard_address": "127.0.0.1:0", "silence_logs": 60, "host": "127.0.0.1"}
    with (
        distributed.LocalCluster(
            1, threads_per_worker=3, resources={"licence": 1}, **options
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        calls = [nap.options(cores=2)(), licensed(), licensed(), nap()]
        trace = weft.run(calls, backend=client, history=False)
        plain = weft.run([nap() for _ in range(4)], backend=client, history=False)
    w = trace.workload.problems[0].workflow
    assert trace.workload.problems[0].contended
    assert most_at_once(trace, w.needs["licence"]) == 1
    assert most_at_once(trace, w.cores) <= 3
    assert not plain.workload.problems[0].contended


def test_ray_reserves_the_capacities_of_nodes(ray_backend):
    ray = ray_backend._ray
    before = ray.available_resources().get("CPU", 0.0)
    with pytest.raises(InvalidInput, match="which no node of Ray has"):
        weft.run(nap(), backend="ray", devices=weft.Cluster.host(cores=500), history=False)
    with RayBackend(weft.Cluster.host(cores=2)) as backend:
        trace = weft.run([nap.options(cores=2)(), nap(), nap()], backend=backend, history=False)
        assert ray.available_resources().get("CPU", 0.0) == before - 2.0
    assert most_at_once(trace, [2, 1, 1]) == 2
