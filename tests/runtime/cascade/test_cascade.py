"""`weft.Cascade`: every accepted request is answered once, or fails with a clear error."""

import asyncio
import hashlib
import io
import json
import os
import runpy
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

import weft
from tests.support.streams import FAST, two_stages
from tests.support.waiting import WAIT_LIMIT, wait_until
from weft.cli.main import main
from weft.errors import InvalidInput, UnknownName, WeftError
from weft.formats.native.stream_toml import load_stream, read_stream_toml
from weft.runtime.cascade.description import load_cascade
from weft.runtime.cascade.request import DeadlineMissed, StageFailed
from weft.runtime.engine.failure import PolicyReplaced
from weft.runtime.service.queue import QueueFull

pytestmark = pytest.mark.filterwarnings("ignore::weft.formats.native.stream_toml.UnstableLoad")
"""Measured streams have the arrivals of a test, which come all at once."""

EXAMPLE = Path(__file__).parents[3] / "examples" / "cascade"
SURENESS = ("sure", "unsure")

STAGES = """
import os, time
from pathlib import Path

def load(setting):
    return setting

def small(setting, batch):
    assert setting.threads == {"fast": 2, "slow": 1}[setting.name]
    for x in batch:
        if isinstance(x, dict):
            while not Path(x["until"]).exists():
                time.sleep(0.002)
    return [(x, "unsure" if x in UNSURE or isinstance(x, int) and x % 3 == 0 else "sure")
            for x in batch]

UNSURE = ("raise", "exit", "sleep", "outcome", "pid")

def large(batch):
    if "raise" in batch:
        raise ValueError("this is poison")
    if "exit" in batch:
        os._exit(3)
    if "sleep" in batch:
        time.sleep(600)
    found = [(os.getpid() if x == "pid" else 10 * x, None) for x in batch if x != "outcome"]
    return found
"""

STREAM = two_stages(f"""{FAST}batch_curve = 0.2
[[units]]
name = "slow"
coefficient = 2.0
batch = 4
""")

CASCADE = """
stream = "stream.toml"
policy = "fifo"
queue = 40
[stages.small]
call = "cascade_test_stages:small"
setup = "cascade_test_stages:load"
[stages.large]
call = "cascade_test_stages:large"
timeout = "1000 s"
[units.fast]
threads = 2
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cascade")
    (folder / "cascade_test_stages.py").write_text(STAGES)
    (folder / "stream.toml").write_text(STREAM)
    (folder / "cascade.toml").write_text(CASCADE)
    return folder


@pytest.fixture(scope="module")
def shared(folder):
    with weft.Cascade(folder / "cascade.toml") as cascade:
        yield cascade


def expected(x):
    return 10 * x if x % 3 == 0 else x


def test_outcomes_decide_which_stages_a_request_takes(shared):
    futures = [shared.submit(x) for x in range(30)]
    assert [f.result(WAIT_LIMIT) for f in futures] == [expected(x) for x in range(30)]


def test_awaited_in_asyncio(shared):
    async def both():
        return await asyncio.gather(*(asyncio.wrap_future(shared.submit(x)) for x in (3, 4)))

    assert asyncio.run(both()) == [30, 4]


def test_poison_fails_alone(shared):
    futures = [shared.submit(x) for x in (3, "raise", 6, 9, 12, 15)]
    with pytest.raises(StageFailed, match="stage 'large' failed: ValueError: this is poison"):
        futures[1].result(WAIT_LIMIT)
    good = [f.result(WAIT_LIMIT) for f in futures if f is not futures[1]]
    assert good == [30, 60, 90, 120, 150]


def test_too_slow_request_fails_alone(folder):
    short = folder / "short.toml"
    short.write_text(CASCADE.replace("1000 s", "20 s"))
    with weft.Cascade(short) as cascade:
        futures = [cascade.submit(x) for x in (3, "sleep", 6)]
        with pytest.raises(DeadlineMissed, match="stage 'large' took longer than 20 s"):
            futures[1].result(WAIT_LIMIT)
        assert [futures[0].result(WAIT_LIMIT), futures[2].result(WAIT_LIMIT)] == [30, 60]


def test_request_that_ends_processes_fails_alone(shared):
    futures = [shared.submit(x) for x in (3, "exit", 6)]
    with pytest.raises(StageFailed, match=r"3 units died with it: .* exit code 3"):
        futures[1].result(WAIT_LIMIT)
    assert [futures[0].result(WAIT_LIMIT), futures[2].result(WAIT_LIMIT)] == [30, 60]


def test_wrong_number_of_results_fails_one(shared):
    futures = [shared.submit(x) for x in (3, "outcome", 6)]
    with pytest.raises(StageFailed, match="returned 0 pairs for 1 inputs"):
        futures[1].result(WAIT_LIMIT)
    assert [futures[0].result(WAIT_LIMIT), futures[2].result(WAIT_LIMIT)] == [30, 60]


def test_killed_unit_loses_nothing(shared):
    before = shared.counts["units lost"]
    for _ in range(3):
        os.kill(shared.submit("pid").result(WAIT_LIMIT), signal.SIGKILL)
        futures = [shared.submit(x) for x in range(12)]
        assert [f.result(WAIT_LIMIT) for f in futures] == [expected(x) for x in range(12)]
    wait_until(lambda: shared.counts["units lost"] >= before + 3)


def test_deadline_passes_while_a_unit_is_busy(shared, tmp_path):
    gate = {"until": str(tmp_path / "gate")}
    held = shared.submit(gate, timeout=0.05)
    with pytest.raises(DeadlineMissed, match=r"not answered within 0\.05 s"):
        held.result(WAIT_LIMIT)
    (tmp_path / "gate").touch()
    assert shared.submit(3).result(WAIT_LIMIT) == 30


def test_cancelled_requests_do_not_hinder_others(shared, tmp_path):
    gate = {"until": str(tmp_path / "gate")}
    held = [shared.submit(gate) for _ in range(12)]
    waiting = [shared.submit(x) for x in range(6)]
    assert all(f.cancel() for f in [held[0], held[11], *waiting[:3]])
    (tmp_path / "gate").touch()
    assert [f.result(WAIT_LIMIT) for f in held[1:11]] == [gate] * 10
    assert [f.result(WAIT_LIMIT) for f in waiting[3:]] == [30, 4, 5]


def test_full_queue_refuses(shared, tmp_path):
    gate = {"until": str(tmp_path / "gate")}
    held = [shared.submit(gate) for _ in range(40)]
    with pytest.raises(QueueFull, match="40 requests are open"):
        shared.submit(1)
    (tmp_path / "gate").touch()
    assert [f.result(WAIT_LIMIT) for f in held] == [gate] * 40
    assert shared.submit(1).result(WAIT_LIMIT) == 1


def test_bad_timeout_is_refused(shared):
    with pytest.raises(InvalidInput, match="timeout of a request is 0"):
        shared.submit(1, timeout=0)
    for priority in ("high", float("nan")):  # one in the queue would end the cascade
        with pytest.raises(InvalidInput, match="priority"):
            shared.submit(1, priority=priority)


class Fails:
    """A policy that decides as a rule does, then fails."""

    name = "fails"

    def __init__(self, good):
        self.good, self.rule = good, weft.load_policy("eft")

    def begin(self, workload, *, seed=0):
        self._begun = workload
        self.rule.begin(workload, seed=seed)

    def decide(self, view):
        self.good -= 1
        if self.good < 0:
            raise RuntimeError("no idea")
        return self.rule.decide(view)


class Waits(Fails):
    """A policy that never decides."""

    name = "waits"

    def decide(self, view):
        return None


@pytest.mark.parametrize(
    ("policy", "why"), [(Fails(7), "no idea"), (Waits(0), "waits, though nothing runs")]
)
def test_failing_policy_is_replaced_and_nothing_is_lost(folder, policy, why):
    def served():
        with weft.Cascade(folder / "cascade.toml", policy=policy) as cascade:
            return [f.result(WAIT_LIMIT) for f in [cascade.submit(x) for x in range(30)]]

    with pytest.warns(PolicyReplaced, match=why):
        answers = served()
    assert answers == [expected(x) for x in range(30)]


def test_shadow_is_asked_and_not_followed(folder):
    with weft.Cascade(folder / "cascade.toml", shadow="eft") as cascade:
        assert [cascade.submit(x).result(WAIT_LIMIT) for x in (1, 3)] == [1, 30]
        report = cascade.compared()
    assert report.policy == "eft"
    assert report.asked >= 3


def test_all_that_was_accepted_is_answered_before_the_end(folder):
    before = threading.active_count()
    cascade = weft.Cascade(folder / "cascade.toml", policy="conditional-any")
    futures = [cascade.submit(x) for x in range(40)]
    cascade.close()
    assert [f.result(0) for f in futures] == [expected(x) for x in range(40)]
    with pytest.raises(WeftError, match="closed"):
        cascade.submit(1)
    assert threading.active_count() <= before


def test_exception_in_a_with_block_does_not_wait_for_open_requests(folder, tmp_path):
    def interrupted():
        with weft.Cascade(folder / "cascade.toml", policy="fifo") as cascade:
            futures.append(cascade.submit({"until": str(tmp_path / "never")}))
            raise KeyboardInterrupt

    futures = []
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises(WeftError, match="it was closed"):
        futures[0].result(0)


def test_functions_given_in_python(folder):
    stream = load_stream(folder / "stream.toml")
    stages = {
        "small": weft.Stage(lambda batch: [(x + 1, x % 2) for x in batch]),
        "large": weft.Stage(lambda batch: [(-x, None) for x in batch]),
    }
    with weft.Cascade(weft.CascadeDescription(stream, stages, policy="fifo")) as cascade:
        assert [cascade.submit(x).result(WAIT_LIMIT) for x in (2, 3)] == [-3, 4]


def test_stage_that_cannot_be_loaded_is_refused(folder):
    stream = load_stream(folder / "stream.toml")
    stages = {"small": weft.Stage("no_such_module:f"), "large": weft.Stage("math:sqrt")}
    with pytest.raises(WeftError, match=r"stage 'small' cannot be loaded on unit .*no_such_module"):
        weft.Cascade(weft.CascadeDescription(stream, stages, policy="fifo"))


def fragile(mark, fault, *, weak=("fast", "slow")):
    """Return two stages that weak units cannot load any more once a file is there."""

    def load(setting):
        if setting.name in weak and mark.exists():
            fault()
        return setting.name

    def small(name, batch):
        for x in batch:
            while isinstance(x, str) and not Path(x).exists():
                time.sleep(0.002)
        return [(x, "unsure" if x == 3 else "sure") for x in batch]

    return {
        "small": weft.Stage(small, setup=load),
        "large": weft.Stage(lambda batch: [(10 * x, None) for x in batch]),
    }


def raises():
    raise OSError("the disk is gone")


def kill(cascade, unit):
    """Kill the process of a unit."""
    os.kill(cascade._backend._workers[unit].pid, signal.SIGKILL)


@pytest.mark.filterwarnings("ignore:unit '.*' stays out")
@pytest.mark.parametrize(
    ("fault", "cause"),
    [(raises, "stage 'small': .*the disk is gone"), (lambda: os._exit(3), ".*exit code 3")],
)
def test_a_cascade_without_units_fails_what_waits_and_refuses_more(folder, tmp_path, fault, cause):
    stages = fragile(tmp_path / "mark", fault)
    description = weft.CascadeDescription(load_stream(folder / "stream.toml"), stages)
    message = f"no unit is left: 'fast': {cause}.*; 'slow': {cause}"
    with weft.Cascade(description) as cascade:
        futures = [cascade.submit(str(tmp_path / "never")) for _ in range(9)]
        (tmp_path / "mark").touch()
        for unit in (0, 1):
            kill(cascade, unit)
        for future in futures:
            with pytest.raises(WeftError, match=message):
                future.result(WAIT_LIMIT)
        with pytest.raises(WeftError, match=message):
            cascade.submit(1)


@pytest.mark.filterwarnings("ignore:unit 'fast' stays out", "ignore:the process of device 'slow'")
def test_a_unit_whose_process_does_not_start_is_out_too(folder, tmp_path, monkeypatch):
    stages = fragile(tmp_path / "mark", raises, weak=("fast",))
    description = weft.CascadeDescription(load_stream(folder / "stream.toml"), stages)
    with weft.Cascade(description) as cascade:
        (tmp_path / "mark").touch()
        kill(cascade, 0)
        wait_until(lambda: is_out(cascade, 0))
        monkeypatch.setattr("weft.runtime.backends.local.process.BOOTSTRAP", "raise SystemExit(5)")
        future = cascade.submit(str(tmp_path / "never"))
        kill(cascade, 1)
        with pytest.raises(WeftError, match=r"no unit is left: 'fast': .*; 'slow': .*exit code 5"):
            future.result(WAIT_LIMIT)


def is_out(cascade, unit):
    """Return whether a unit takes no work any more."""
    return bool(cascade._runner.units[unit].out)


@pytest.mark.filterwarnings("ignore:unit 'fast' stays out")
def test_requests_of_a_stage_that_no_unit_can_run_fail(tmp_path):
    text = STREAM.replace('name = "large"', 'name = "large"\nmemory = "2 GB"')
    text = text.replace('name = "fast"', 'name = "fast"\nmemory = "4 GB"')
    text = text.replace('name = "slow"', 'name = "slow"\nmemory = "1 GB"')
    stages = fragile(tmp_path / "mark", raises, weak=("fast",))
    stream = read_stream_toml(text, name="memory")
    with weft.Cascade(weft.CascadeDescription(stream, stages)) as cascade:
        assert [cascade.submit(x).result(WAIT_LIMIT) for x in (1, 3)] == [1, 30]
        (tmp_path / "mark").touch()
        kill(cascade, 0)
        message = "stage 'large' failed: no unit is left that can run it: 'fast': .*disk is gone"
        for _ in range(2):
            with pytest.raises(StageFailed, match=message):
                cascade.submit(3).result(WAIT_LIMIT)
        assert [cascade.submit(x).result(WAIT_LIMIT) for x in (1, 2)] == [1, 2]


def test_a_unit_that_serves_between_its_deaths_is_never_out(folder, tmp_path):
    stages = fragile(tmp_path / "mark", raises)
    stream = read_stream_toml(two_stages(), name="one")
    with weft.Cascade(weft.CascadeDescription(stream, stages)) as cascade:
        for _ in range(4):
            kill(cascade, 0)
            assert cascade.submit(3).result(WAIT_LIMIT) == 30


@pytest.mark.parametrize(
    ("old", "new", "kind", "message"),
    [
        ("[stages.large]", "[stages.larg]", UnknownName, "'larg' is no task .*'large'"),
        ("[units.fast]", "[units.fats]", UnknownName, "'fats' is no unit .*'fast'"),
        ("threads = 2", "threads = 0", InvalidInput, "threads is 0"),
        ("threads = 2", "cores = [9999]", InvalidInput, "cores has 9999"),
        ("threads = 2", "threads = 0x1" + "0" * 5000, InvalidInput, "whole number, 1 or more"),
        ("queue = 40", "queue = 0", InvalidInput, "queue is 0"),
        ("queue = 40", "queu = 4", UnknownName, "'queu'"),
        ("_stages:large", "_stages", InvalidInput, "write module:function"),
        ('"1000 s"', '"0 s"', InvalidInput, "above zero"),
    ],
)
def test_bad_files_are_refused_in_one_line(folder, tmp_path, old, new, kind, message):
    (tmp_path / "stream.toml").write_text(STREAM)
    (tmp_path / "cascade.toml").write_text(CASCADE.replace(old, new, 1))
    with pytest.raises(kind, match=message):
        load_cascade(tmp_path / "cascade.toml")


def test_measured_stream_has_known_numbers(folder, tmp_path):
    from weft.runtime.cascade.measured import Measurements

    measured = Measurements(load_stream(folder / "stream.toml"))
    for size, seconds in ((1, 0.010), (2, 0.014), (2, 0.016), (8, 0.045)):
        measured.batch("fast", "small", size, seconds)
    for label in ["unsure"] * 19 + ["sure"] * 80:
        measured.branch("small", label)
    for k in range(101):
        measured.arrival(0.5 + 0.02 * k)
    path = tmp_path / "measured.toml"
    path.write_text(measured.to_toml())
    stream = load_stream(path)
    problem = stream.problem
    assert problem.workflow.names == ("small", "large")
    assert problem.duration(0, 0) == pytest.approx(0.010)
    assert problem.duration(0, 1) == pytest.approx(0.002)  # as in the file: it was not measured
    assert problem.duration(1, 0) == pytest.approx(0.004)
    growth = problem.cluster.batch_growth(["small", "large"])
    # Over the times of the file (1, 1.2, 1.4, ...) batches of 2 and 8 take 1.25 and 1.875 times as
    # long, so batches of 5 take 1.5625 times: 2.8125. A batch of 6 saves 1.2 % per task, 8 nothing.
    assert growth[0, 0, [0, 1, 4]] == pytest.approx([1.0, 1.5, 2.8125])
    workload = weft.Workload.of(problem)
    assert workload.batch_limit[:, 0].tolist() == [5, 8]
    whole = read_stream_toml(measured.to_toml(whole=True), name="whole").problem.cluster
    assert whole.batch_growth(["small"])[0, 0, 7] == pytest.approx(4.5)  # 45 ms over 10 ms
    assert growth[1, 0, 7] == pytest.approx(2.4)
    assert stream.arrivals.process == "normal"
    assert stream.arrivals.gap == pytest.approx(0.02)
    assert stream.drift[0].probability[0] == pytest.approx([0.193, 0.807])


@pytest.mark.parametrize(
    ("time", "message"),
    [
        ('{fast = "1 ms"}', "key 'slow' is missing in tasks.0..time"),
        ('{fast = "1 ms", slow = "2 ms", other = "3 ms"}', "unknown key 'other'"),
        ('{fast = "1 ms", slow = "-2 ms"}', "finite time, zero or more"),
    ],
)
def test_times_per_unit_are_complete(time, message):
    with pytest.raises(InvalidInput, match=message):
        read_stream_toml(STREAM.replace('"1 ms"\n[[tasks]]', f"{time}\n[[tasks]]"), name="x")


def test_measured_while_it_runs(folder, tmp_path):
    with weft.Cascade(folder / "cascade.toml") as cascade:
        for x in range(30):
            cascade.submit(x).result(WAIT_LIMIT)
    assert cascade.measured.arrivals == 30
    assert cascade.measured.branches["small", "unsure"] == 10
    (tmp_path / "m.toml").write_text(cascade.measured.to_toml())
    with weft.Cascade(folder / "cascade.toml", stream=tmp_path / "m.toml") as again:
        assert again.submit(3).result(WAIT_LIMIT) == 30


def test_measurements_start_again(folder):
    with weft.Cascade(folder / "cascade.toml") as cascade:
        for x in range(9):
            cascade.submit(x).result(WAIT_LIMIT)
        before = cascade.measured
        cascade.measure_again()
        for x in range(6):
            cascade.submit(x).result(WAIT_LIMIT)
    assert (before.arrivals, cascade.measured.arrivals) == (9, 6)
    assert cascade.measured.branches["small", "unsure"] == 2
    assert cascade.proposal == ""


def test_over_http_with_token_json_bytes_and_errors(folder):
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("starlette")
    from weft.runtime.web.cascade import CascadeApp
    from weft.runtime.web.http import AccessControl
    from weft.runtime.web.limits import Token

    stream = load_stream(folder / "stream.toml")
    stages = {
        "small": weft.Stage(lambda batch: [(x, "unsure" if x == 0 else "sure") for x in batch]),
        "large": weft.Stage(lambda batch: [(1 / x, None) for x in batch]),
    }
    token = Token(hashlib.sha256(b"secret").hexdigest())

    async def answers(cascade):
        app = AccessControl(CascadeApp(cascade, max_body=100), token)
        head = {"authorization": "Bearer secret", "content-type": "application/json"}
        raw = {**head, "content-type": "application/octet-stream"}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://x", headers=head
        ) as client:
            found = [
                await client.post("/v1/requests", content="[4, 5]"),
                await client.post("/v1/requests", content=b"\x00\x01", headers=raw),
                await client.post("/v1/requests", content="0"),
                await client.post("/v1/requests", content="{"),
                await client.post("/v1/requests?timeout=1e-320", content="1"),
                await client.post("/v1/requests", content="1" * 101),
                await client.post("/v1/other", content="1"),
                await client.post("/v1/requests", content="1", headers={"authorization": "no"}),
            ]
        return [(r.status_code, r.content) for r in found]

    with weft.Cascade(weft.CascadeDescription(stream, stages, policy="fifo")) as cascade:
        found = asyncio.run(answers(cascade))
    assert found[:2] == [(200, b'{"value": [4, 5]}'), (200, b"\x00\x01")]
    assert [status for status, _ in found[2:]] == [422, 400, 400, 413, 404, 401]
    assert b"ZeroDivisionError" in found[2][1]


def test_policy_is_switched_over_http(folder):
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("starlette")
    from weft.runtime.web.cascade import CascadeApp

    async def answers(cascade):
        transport = httpx.ASGITransport(CascadeApp(cascade))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            bodies = [
                {"policy": "conditional-any", "stream": "stream.toml"},
                {"policy": "conditional-pi4"},
                {"policy": "fifo", "stream": "../stream.toml"},
                {"polic": "fifo"},
                {"policy": 3},
                {"policy": "a\0"},
                {"policy": "\ud800"},
                {"policy": "fifo", "stream": "a/\0.toml"},
                {"policy": "x" * 5000},
            ]
            texts = [json.dumps(body) for body in bodies]  # httpx cannot encode a lone surrogate
            found = [await client.post("/v1/policy", content=text) for text in texts]
            return [*found, await client.get("/v1/status")]

    with weft.Cascade(folder / "cascade.toml") as cascade:
        *switched, status = asyncio.run(answers(cascade))
    assert [r.status_code for r in switched] == [200] + [400] * 8
    assert "not in the folder of the cascade file" in switched[2].json()["error"]
    lines = [r.json()["error"] for r in switched[5:]]
    assert all(line.isprintable() for line in lines), lines
    assert lines[0] == "policy or stream 'a\\x00' is no name of a file (embedded null byte)"
    state = status.json()["value"]
    assert (state["policy"], state["proposal"]) == ("conditional-any", "")
    assert [event["kind"] for event in state["events"]] == ["policy"]


def test_lines_of_json(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO('1\n\n3\n"raise"\nnonsense\n'))
    measured = tmp_path / "measured.toml"
    where = str(folder / "cascade.toml")
    assert main(["cascade", "serve", where, "--stdin", "--measured", str(measured)]) == 0
    answers = {a["line"]: a for a in map(json.loads, capsys.readouterr().out.splitlines())}
    assert answers[1] == {"line": 1, "value": 1}
    assert answers[3] == {"line": 3, "value": 30}
    assert "this is poison" in answers[4]["error"]
    assert "Expecting value" in answers[5]["error"]
    assert load_stream(measured).problem.workflow.names == ("small", "large")


def test_measuring_from_lines(folder, tmp_path, capsys):
    lines, out = tmp_path / "lines", tmp_path / "measured.toml"
    lines.write_text("1\n2\n3\n")
    where = str(folder / "cascade.toml")
    assert main(["cascade", "measure", where, str(lines), "-o", str(out), "--json"]) == 0
    answered = json.loads(capsys.readouterr().out)["answered"]
    assert answered == 40 * (1 + 2 + 4 + 8 + 16)
    stream = load_stream(out)
    assert stream.drift[0].probability[0] == pytest.approx([1 / 3, 2 / 3], abs=0.01)
    assert stream.arrivals.gap == 0.004  # that of the file: a probe has no arrivals of its own
    lines.write_text("nonsense\n")
    assert main(["cascade", "measure", where, str(lines), "-o", str(out)]) == 2
    assert "line 1 is not valid JSON" in capsys.readouterr().err


def test_networks_of_the_example_answer(monkeypatch):
    pytest.importorskip("onnxruntime", reason="not installed: pip install 'weft-scheduling[learn]'")
    monkeypatch.syspath_prepend(str(EXAMPLE))
    images, shape = runpy.run_path(str(EXAMPLE / "shapes.py"))["draw"](200, seed=7)
    with weft.Cascade(EXAMPLE / "cascade.toml", policy="fifo") as cascade:
        futures = [cascade.submit(image.tobytes()) for image in images]
        answers = [future.result(WAIT_LIMIT)["shape"] for future in futures]
        assert cascade.submit(images[0].tolist()).result(WAIT_LIMIT)["shape"] == answers[0]
    names = ("circle", "square", "triangle", "cross")
    right = sum(names[s] == a for s, a in zip(shape, answers, strict=True))
    assert right >= 150  # noisy images; guessing is right for 50
    seen = cascade.measured.branches
    assert all(seen[task, label] > 5 for task in ("small", "medium") for label in SURENESS)


def test_policy_is_switched_while_requests_wait(folder, tmp_path):
    gate = {"until": str(tmp_path / "gate")}
    with weft.Cascade(folder / "cascade.toml") as cascade:
        futures = [cascade.submit(gate) for _ in range(20)]
        futures += [cascade.submit(x) for x in range(10)]
        cascade.use("conditional-any", stream=folder / "stream.toml")
        assert cascade.policy == "conditional-any"
        (tmp_path / "gate").touch()
        answers = [f.result(WAIT_LIMIT) for f in futures]
    assert answers == [gate] * 20 + [expected(x) for x in range(10)]
    assert [(e.kind, e.text) for e in cascade.events] == [("policy", "'conditional-any' decides")]


@pytest.mark.parametrize(
    ("policy", "stream", "message"),
    [
        ("conditional-pi4", None, "is for 4 units"),
        ("nonsense", None, "unknown policy 'nonsense'"),
        ("fifo", "conditional-paper", "other tasks or units than the session"),
    ],
)
def test_policy_that_does_not_fit_is_refused_and_the_old_one_goes_on(
    shared, policy, stream, message
):
    with pytest.raises(WeftError, match=message):
        shared.use(policy, stream=stream)
    assert shared.policy == "fifo"
    assert shared.submit(3).result(WAIT_LIMIT) == 30


class BeginsOnce(Fails):
    """A policy that cannot begin in the cascade, after it did elsewhere."""

    name = "begins once"

    def begin(self, workload, *, seed=0):
        if threading.current_thread().name == "weft-cascade":
            raise RuntimeError("not here")
        super().begin(workload, seed=seed)


def test_policy_that_fails_to_begin_leaves_the_old_one(shared):
    with pytest.raises(RuntimeError, match="not here"):
        shared.use(BeginsOnce(100))
    assert shared.policy == "fifo"
    assert shared.submit(3).result(WAIT_LIMIT) == 30


def test_drift_is_proposed_once_and_named(folder):
    from weft.runtime.cascade.drift import StreamDrift
    from weft.runtime.cascade.measured import Measurements

    stream = load_stream(folder / "stream.toml")
    measured, drift = Measurements(stream), StreamDrift(stream, window=100)

    def requests(count, gap, seconds, unsure):
        for k in range(count):
            measured.arrival(measured.arrivals * gap)
            measured.batch("fast", "small", 2, seconds)
            measured.branch("small", "unsure" if k < unsure * count else "sure")

    requests(99, 0.004, 0.0012, 0.3)  # as in the stream: 1 ms, and a fifth more for the second
    assert not drift.due(measured)
    requests(1, 0.004, 0.0012, 0)
    assert drift.due(measured)
    assert drift.check(measured) == ""
    assert not drift.due(measured)
    requests(100, 0.004, 0.0024, 0.3)
    assert drift.check(measured) == "'small' takes 2.00 times as long on 'fast' as in the stream"
    requests(100, 0.004, 0.0012, 0.6)
    assert drift.check(measured) == "'small' ends with 'unsure' 60% of the time, not 30%"
    measured.forget_arrivals()
    drift = StreamDrift(stream, window=100)
    drift.check(measured)
    requests(100, 0.002, 0.0012, 0.3)
    assert drift.check(measured) == "requests come 2.00 times as often as in the stream"


def test_drift_becomes_a_proposal_and_one_event(folder):
    with weft.Cascade(folder / "cascade.toml") as cascade:
        cascade._drift.window = 30
        for x in range(1, 120):
            cascade.submit(3 * x).result(WAIT_LIMIT)  # all are unsure
    assert "'small' ends with" in cascade.proposal or "times as" in cascade.proposal
    assert [e.kind for e in cascade.events] == ["drift"]


def test_tuning_writes_a_policy_that_serves(folder, tmp_path, capsys):
    where, out = str(folder / "cascade.toml"), tmp_path / "tuned"
    assert main(["cascade", "tune", where, "--seconds", "1", "-o", str(out), "--json"]) == 0
    rows = {row["policy"]: row["mean"] for row in json.loads(capsys.readouterr().out)["rows"]}
    assert {"tuned", "fifo", "conditional-any"} <= set(rows)
    with weft.Cascade(folder / "cascade.toml", policy=out) as cascade:
        assert [cascade.submit(x).result(WAIT_LIMIT) for x in (1, 3)] == [1, 30]


class Slow(Fails):
    """A policy that takes its time."""

    name = "slow"

    def decide(self, view):
        time.sleep(0.05)
        return self.rule.decide(view)


def test_time_of_a_batch_includes_its_decision(folder):
    with weft.Cascade(folder / "cascade.toml", policy=Slow(0)) as cascade:
        assert [cascade.submit(x).result(WAIT_LIMIT) for x in (1, 2)] == [1, 2]
    measured = [entry for sizes in cascade.measured.batches.values() for entry in sizes.values()]
    assert sum(count for count, _ in measured) == 2
    assert sum(seconds for _, seconds in measured) >= 2 * 0.05


def test_changes_are_told_to_watchers(folder):
    from weft.runtime.cascade.feed import CHANGES

    changes = []
    with weft.Cascade(folder / "cascade.toml") as cascade:
        end = cascade.watch(changes.append)
        futures = [cascade.submit(x) for x in range(9)]
        assert [f.exception() for f in futures] == [None] * 9
        # A future is done before its watchers hear of it.
        wait_until(lambda: sum(change["kind"] == "answered" for change in list(changes)) == 9)
        end()
        cascade.submit(1).result()
    kinds = Counter(change["kind"] for change in changes)
    assert kinds["accepted"] == kinds["answered"] == 9
    assert kinds["batch"] == kinds["batch ended"] > 0
    for change in changes:
        assert set(change) == {"time", "kind", *CHANGES[change["kind"]]}
    ran = Counter(job for c in changes if c["kind"] == "batch" for job in c["jobs"])
    assert sorted(ran) == sorted(c["job"] for c in changes if c["kind"] == "accepted")
    json.dumps(changes)


def test_a_watcher_that_fails_stops_nothing(folder):
    calls = []

    def fails(change):
        calls.append(change)
        raise ValueError("no")

    with weft.Cascade(folder / "cascade.toml") as cascade:
        cascade.watch(fails)
        assert cascade.submit(3).exception() is None
    assert len(calls) == 1
