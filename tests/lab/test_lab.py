"""Labs: their limits, and that nothing is left of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.lab import control_groups, names, network
from benchmarks.lab.commands import call, missing
from benchmarks.lab.control_groups import ControlGroup, controllers
from benchmarks.lab.lab import TOP, Lab, labs, remove_orphans

from tests.support.waiting import WAIT_LIMIT
from weft.errors import WeftError

OWNER = """
import signal, time
from benchmarks.lab.lab import Lab
from benchmarks.lab.spec import parse_spec
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test in the background ignores it
with Lab(parse_spec({"host": [{"name": "a"}]})) as lab:
    lab.start("a", ["sleep", "600"])
    print(lab.name, flush=True)
    time.sleep(600)
"""


def test_links_and_quotas_are_those_of_the_file(lab: Lab) -> None:
    lab.throttle()
    assert (lab.groups["b"].cpu / "cpu.cfs_quota_us").read_text().strip() == "4000"  # 0.8 x 1/2
    space = f"{lab.name}-b"
    assert "rate 80Mbit" in call("tc", "-n", space, "qdisc", "show", "dev", "eth0")
    assert "rate 40Mbit" in call("tc", "-n", space, "qdisc", "show", "dev", "pair0")
    switch = f"{lab.name}-{network.SWITCH}"
    assert "rate 80Mbit" in call("tc", "-n", switch, "qdisc", "show", "dev", "to-b")
    routes = call("ip", "-n", space, "route")
    assert "default" not in routes  # nothing leaves the lab
    assert f"{lab.address('a')} dev pair0" in routes


def test_hosts_reach_one_another_until_a_link_is_cut(lab: Lab) -> None:
    code = "import socket, sys; s = socket.create_server((sys.argv[1], 9000)); s.accept()"
    lab.start("a", [sys.executable, "-S", "-c", code, lab.address("a")])
    ask = f"import socket; socket.create_connection(({lab.address('a')!r}, 9000), 0.5)"

    def answers() -> bool:
        return lab.start("head", [sys.executable, "-S", "-c", ask]).wait() == 0

    assert _soon(answers)
    lab.cut("a")
    assert not answers()


def test_a_killed_host_has_no_processes(lab: Lab) -> None:
    sleeper = lab.start("b", ["sleep", "600"])
    assert _soon(lambda: sleeper.pid in lab.groups["b"].pids())
    lab.kill("b")
    assert sleeper.wait() == -signal.SIGKILL
    assert lab.groups["b"].pids() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_owner_is_ended(number: int) -> None:
    if reason := missing():
        pytest.skip(reason)
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        cwd=TOP,
        env={**os.environ, "PYTHONPATH": f"{TOP / 'src'}{os.pathsep}{TOP}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        name = owner.stdout.readline().strip()
        assert name in labs(controllers())
        owner.send_signal(number)
        owner.wait(WAIT_LIMIT)
    assert _soon(lambda: name not in labs(controllers()))  # the guard may still be at it


def test_labs_of_killed_owners_are_found_by_name() -> None:
    if reason := missing():
        pytest.skip(reason)
    name = "weft-lab-4194305-1-0"  # above the largest process number of Linux
    found = controllers()
    assert found is not None
    call("ip", "netns", "add", f"{name}-a")
    (found.cpu / name).mkdir()
    assert name in remove_orphans()
    assert name not in labs(found)
    assert not (found.cpu / name).exists()


def test_a_living_owner_keeps_its_lab() -> None:
    own = names.own_name()
    assert not names.orphaned(own)
    assert names.lab_of(f"{own}-switch") == own
    assert names.orphaned(f"weft-lab-{os.getpid()}-1-0")  # another process had that number
    assert not names.orphaned("another-namespace")


def test_control_groups_of_version_2(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    found = controllers(tmp_path, "0::/user\n")
    assert found is not None
    group = ControlGroup(found, "weft-lab-1-1-0", "a")
    group.create()
    group.limit_cores(0.25)
    group.limit_memory(1e9)
    assert (group.cpu / "cpu.max").read_text() == "2500 10000"
    assert (group.cpu / "memory.max").read_text() == "1000000000"
    group.limit_cores(None)
    assert (group.cpu / "cpu.max").read_text() == "max 10000"
    (tmp_path / "cgroup.controllers").write_text("hugetlb")
    assert controllers(tmp_path, "0::/user\n") is None


def test_a_command_fails_with_its_own_words() -> None:
    with pytest.raises(WeftError, match=r"'ls /nowhere' failed: .*No such file"):
        call("ls", "/nowhere")


def _soon(done) -> bool:
    deadline = time.monotonic() + WAIT_LIMIT
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if done():
                return True
        time.sleep(0.05)
    return False


def test_removal_of_groups_that_do_not_exist_is_quick() -> None:
    found = controllers()
    if found is None:
        pytest.skip("no control groups")
    control_groups.remove("weft-lab-0-0-0", found)
    assert "weft-lab-0-0-0" not in labs(found)
