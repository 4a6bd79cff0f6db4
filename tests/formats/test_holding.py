"""Every writer and every field: loading returns what was saved, or `save` refuses."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

import weft
from weft import Variant, formats
from weft.errors import InvalidInput
from weft.formats import FORMATS
from weft.formats.batch.jobs import load_commands
from weft.formats.holding import equal
from weft.model import Choices, Cluster, Problem, Scenario, Topology, Workflow, Workload
from weft.model.network import Port

WRITERS = [name for name, row in FORMATS.items() if row.write and Workflow in row.holds]
BARE: dict[str, Any] = {"work": [2.0, 3.0], "src": [0], "dst": [1], "data": [10.0]}
CHOICE = Choices(
    task=np.array([0]),
    first=np.array([0, 2]),
    probability=np.array([0.5, 0.5]),
    labels=("yes", "no"),
    edge_choice=np.array([0]),
    edge_branch=np.array([0]),
)
WORKFLOWS: dict[str, dict[str, Any]] = {
    "work": {"work": [0.1 + 0.2, 5e-324]},
    "src": {"src": [1], "dst": [0]},
    "dst": {"src": [], "dst": [], "data": []},
    "data": {"data": [2.0**60]},
    "kind": {"kinds": ("cut", "sew"), "kind": [1, 0]},
    "kinds": {"kinds": ("sew_ID01",)},
    "memory": {"memory": [1.5, 1e9]},
    "cores": {"cores": [1, 3]},
    "needs": {"needs": {"licence": [1.0, 0.0]}},
    "durations": {"durations": {"cpu": [1.0, 2.0], "gpu": [np.nan, 0.1]}},
    "variants": {"variants": {"t0": (Variant("fast", seconds={"n/0": 1.0}), Variant("slow"))}},
    "choices": {"choices": CHOICE},
    "names": {"names": ("first", "second")},
    "name": {"name": "another name"},
}
"""Field -> a workflow that uses it."""

ODD_WORKFLOWS: dict[str, dict[str, Any]] = {
    "a choice without edges": {
        "choices": replace(CHOICE, edge_choice=np.array([-1]), edge_branch=np.array([0]))
    },
    "fractions of bytes": {"data": [7.5]},
    "no bytes": {"data": [0.0]},
    "no name": {"name": ""},
    "no kind": {"kinds": ("",)},
    "odd kinds": {"kinds": ("a\tb\rc\x85", "π&<'\">"), "kind": [1, 0]},
    "the least memory": {"memory": [5e-324, 0.0]},
    "long": {"work": [1e308, 1e308]},
    "files of the same name": {
        "names": ("a", "b.to.c", "a.to.b", "c"),
        "work": [1.0] * 4,
        "src": [0, 2],
        "dst": [1, 3],
        "data": [1.0, 2.0],
    },
}
NAMES = (
    *("", "\n", "\r", "\t", " ", " a ", "a b", "a_b", "π", 'a"b', "<&>", "a;b", "-1", "a\\", "\\N"),
    *(
        "a\0b",
        "a\0",
        "\x01",
        "\x7f",
        "\x85",
        "\u00a0",
        "\u2028",
        "\ufffe",
        "\ud800",
        "a/b",
        "#",
        "%",
    ),
    *("é", "e\u0301", "😀", "x" * 5000, "task_ID01", "digraph", "//", "]]>", "null"),
)

MACHINES: dict[str, Any] = {
    "speed": [1.0, 1.0],
    "names": ("n/0", "n/1"),
    "kinds": ("cpu", "cpu"),
    "nodes": ("n", "n"),
}
"""A machine of two cores, which WfFormat holds."""

CLUSTERS: dict[str, dict[str, Any]] = {
    "speed": {"speed": [2.0, 1.0]},
    "bandwidth": {"bandwidth": 5.0},
    "latency": {"latency": 0.5},
    "names": {"names": ("a", "b")},
    "kinds": {"kinds": ("cpu", "gpu")},
    "nodes": {"nodes": ("n", "m")},
    "throughput": {"throughput": {"task": [3.0, np.nan]}},
    "memory": {"memory": [8e9, 8e9]},
    "cores": {"cores": [2, 2]},
    "batch": {"batch": [1, 4]},
    "batch_curve": {"batch": [2, 2], "batch_curve": {"task": [[1.0, 1.5], [1.0, 1.25]]}},
    "setup": {"setup": {"task": [[1.0, 0.0, 0.0], [2.0, 3.0, 1.0]]}},
    "cache": {"cache": 5.0},
    "switch": {"switch": 0.25},
    "power": {"power": 100.0},
    "idle_power": {"idle_power": 10.0},
    "price": {"price": [1.0, 2.0]},
    "capacity": {"capacity": {"licence": {"n": 1.0}}},
    "network": {"nodes": ("n", "m"), "network": Topology({"n": Port(1.0), "m": Port(2.0)})},
    "name": {"name": "two cores"},
}
"""Field -> a cluster that uses it."""


def _plain(thing: Any) -> dict[str, Any]:
    """Return the fields of an object that have a meaning of their own."""
    made = {field.name: getattr(thing, field.name) for field in fields(thing)}
    if isinstance(thing, Workflow):
        del made["kind"], made["choices"]
        made["kinds"] = [thing.kinds[k] for k in thing.kind.tolist()]
        made["names"] = thing.task_names
        made |= {f"choices.{f.name}": getattr(thing.choices, f.name) for f in fields(Choices)}
        made["variants"] = repr(dict(thing.variants))  # an unknown accuracy is NaN
    if isinstance(thing, Cluster):
        made["network"] = repr(thing.network)
    if isinstance(thing, Problem):
        made = {**_plain(thing.workflow), "cluster": _plain(thing.cluster)}
        made |= {f"costs.{key}": getattr(thing, key) for key in ("work", "row", "per_work")}
    return made


def _kept_or_refused(thing: Workflow | Problem | Cluster, name: str, folder: Any) -> str | None:
    """Return the refusal; without one, loading returned the same object."""
    path = folder / f"x{FORMATS[name].suffixes[0]}"
    try:
        formats.save(thing, path)
    except InvalidInput as error:
        return str(error)
    readers = {Workflow: formats.load_workflow, Problem: formats.load, Cluster: weft.load_cluster}
    found, wanted = _plain(readers[type(thing)](path)), _plain(thing)
    if name.startswith("wfformat"):  # whole bytes
        wanted |= {key: np.ceil(wanted[key]) for key in ("data", "memory")}
    assert found.keys() == wanted.keys()
    assert [key for key in wanted if not equal(wanted[key], found[key])] == []
    return None


def test_every_field_has_a_case():
    assert set(WORKFLOWS) == {f.name for f in fields(Workflow) if f.init}
    assert set(CLUSTERS) == {f.name for f in fields(Cluster)}
    for field, given in CLUSTERS.items():
        one, other = Cluster(**MACHINES), Cluster(**MACHINES | given)
        assert not equal(getattr(one, field), getattr(other, field))


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("case", [*WORKFLOWS, *ODD_WORKFLOWS])
def test_a_workflow_is_kept_or_refused(case, name, tmp_path):
    given = (WORKFLOWS | ODD_WORKFLOWS)[case]
    refusal = _kept_or_refused(Workflow(**BARE | given), name, tmp_path)
    keeps = FORMATS[name].keeps
    if case in WORKFLOWS:
        assert (refusal is None) == (keeps is None or case in keeps), refusal


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("word", NAMES, ids=lambda word: ascii(word[:20]))
def test_a_name_is_kept_or_refused(word, name, tmp_path):
    tasks = Workflow(**BARE | {"names": (word, "z")})
    refusals = [
        _kept_or_refused(thing, name, tmp_path)
        for thing in (tasks, Workflow(**BARE, name=word), Workflow(**BARE, kinds=(word,)))
    ]
    if word == "\ud800":
        assert all(refusal and "not valid Unicode" in refusal for refusal in refusals)
    elif len(word.strip()) > 0 and word.isprintable():
        assert refusals == [None] * 3


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("field", [None, *CLUSTERS])
def test_a_problem_is_kept_or_refused(field, name, tmp_path):
    cluster = Cluster(**MACHINES | CLUSTERS.get(field, {}))
    problem = Problem.bind(Workflow(**BARE), cluster)
    refusal = _kept_or_refused(problem, name, tmp_path)
    if name.startswith("weft"):
        assert refusal is None
    elif name.startswith("wfformat"):
        kept = field in (None, "memory", "name")
        assert (refusal is None) == kept, refusal
    else:
        assert refusal.endswith("; this file holds its workflow alone")


@pytest.mark.parametrize("name", WRITERS)
def test_measured_costs_are_kept_or_refused(name, tmp_path):
    problem = Problem.bind(Workflow(**BARE), Cluster(**MACHINES))
    measured = replace(problem, per_work=2.0 * problem.per_work)
    refusal = _kept_or_refused(measured, name, tmp_path)
    assert (refusal is None) == name.startswith("weft")


@pytest.mark.parametrize("field", CLUSTERS)
@pytest.mark.parametrize("name", [n for n, row in FORMATS.items() if Cluster in row.holds])
def test_a_cluster_is_kept(field, name, tmp_path):
    assert _kept_or_refused(Cluster(**MACHINES | CLUSTERS[field]), name, tmp_path) is None


@pytest.mark.parametrize("word", NAMES, ids=lambda word: ascii(word[:20]))
@pytest.mark.parametrize("name", [n for n, row in FORMATS.items() if Cluster in row.holds])
def test_names_of_machines_are_kept_or_refused(word, name, tmp_path):
    given = {"names": (word, "z"), "kinds": (word, word), "nodes": ("n", word), "name": word}
    given |= {"throughput": {word: [3.0, 4.0]}, "capacity": {word: {"n": 1.0}}}
    given |= {"setup": {word: [[1.0, 0.0, 0.0]] * 2}}
    refusal = _kept_or_refused(Cluster(**MACHINES | given), name, tmp_path)
    assert refusal is None or word.endswith("\0") or word == "\ud800"


@pytest.mark.parametrize("suffix", [".json", ".npz"])
@pytest.mark.parametrize("word", [w for w in NAMES if w != "\ud800"], ids=lambda w: ascii(w[:20]))
def test_keys_of_variants_are_kept(word, suffix, tmp_path):
    way = Variant("fast", seconds={word: 1.0, "a": 2.0}, needs={word: 1.0, "0": 2.0})
    workflow = Workflow(**BARE, variants={"t0": (way, Variant("slow"))})
    assert _kept_or_refused(workflow, f"weft-{suffix[1:]}", tmp_path) is None


def test_wfformat_keeps_true_names_beside_identifiers(tmp_path):
    names = ("a b", "a_b", "π")
    workflow = Workflow(work=[1.0, 2.0, 3.0], src=[0], dst=[1], data=[7.0], names=names)
    path = tmp_path / "named.wfformat-1.6.json"
    formats.save(workflow, path)
    document = json.loads(path.read_text())
    assert document["schemaVersion"] == "1.6"
    tasks = document["workflow"]["specification"]["tasks"]
    assert [task["id"] for task in tasks] == ["a_b", "a_b-1", "_"]
    assert [task["name"] for task in tasks] == list(names)
    command = {"program": "sort", "arguments": ["-u"]}
    document["workflow"]["execution"]["tasks"][0]["command"] = command
    path.write_text(json.dumps(document))
    assert load_commands(path) == {"a b": ["sort", "-u"]}
    document["runtimeSystem"]["name"] = "another"  # whose keys mean something else
    path.write_text(json.dumps(document))
    assert formats.load_workflow(path).names == ("a_b", "a_b-1", "_")


def test_the_plan_of_a_problem_survives_or_the_problem_is_refused(tmp_path):
    cluster = Cluster(speed=[2.0, 0.5], nodes=("n0", "n1"), bandwidth=1.0, latency=0.5)
    problem = Problem.bind(Workflow(**BARE), cluster)
    lost = "has speed, bandwidth, latency, names of devices and kinds of devices that wfformat"
    with pytest.raises(InvalidInput, match=lost):
        formats.save(problem, tmp_path / "q.wfformat.json")


@pytest.mark.parametrize("suffix", [".json", ".npz", ".json.gz", ".npz.gz"])
def test_schedules_and_traces_are_kept(suffix, tmp_path):
    network = Cluster(**MACHINES | CLUSTERS["network"])
    for cluster in (Cluster(**MACHINES | CLUSTERS["speed"]), network):
        problem = Problem.bind(Workflow(**BARE | {"names": ("a b", "π/%")}), cluster)
        plan = weft.plan(problem, "heft")
        formats.save(plan, tmp_path / f"s{suffix}")
        found = formats.load_schedule(tmp_path / f"s{suffix}")
        assert all(equal(getattr(found, k), v) for k, v in plan.schedule.to_arrays().items())
        workload = Workload.of(
            problem, arrival=[0.0, 1.0], deadline=[3.0, np.inf], priority=[1.0, 2.0]
        )
        cancel = Scenario.of(workload, cancel=[np.inf, 1.5])
        trace = weft.simulate(workload, "eft", scenario=cancel)
        formats.save(trace, tmp_path / f"t{suffix}")
        again = formats.load_trace(tmp_path / f"t{suffix}")
        assert formats.to_text(again) == formats.to_text(trace)
        assert weft.check(again.workload, again) == []
