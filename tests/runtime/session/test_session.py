"""`weft.Session`: the decisions of a simulation from its events alone, saved and restored."""

import json
from itertools import groupby

import numpy as np
import pytest

import weft
from tests.support.instances import topcuoglu
from weft.errors import InvalidInput
from weft.formats.native.stream_toml import load_stream
from weft.model.trace import DONE
from weft.runtime.session import session as session_module
from weft.sim.view import Block, Decision

DISTURBED = {"noise": 0.3, "slowdowns": 0.7, "failures": 0.7, "cancellations": 0.2}


def workflows():
    """Two workflows on three unlike devices, ten jobs."""
    one = topcuoglu()
    other = weft.Problem.from_arrays(
        [[4.0, 9.0, 7.0], [6.0, 5.0, 8.0], [3.0, 3.0, 9.0], [8.0, 2.0, 4.0]],
        [[0, 1], [0, 2], [1, 3], [2, 3]],
        [6.0, 2.0, 9.0, 4.0],
        bandwidth=1.0,
    )
    arrival = np.cumsum([0, 11, 3, 40, 5, 0.5, 60, 8, 7, 30])
    return weft.Workload.of([one, other], arrival=arrival, template=[0, 1, 1, 0, 0, 1, 0, 1, 0, 1])


class Feed:
    """The events of a simulated run, reported to a session moment by moment."""

    def __init__(self, trace, session, *, save=None):
        self.trace, self.session, self.save = trace, session, save
        self.workload, self.scenario = trace.workload, trace.scenario
        self.names = self.workload.cluster.names
        self.jobs, self.made = {}, []
        order = np.argsort(trace.batch, kind="stable")
        self.groups = [list(rows) for _, rows in groupby(order, key=lambda r: trace.batch[r])]

    def run(self):
        t, s = self.trace, self.scenario
        ends = [t.finish[rows[0]] for rows in self.groups]
        times = {*ends, *self.workload.arrival, *s.change_time, *s.cancel[np.isfinite(s.cancel)]}
        times = sorted(times)
        while times:
            now = min(times[0], self.session.wake)
            times = [x for x in times if x > now]
            self._finishes(now)
            for at, device, slowdown in zip(
                s.change_time, s.change_device, s.change_slowdown, strict=True
            ):
                if at == now:
                    self.session.slowed(self.names[device], slowdown, at=now)
            for job in np.flatnonzero(s.cancel == now).tolist():
                if job in self.jobs and not self._over(job, now):
                    self.session.cancelled(self.jobs[job], at=now)
            for job in np.flatnonzero(self.workload.arrival == now).tolist():
                if s.cancel[job] > now:
                    problem = self.workload.problem_of(job)
                    self.jobs[job] = self.session.arrived(problem, at=now)
            if now == self.workload.arrival[-1]:
                self.session.close()
            self._decide(now)
            if self.save is not None and len(self.made) % 5 == 4:
                self.session.save(self.save)
                self.session = weft.Session.load(self.save, self.session.policy)
        return self.made

    def _over(self, job, now):
        return self.trace.job_finish[job] <= now

    def _finishes(self, now):
        t = self.trace
        ended = [r for r in self.groups if t.finish[r[0]] == now and t.status[r[0]] == DONE]
        for rows in sorted(ended, key=lambda r: t.device[r[0]]):
            _, device, tasks, copy = self._row(rows)
            branches = [self._branch(t.job[r], t.task[r]) for r in rows]
            outcomes = dict(zip(self._tasks(rows), branches, strict=True))
            assignment = weft.Assignment(device, tasks, copy)
            self.session.finished(assignment, [outcomes[task] for task in tasks], at=now)

    def _branch(self, job, task):
        owned = np.flatnonzero(self.workload.problem_of(job).workflow.choices.task == task)
        first = self.workload.first_choice[job]
        return tuple(int(self.scenario.outcome[first + c]) for c in owned) or None

    def _decide(self, now):
        made = self.session.decide(at=now)
        self.made += [(now, a.device, a.tasks, a.copy) for a in made]

    def _tasks(self, rows):
        t = self.trace
        names = [self.workload.problem_of(t.job[r]).workflow.task_name(t.task[r]) for r in rows]
        return tuple((self.jobs[t.job[r]], name) for r, name in zip(rows, names, strict=True))

    def _row(self, rows):
        """A group as the session made it: a trace has a batch in the order of its instances."""
        t, first = self.trace, rows[0]
        device, tasks = self.names[t.device[first]], self._tasks(rows)
        same = (m[2] for m in reversed(self.made) if m[1] == device and {*m[2]} == {*tasks})
        return t.decided[first], device, next(same, tasks), bool(t.copy[first])

    def expected(self):
        """Return what the simulation decided and started."""
        return sorted(map(self._row, self.groups))


def same_decisions(workload, name, session, *, save=None, **options):
    trace = weft.simulate(workload, name, **options)
    feed = Feed(trace, session, save=save)
    made, expected = feed.run(), feed.expected()
    if len(trace.scenario.change_time) == 0:
        assert sorted(made) == expected
    else:  # what is lost before its start is in no trace
        assert set(expected) <= set(made)


def stream():
    return load_stream("conditional-paper").with_jobs(30)


def policies(workload):
    return [name for name in weft.list_policies() if name.supports(workload)]


@pytest.mark.parametrize("name", policies(workflows()))
def test_workflows(name, tmp_path):
    workload = workflows()
    for save, options in ((tmp_path / "s.json", {"noise": 0.3}), (None, DISTURBED)):
        session = weft.Session(workload.cluster, name, workflows=workload.problems, seed=4)
        same_decisions(workload, name, session, save=save, seed=4, **options)


def two_kinds(kinds):
    b = weft.WorkflowBuilder()
    for kind in kinds:
        b.task(kind, work=1.0, kind=kind)
    return weft.Problem.bind(b.build(), weft.Cluster(speed=[1.0]))


@pytest.mark.parametrize("template", [[0, 1], [1, 0]])
def test_mru_takes_kinds_in_the_order_of_the_workflows(template):
    workload = weft.Workload.of(
        [two_kinds("ab"), two_kinds("ba")], arrival=[0, 0], template=template
    )
    known = weft.Session(workload.cluster, "mru", workflows=workload.problems)
    same_decisions(workload, "mru", known)
    unknown = weft.Session(workload.cluster, "mru")
    for job in range(2):
        unknown.arrived(workload.problem_of(job), at=0.0)
    (first,) = unknown.decide(at=0.0)
    assert first.tasks == ((0, "ab"[template[0]]),)  # in the order of arrival


@pytest.mark.parametrize("name", policies(stream().draw(0)[0]))
def test_streams(name, tmp_path, monkeypatch):
    workload, scenario = stream().draw(1)
    same_decisions(workload, name, weft.Session(stream(), name), scenario=scenario)
    monkeypatch.setattr(session_module, "SPARE", 4)  # jobs leave and join all the time
    session = weft.Session(stream(), name)
    same_decisions(workload, name, session, save=tmp_path / "s.json", scenario=scenario)


def test_ended_jobs_leave():
    session = weft.Session(problem().cluster, "eft", workflows=[problem()])
    for k in range(1000):
        session.arrived(at=float(k))
        for assignment in session.decide(at=float(k)):
            session.finished(assignment, at=k + 0.5)
    assert len(session.problems) == 1
    assert len(json.dumps(session._life.state())) < 100_000
    with pytest.raises(InvalidInput, match="job 3 is unknown, or ended long ago"):
        session.cancelled(3)


def problem():
    return weft.Problem.from_arrays([[1.0, 1.5]], names=["only"], devices=["fast", "slow"])


def cascade():
    b = weft.WorkflowBuilder()
    small, large = b.task("small"), b.task("large")
    b.choice(small, {"unsure": 0.2, "sure": 0.8})
    b.edge(small, large, when="unsure")
    cluster = weft.Cluster(speed=[1.0], names=("gpu",), batch=[4])
    return weft.Problem.bind(b.build(), cluster)


def test_a_batch_with_an_outcome_for_each_task():
    session = weft.Session(cascade().cluster, "conditional-any", workflows=[cascade()])
    jobs = [session.arrived(at=0.0) for _ in range(3)]
    session.close()
    (batch,) = session.decide(at=0.0)
    assert batch == weft.Assignment("gpu", tuple((job, "small") for job in jobs))
    with pytest.raises(InvalidInput, match="ended with 'mabe'; its branches are unsure, sure"):
        session.finished(batch, ["sure", "mabe", "sure"], at=1.0)
    session.finished(batch, {0: "sure", 1: 0, 2: "sure"}, at=1.0)
    assert session.decide(at=1.0) == [weft.Assignment("gpu", ((1, "large"),))]


def test_a_lost_device_gives_its_tasks_back():
    session = weft.Session(problem().cluster, "eft", workflows=[problem()])
    session.arrived(at=0.0)
    (first,) = session.decide(at=0.0)
    assert first.device == "fast"
    session.device_lost("fast", at=0.5)
    (again,) = session.decide(at=0.5)
    assert again == weft.Assignment("slow", first.tasks)
    session.slowed("fast", at=1.0)
    session.failed(again, at=1.0)
    assert [a.device for a in session.decide(at=1.0)] == ["fast"]


def test_a_later_start_is_a_later_end():
    for start, chosen in ((0.0, "fast"), (1.0, "slow")):
        session = weft.Session(problem().cluster, "eft", workflows=[problem()])
        session.arrived(at=0.0)
        (first,) = session.decide(at=0.0)
        session.started(first, at=start)
        session.arrived(at=1.0)
        assert [a.device for a in session.decide(at=1.0)] == [chosen]


def test_a_new_workflow_and_a_clock():
    now = [0.0]
    session = weft.Session(problem().cluster, "heft-replanned", clock=lambda: now[0])
    assert session.decide() == []
    with pytest.raises(InvalidInput, match="has no workflow"):
        session.arrived()
    session.arrived(problem().workflow)
    session.arrived(problem().workflow)  # equal: the same one
    assert len(session.problems) == 1
    now[0] = 2.0
    assert {a.device for a in session.decide()} == {"fast", "slow"}
    assert session.now == 2.0


class OneAnswer:
    """A policy that always returns the same object."""

    name = "one-answer"

    def __init__(self, answer):
        self.answer = answer

    def begin(self, workload, *, seed=0):
        """Do nothing."""

    def decide(self, view):
        """Return the answer."""
        return self.answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("t0", "it must return a Decision, a Block or None"),
        (Decision(0, 2), "it chose device 2; there are devices 0 to 1"),
        (Decision(7, 0), "it chose instance 7"),
        (Block(0, 3.0), "it blocks a device until 3.0; now it is 3"),
    ],
)
def test_wrong_decisions_are_refused(answer, words):
    session = weft.Session(problem().cluster, OneAnswer(answer), workflows=[problem()])
    session.arrived(at=3.0)
    with pytest.raises(InvalidInput, match=f"policy 'one-answer': .*{words}"):
        session.decide(at=3.0)


def test_bad_reports_are_refused(tmp_path):
    session = weft.Session(problem().cluster, "eft", workflows=[problem()])
    session.arrived(at=0.0)
    (first,) = session.decide(at=0.0)
    stranger = weft.Assignment("fast", ((7, "only"),))
    for call, words in (
        (lambda: session.finished(stranger), "device 'fast' runs"),
        (lambda: session.finished(weft.Assignment("slow", first.tasks)), "'slow' runs nothing"),
        (lambda: session.device_lost("fats"), "unknown device 'fats'; did you mean 'fast'"),
        (lambda: session.arrived(at=np.nan), "finite"),
        (lambda: session.slowed("fast", 0.0), "above zero"),
        (lambda: weft.Session(3, "eft"), "a stream or a cluster"),
        (lambda: session.arrived(topcuoglu()), "bind its workflow to the session's cluster"),
        (lambda: weft.Session(problem().cluster, "eft").device_lost("fast"), "no workflow yet"),
    ):
        with pytest.raises(InvalidInput, match=words):
            call()
    session.finished(first, at=1.0)
    session.close()
    with pytest.raises(InvalidInput, match="closed"):
        session.arrived()
    path = session.save(tmp_path / "s.json")
    for text in ("{}", "[", path.read_text().replace('"numbers"', '"numberz"')):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(InvalidInput):
            weft.Session.load(tmp_path / "bad.json")


def shared():
    """Two workflows on devices that load kinds, on nodes with a capacity, ten jobs."""
    setup = {kind: weft.Setup(2.5, memory=1.0) for kind in ("a", "b")}
    rows = (("u0", 1.0, "n0"), ("u1", 2.0, "n0"), ("u2", 0.5, "n1"))
    devices = [
        weft.Device(name, speed=speed, node=node, setup=setup, cache=1.0, switch=0.5)
        for name, speed, node in rows
    ]
    cluster = weft.Cluster.of(devices, capacity={"memory": {"n0": 10.0, "n1": 8.0}})
    problems = []
    for kinds in ("abab", "bba"):
        b = weft.WorkflowBuilder(f"w{kinds}")
        for t, kind in enumerate(kinds):
            b.task(f"t{t}", work=3.0 + t, kind=kind, needs={"memory": 6.0 - t})
        for t in range(1, len(kinds)):
            b.edge("t0", f"t{t}")
        problems.append(weft.Problem.bind(b.build(), cluster))
    template = [0, 1, 1, 0, 1, 0, 0, 1, 0, 1]
    return weft.Workload.of(problems, arrival=np.arange(10) * 4.0, template=template)


@pytest.mark.parametrize("name", ["eft", "fifo", "heft-replanned"])
def test_set_ups_and_capacities(name, tmp_path, monkeypatch):
    workload = shared()
    monkeypatch.setattr(session_module, "SPARE", 3)
    for save in (None, tmp_path / "s.json"):
        session = weft.Session(workload.cluster, name, workflows=workload.problems)
        same_decisions(workload, name, session, save=save, noise=0.3)


def test_a_task_starts_when_its_node_has_room(tmp_path):
    devices = [weft.Device(name, node="n") for name in ("one", "two")]
    cluster = weft.Cluster.of(devices, capacity={"memory": {"n": 10.0}})
    b = weft.WorkflowBuilder()
    b.task("only", work=1.0, needs={"memory": 6.0})
    session = weft.Session(cluster, "eft", workflows=[b.build()])
    whole = session._life.room.amounts()
    for _ in range(2):
        session.arrived(at=0.0)
    first, second = session.decide(at=0.0)
    with pytest.raises(InvalidInput, match="'two' runs nothing"):
        session.finished(second, at=0.5)
    session = weft.Session.load(session.save(tmp_path / "s.json"))
    session.finished(first, at=1.0)
    session.finished(second, at=2.0)
    assert session._life.room.amounts() == whole


def test_the_next_in_a_queue_starts_when_the_first_is_cancelled():
    long = weft.Problem.from_arrays(
        [[1.0, np.inf], [np.inf, 1.0]], [[0, 1]], [100.0], bandwidth=1.0, devices=["fast", "slow"]
    )
    short = weft.Problem.from_arrays([[np.inf, 1.0]], bandwidth=1.0, devices=["fast", "slow"])
    session = weft.Session(long.cluster, "eft", workflows=[long, short])
    job = session.arrived(long, at=0.0)
    (first,) = session.decide(at=0.0)
    session.finished(first, at=1.0)
    session.decide(at=1.0)
    session.arrived(short, at=2.0)
    (second,) = session.decide(at=2.0)
    assert session.wake == 101.0  # the data of the first
    session.cancelled(job, at=3.0)
    session.decide(at=3.0)
    assert session.wake == np.inf
    session.finished(second, at=4.0)


@pytest.mark.parametrize("outcome", [["sure", "sure", "unsure"], {0: "sure", 2: "unsure"}])
def test_a_batch_goes_on_without_a_cancelled_job(outcome):
    session = weft.Session(cascade().cluster, "fifo", workflows=[cascade()])
    for _ in range(3):
        session.arrived(at=0.0)
    (batch,) = session.decide(at=0.0)
    session.cancelled(1, at=0.5)
    with pytest.raises(InvalidInput, match="not "):
        session.finished(weft.Assignment("gpu", (*batch.tasks, (7, "small"))), at=1.0)
    session.finished(batch, outcome, at=1.0)
    assert session.decide(at=1.0) == [weft.Assignment("gpu", ((2, "large"),))]


def test_a_task_with_a_missing_branch_runs_on():
    b = weft.WorkflowBuilder()
    b.task("both", work=1.0)
    b.choice("both", {"a": 0.5, "b": 0.5})
    b.choice("both", {"c": 0.5, "d": 0.5})
    cluster = weft.Cluster(speed=[1.0], names=("gpu",))
    session = weft.Session(cluster, "fifo", workflows=[b.build()])
    session.arrived(at=0.0)
    (only,) = session.decide(at=0.0)
    with pytest.raises(InvalidInput, match="ended with None; its branches are c, d"):
        session.finished(only, [("a",)], at=1.0)
    session.finished(only, [("a", "d")], at=1.0)


@pytest.mark.parametrize("name", ["eft", "heft-replanned"])
@pytest.mark.parametrize(
    "wrong", [{"deadline": np.nan}, {"priority": np.nan}, {"priority": np.inf}, {"at": 1e300}]
)
def test_a_refused_job_leaves_the_session_as_it_was(name, wrong):
    session = weft.Session(problem().cluster, name, workflows=[problem()])
    session.arrived(at=0.0)
    with pytest.raises(InvalidInput, match="it must be a"):
        session.arrived(**{"at": 0.0, **wrong})
    for _ in range(70):  # more than there is room for
        session.arrived(at=1.0)
    assert session.decide(at=1.0)


class OneWorkflow:
    """A policy that refuses a second workflow, and starts what is ready."""

    name = "one-workflow"

    def begin(self, workload, *, seed=0):
        """Refuse other workflows."""
        if len(workload.problems) > 1:
            raise InvalidInput("one workflow only")

    def decide(self, view):
        """Start the first ready task on an idle device."""
        idle = np.flatnonzero(view.idle)
        return Decision(int(view.ready[0]), int(idle[0])) if len(idle) else None


def test_a_refused_workflow_or_policy_leaves_the_session_as_it_was(tmp_path):
    other = weft.Problem.from_arrays([[1.0, 1.5]], names=["other"], devices=["fast", "slow"])
    session = weft.Session(problem().cluster, OneWorkflow(), workflows=[problem()])
    session.arrived(at=0.0)
    (first,) = session.decide(at=0.0)
    with pytest.raises(InvalidInput, match="one workflow only"):
        session.arrived(other, at=0.5)
    with pytest.raises(weft.WeftError, match="conditional-pi0"):
        session.replace_policy("conditional-pi0")
    assert session.policy.name == "one-workflow"
    session.arrived(at=0.5)
    (second,) = session.decide(at=0.5)
    session.save(tmp_path / "s.json")
    for assignment in (first, second):
        session.finished(assignment, at=2.0)
    empty = weft.Session(problem().cluster, OneWorkflow(), workflows=())
    empty.arrived(problem(), at=0.0)
    with pytest.raises(InvalidInput, match="one workflow only"):
        empty.arrived(other, at=0.5)
    assert len(empty.problems) == 1
