"""What `weft train` writes is usable at once, by its path, wherever a policy is taken.

Every trainable of the table is trained here, as small as its options allow.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from functools import partial

import pytest

import weft
from tests.support import run_functions as f
from tests.support.streams import two_stages
from tests.support.waiting import WAIT_LIMIT
from weft.cli.main import BAD_INPUT, DONE, main
from weft.cli.train import TRAINABLES
from weft.errors import Unsupported, WeftError
from weft.formats.native.stream_toml import load_stream
from weft.planners.planner import is_trained_planner
from weft.policies.load import as_workload
from weft.runtime import LocalBackend

pytest.importorskip("torch", reason="training needs torch: pip install 'weft-scheduling[learn]'")

PPO = "conditional --stream {stream} --policy own --samples 1"
SMALLEST = {
    "conditional": "--stream {stream} --seconds 1",
    "rollouts": "--stream {stream} --start {ppo} --rounds 1 --steps 1 --epochs 1",
    "pairs": "--samples 1",
    "index": "--stream {stream} --generations 1 --jobs 1",
    "workflow": "{problem} --policy tuned-list --seconds 0 --jobs 1",
    "tuned-list": "--seconds 1",
    "portfolio": "--sets 2 --cases 1",
    "replan-switch": "--rounds 1 --cases 1",
    "dqn": "--seconds 1",
    "search-replanning": "--cases 1",
    "decima": "--updates 1",
    "lachesis": "--updates 1",
    "deepsched": "--batches 1",
}
"""Options by subcommand; a new subcommand without an entry fails."""
PROBLEM = weft.Problem.from_arrays([[2.0, 3.0], [1.0, 4.0]], [[0, 1]], [1.0], bandwidth=1.0)


def _small(batch):
    return [(x, "unsure" if x % 2 else "sure") for x in batch]


def _large(batch):
    return [(10 * x, None) for x in batch]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("usable")
    (folder / "stream.toml").write_text(f"jobs = 60\n{two_stages()}", encoding="utf-8")
    weft.save(PROBLEM, folder / "problem.json")
    return folder


@pytest.fixture(scope="module")
def backend():
    with LocalBackend(2) as backend:
        yield backend


@pytest.fixture(scope="module")
def cascade(folder):
    stages = {"small": weft.Stage(_small), "large": weft.Stage(_large)}
    stream = load_stream(folder / "stream.toml")
    with weft.Cascade(weft.CascadeDescription(stream, stages, policy="fifo")) as cascade:
        yield cascade


def _train(line, folder, out, capsys):
    names = {"stream": "stream.toml", "problem": "problem.json", "ppo": "ppo/own"}
    words = line.format(**{key: folder / name for key, name in names.items()}).split()
    assert main(["train", *words, "--out", str(out), "--json"]) == DONE
    return json.loads(capsys.readouterr().out)["file"].removesuffix(".json")


@contextmanager
def _works_or_refuses(supported):
    """Expect the block to work, or to raise an error of one line."""
    if supported:
        yield
        return
    with pytest.raises(WeftError) as error:
        yield
    assert str(error.value).count("\n") == 0


def _supports(path, workload):
    try:
        weft.load_policy(path).begin(as_workload(workload))
    except Unsupported:
        return False
    return True


def _follow(session):
    """Run one job; return the names of its tasks."""
    session.arrived(at=0.0)
    done, now = [], 0.0
    while assignments := session.decide(at=now):
        now += 1.0
        for assignment in assignments:
            (task,) = (name for _, name in assignment.tasks)
            session.finished(assignment, "unsure" if task == "small" else None, at=now)
            done.append(task)
    return done


def _call(words, supported, capsys):
    """Call a verb, which refuses in one line what is not supported; return its output."""
    assert main(words) == (DONE if supported else BAD_INPUT)
    shown = capsys.readouterr()
    assert supported or len(shown.err.strip().splitlines()) == 1
    return json.loads(shown.out) if supported else None


def _compare_and_run(path, supported, backend):
    with _works_or_refuses(supported):
        found = weft.compare(PROBLEM, path)
        assert len(found.traces) == 1
        assert all(weft.check(PROBLEM, trace) == [] for trace in found.traces.values())
    run = partial(weft.run, f.plus(f.square(3), 1), backend=backend, history=False)
    with _works_or_refuses(is_trained_planner(path) or _supports(path, run().workload)):
        trace = run(policy=path)
        assert (trace.results, trace.replaced) == ({"plus-0": 10}, "")
        assert weft.check(trace.workload, trace) == []


def _use_for_workflows(path, supported, folder, capsys):
    with _works_or_refuses(supported):
        assert weft.check(PROBLEM, weft.simulate(PROBLEM, path)) == []
    with _works_or_refuses(supported):
        session = weft.Session(PROBLEM.cluster, path, workflows=[PROBLEM])
        assert _follow(session) == ["t0", "t1"]
    file = str(folder / "problem.json")
    _call(["simulate", file, "--policy", path, "--json"], supported, capsys)
    _call(["compare", file, "--policies", path, "--json"], supported, capsys)


def _use_for_streams(path, supported, stream, folder, capsys):
    workload, scenario = stream.draw(1)
    with _works_or_refuses(supported):
        assert weft.check(workload, weft.simulate(workload, path, scenario=scenario)) == []
    with _works_or_refuses(supported):
        assert _follow(weft.Session(stream, path)) == ["small", "large"]
    file = str(folder / "stream.toml")
    words = ["evaluate", path, "--stream", file, "--seeds", "1", "--json"]
    found = _call(words, supported, capsys)
    assert not supported or [row["policy"] for row in found["rows"]] == [path]


def _use_in_cascade(path, supported, cascade):
    before = cascade.policy
    with _works_or_refuses(supported):
        cascade.use(path)
    assert cascade.policy == (weft.load_policy(path).name if supported else before)
    assert [cascade.submit(x).result(WAIT_LIMIT) for x in (2, 3)] == [2, 30]
    assert {event.kind for event in cascade.events} <= {"policy"}


@pytest.mark.parametrize("name", TRAINABLES)
def test_a_trained_file_is_a_policy_everywhere(name, folder, backend, cascade, tmp_path, capsys):
    if name == "rollouts":
        _train(PPO, folder, folder / "ppo", capsys)
    path = _train(f"{name} {SMALLEST[name]}", folder, tmp_path, capsys)
    if is_trained_planner(path):
        with _works_or_refuses(supported=False):
            weft.load_policy(path)
        assert weft.check(PROBLEM, weft.plan(PROBLEM, path).schedule) == []
        _compare_and_run(path, True, backend)
        return
    stream = load_stream(folder / "stream.toml")
    workflows, streams = _supports(path, PROBLEM), _supports(path, stream)
    assert workflows or streams
    _compare_and_run(path, workflows, backend)
    _use_for_workflows(path, workflows, folder, capsys)
    _use_for_streams(path, streams, stream, folder, capsys)
    _use_in_cascade(path, streams, cascade)
