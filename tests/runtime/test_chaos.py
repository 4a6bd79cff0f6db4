"""Workers and drivers killed at random, Ctrl-C: right results, and no process left.

`python -m tests.chaos` is the long version.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos import __main__ as command
from tests.chaos import campaigns
from tests.chaos.__main__ import table
from tests.chaos.campaigns import Tally, kill_drivers, kill_ray_workers, kill_workers
from tests.chaos.cascade import UnitKiller, kill_units
from tests.chaos.processes import workers
from tests.chaos.results import add_results
from tests.chaos.service import attack_service
from tests.chaos.soak import SHARES, Sample, Soak, soak_service
from tests.support.waiting import WAIT_LIMIT, wait_until
from weft.runtime.backends.payload import PREFIX

ROOT = Path(__file__).parents[2]


def silent(text):
    """Take the progress of a campaign."""


def test_workers_killed_at_any_moment():
    tally = kill_workers("local", 3, 40, silent)
    assert tally.wrong == []
    assert tally.kills >= 1
    assert tally.right + tally.clear_error == tally.traces_valid == tally.runs == 3
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(
    ("script", "clear", "wrong"),
    [
        ("import sys; sys.exit('{tasks} {seed}: Worker will terminate')", 1, 0),
        ("import sys; sys.exit('{tasks} {seed}')", 0, 1),
    ],
)
def test_a_driver_that_ray_ends_counts_as_a_clear_error(monkeypatch, script, clear, wrong):
    monkeypatch.setattr(campaigns, "RAY_RUN", script)
    tally = kill_ray_workers(2, 40, silent)
    assert (tally.runs, tally.clear_error, len(tally.wrong)) == (2, 2 * clear, 2 * wrong)


def test_a_driver_killed_at_any_moment_is_resumed():
    tally = kill_drivers(1, 40, silent)
    assert tally.wrong == []
    assert (tally.right, tally.traces_valid, tally.repeated) == (1, 1, 0)


def test_a_service_under_attack():
    tally = attack_service(3.0, silent, kills=3, least=1)
    assert tally.wrong == []
    assert tally.right + tally.clear_error == tally.traces_valid == tally.runs > 0
    assert multiprocessing.active_children() == []


def test_a_cascade_whose_units_are_killed():
    tally = kill_units(3.0, silent, every=0.5)
    assert tally.wrong == []
    assert tally.kills >= 1
    assert tally.right > 0
    assert multiprocessing.active_children() == []


def test_a_cascade_that_breaks_is_a_clear_error(monkeypatch):
    def victims(killer):
        monkeypatch.setattr("weft.runtime.backends.local.process.BOOTSTRAP", "raise SystemExit(5)")
        return workers(killer.backend, killer.token)

    monkeypatch.setattr(UnitKiller, "victims", victims)
    tally = kill_units(60.0, silent, every=0.05)
    assert tally.wrong == []
    assert tally.clear_error > 0
    assert multiprocessing.active_children() == []


def test_a_saturated_service_keeps_shares_and_priorities():
    lines = []
    soak = soak_service(0.0, lines.append, every=0.2, least=300)
    # Memory is not flat yet, and shares in percent are for a long soak: leads are seen at once.
    assert [text for text in soak.wrong if "grow" not in text and "off its share" not in text] == []
    assert soak.submissions >= 300
    assert len(lines) == len(soak.samples) + 1
    if not soak.samples[-1].tells():
        pytest.skip("this machine held tasks up for so long that equal shares could not be seen")


def test_a_soak_is_judged():
    def sample(minute, megabytes, *used):
        return Sample(minute, megabytes, 10, 6, 1, dict(zip(SHARES, used, strict=True)))

    flat = Soak([sample(m, 190.0, 4.0 * m, 2.0 * m, 1.0 * m) for m in range(8)], urgent=40)
    flat.judge()
    assert flat.wrong == []
    # 0.5 MB per minute; 'small' has 1.5 / 7.5 of the devices instead of 1 / 7: 40 % too much.
    grows = [sample(m, 190 + m / 2, 4.0 * m, 2.0 * m, 1.5 * m) for m in range(8)]
    bad = Soak(grows, urgent=40, urgent_late=3)
    bad.judge()
    assert [text for text in bad.wrong if "medium" not in text and "large" not in text] == [
        "soak: megabytes grow by 0.500 per minute",
        "soak: 'small' is off its share by 40.0 %",
        "soak: 3 of 40 urgent submissions were not first",
    ]


def test_an_application_that_is_too_far_ahead():
    def sample(*used):
        longest = {name: [0.02, 0.01, 0.01] for name in SHARES}
        return Sample(1.0, 190.0, 10, 6, 1, dict(zip(SHARES, used, strict=True)), longest)

    # Devices held 2 tasks: 'small' may be ahead of 'large' by 3 of the longest, all of them its
    # own per share, and by an urgent one. 'large' may be ahead by 3 of 'small' and one of its own.
    assert sample(0.0, 0.0, 0.0).most_lead("small", "large") == pytest.approx(0.06)
    assert sample(0.0, 0.0, 0.0).most_lead("large", "small") == pytest.approx(0.045)
    assert Soak([sample(4.0, 2.0, 1.059)]).leads() == []
    assert Soak([sample(4.0, 2.03, 1.061), sample(8.0, 4.0, 2.0)]).leads() == [
        "soak: 'small' is 0.061 s per share ahead of 'large'; 0.060 s are allowed"
    ]
    # With equal shares of 0.36 s in all, 'small' would be ahead by 0.09 s: 1.5 times 0.06 s.
    assert not sample(0.2, 0.1, 0.05).tells()
    assert sample(0.21, 0.11, 0.05).tells()


def test_a_table_of_outcomes():
    text = table({"local": Tally(runs=3, right=2, clear_error=1, traces_valid=3)})
    head, row = text.splitlines()
    assert head.split("  ")[0] == "campaign"
    assert row.split() == ["local", "3", "0", "2", "1", "0", "0", "0", "0", "3"]


def test_results_are_added_by_campaign(tmp_path):
    path = tmp_path / "chaos.json"
    soak = Soak([Sample(m, 200, 7, 5, 1, dict(SHARES)) for m in range(7)], submissions=900)
    add_results(path, "first", {"ray": Tally(runs=1), "service": Tally(refused=4)}, soak)
    add_results(path, "second", {"local": Tally(runs=3, right=2), "ray": Tally(runs=2)}, None)
    found = json.loads(path.read_text())
    rows = found["tables"]["campaigns"]["rows"]
    assert [row[:4] for row in rows] == [["local processes", 3, 0, 2], ["Ray", 2, 0, 0]]
    assert found["tables"]["service"]["rows"][0][4] == 4
    assert found["tables"]["soak"]["columns"][1:4] == [f"after {m} min" for m in (1, 3, 6)]
    assert found["tables"]["soak_counts"]["rows"] == [[900, 0.0, 0, 0]]
    assert found["provenance"]["ray"].startswith("second, on ")
    assert found["provenance"]["soak"].startswith("first, on ")


def test_a_violation_is_an_error(monkeypatch, capsys):
    monkeypatch.setattr(command, "kill_drivers", lambda *_: Tally(wrong=["driver 1/1: lost"]))
    assert command.main(["--local=0", "--dask=0", "--ray=0", "--driver=1", "--service=0"]) == 1
    assert "VIOLATION driver 1/1: lost" in capsys.readouterr().err
    monkeypatch.setattr(command, "kill_drivers", lambda *_: Tally())
    assert command.main(["--local=0", "--dask=0", "--ray=0", "--driver=1", "--service=0"]) == 0


SCRIPT = """
import sys
from functools import partial
sys.path.insert(0, {root!r})
import weft
from tests.support import run_functions as f

if __name__ == "__main__":
    b = weft.WorkflowBuilder()
    for k in range(4):
        b.task(f"t{{k}}", work=1.0)
    print("here", flush=True)
    functions = {{"task": partial(f.marks_and_hangs, {marks!r})}}
    weft.run(b.build(), functions=functions, devices=2, history=False)
"""


def _take_interrupts():
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_leaves_nothing(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(root=str(ROOT), marks=str(tmp_path)))
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Tests in the background may ignore the signal.
        preexec_fn=_take_interrupts,  # noqa: PLW1509  # it takes no lock
    )
    try:
        assert process.stdout.readline() == "here\n"
        children = wait_until(lambda: len(_children(process.pid)) >= 2 and _children(process.pid))
        wait_until(lambda: list(tmp_path.glob("[0-9]*")))  # a task hangs
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
        _, err = process.communicate(timeout=WAIT_LIMIT)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode != 0
    assert "KeyboardInterrupt" in err
    wait_until(
        lambda: (
            not any(Path(f"/proc/{pid}").exists() and "Z" not in _state(pid) for pid in children)
        )
    )
    assert not list(Path("/dev/shm").glob(f"{PREFIX}{process.pid}-*"))


def _children(pid):
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"
