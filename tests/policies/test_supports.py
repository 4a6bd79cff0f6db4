"""`supports()` is true exactly where a simulation is not refused.

Variants are chosen before: a workload has none.
"""

import pytest

import weft
from weft.errors import Unsupported
from weft.model import Problem, WorkflowBuilder, Workload
from weft.model.check import check
from weft.policies import simulate
from weft.policies.load import list_policies

LINKS = weft.Links(bandwidth=2.0)


def _machines(**columns: object) -> weft.Cluster:
    return weft.Cluster.of([weft.Device(f"d{d}", node=f"n{d}", **columns) for d in range(2)], LINKS)


def _work(task: dict[str, object] | None = None, *, choice: bool = False) -> weft.Workflow:
    builder = WorkflowBuilder("work")
    for name in "abc":
        builder.task(name, work=1.0, kind=name, **(task or {}))
    if choice:
        builder.choice("a", {"yes": 0.5, "no": 0.5})
    builder.edge("a", "b", data=1.0, when="yes" if choice else None)
    builder.edge("a", "c", data=1.0)
    return builder.build()


def _workload(cluster: weft.Cluster, work: weft.Workflow | None = None, **columns: object):
    problem = Problem.bind(work or _work(), cluster)
    return Workload.of(problem, arrival=[0.0, 1.0], **columns)


def _two_problems() -> Workload:
    cluster = _machines()
    both = [Problem.bind(_work(), cluster), Problem.bind(_work({"memory": 1.0}), cluster)]
    return Workload.of(both, arrival=[0.0, 1.0], template=[0, 1])


NETWORK = weft.Topology.star(["n0", "n1"], 1.0)
NODES = {"speed": [1.0, 2.0], "nodes": ("n0", "n1")}
FEATURES = {
    "plain": lambda: _workload(_machines()),
    "two workflows": _two_problems,
    "network": lambda: _workload(weft.Cluster(**NODES, network=NETWORK)),
    "capacities": lambda: _workload(
        weft.Cluster(**NODES, capacity={"licence": {"n0": 1.0, "n1": 1.0}}),
        _work({"needs": {"licence": 1}}),
    ),
    "batching": lambda: _workload(_machines(batch=3, batch_curve={"*": [1.0, 1.5, 2.0]})),
    "choices": lambda: _workload(_machines(), _work(choice=True)),
    "choices on a network": lambda: _workload(
        weft.Cluster(**NODES, network=NETWORK), _work(choice=True)
    ),
    "set-ups": lambda: _workload(_machines(setup={"*": weft.Setup(1.0)}, switch=0.5)),
    "deadlines": lambda: _workload(_machines(), deadline=[4.0, 5.0], priority=[1.0, 2.0]),
    "memory": lambda: _workload(_machines(memory=2.0), _work({"memory": 1.0})),
}


@pytest.mark.parametrize("name", list_policies())
@pytest.mark.parametrize("feature", FEATURES)
def test_supports_is_true_where_a_simulation_is_not_refused(feature, name):
    workload = FEATURES[feature]()
    if name.supports(workload):
        assert check(workload, simulate(workload, name)) == []
    else:
        with pytest.raises(Unsupported):
            simulate(workload, name)
