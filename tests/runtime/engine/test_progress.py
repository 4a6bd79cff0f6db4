"""The progress display: it fits the terminal, and leaves it clean."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import time
from math import inf
from pathlib import Path

import numpy as np
import pytest

from tests.support.waiting import WAIT_LIMIT
from weft.model import Problem, Workload
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.progress import ROWS, ProgressDisplay, device_lines, status_lines, summary
from weft.runtime.status import StatusReader


def busy(devices, tasks=40, down=()):
    """A run in which every device runs a task, but those that are down."""
    life = LiveLifecycle(Workload.of(Problem.from_arrays(np.ones((tasks, devices)))))
    life.arrive(0, 0.0)
    for d in range(devices):
        if d in down:
            life.change_slowdown(d, inf, 0.0)
        else:
            life.commit([d], d, 0.0)
            life.begin(d, 0.0)
    return life


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("devices", [1, 2, 16, 100])
def test_it_fits_the_terminal(devices, width):
    life = busy(devices, tasks=120)
    status = StatusReader().read(life, 123.4)
    lines = [summary(life, 123.4, 5.6, width), *device_lines(life, width)]
    lines += status_lines(status, "a task\x1b[31m\nfailed " * 9, width)
    assert all(len(line) < width and line.isprintable() for line in lines)
    assert len(lines) <= 1 + ROWS + 3 == 8


def test_sixteen_devices_in_eighty_columns_are_all_there():
    text = " ".join(device_lines(busy(16, down={3}), 80))
    assert text.split() == [
        word for d in range(16) for word in (f"d{d}", "down" if d == 3 else f"t{d}")
    ]


def test_those_that_do_not_fit_are_counted():
    # 40 columns hold cells of 5 to 7 columns: 6 a line, 24 in all; the last counts the other 77.
    lines = device_lines(busy(100, tasks=100, down={99}), 40)
    count, running = re.search(r"\+(\d+): (\d+) busy", lines[-1]).groups()
    shown = sum(line.count("d") for line in lines)
    assert int(count) + shown == 100
    assert int(running) == int(count) - 1


class Terminal:
    """Return the screen after the escape codes of a text."""

    def __init__(self, text):
        self.rows, self.at, self.column = [""], 0, 0
        for word in re.findall(r"\x1b\[\d*[AKJ]|\r|\n|[^\x1b\r\n]+", text):
            self._take(word)

    def _take(self, word):
        if word == "\r":
            self.column = 0
        elif word == "\n":
            self.at, self.column = self.at + 1, 0
            self.rows += [""] * (self.at + 1 - len(self.rows))
        elif word.endswith("A"):
            self.at -= int(word[2:-1])
        elif word.endswith("K"):
            self.rows[self.at] = self.rows[self.at][: self.column]
        elif word.endswith("J"):
            self.rows[self.at :] = [self.rows[self.at][: self.column]]
        else:
            line = self.rows[self.at].ljust(self.column)
            self.rows[self.at] = line[: self.column] + word + line[self.column + len(word) :]
            self.column += len(word)


def test_pictures_replace_each_other_and_leave_nothing():
    stream = io.StringIO()
    watcher = ProgressDisplay(stream, force=True, width=60, predicted=8.0)
    life = busy(8)
    for now in (1.0, 2.0):
        watcher.draw(life, now)
    screen = Terminal(stream.getvalue())
    assert screen.rows[0] == "[....................] 0/40 tasks, 2.0 s, about 6.0 s left"
    assert screen.rows[1 : 1 + len(device_lines(life, 60))] == device_lines(life, 60)
    assert screen.rows[-2:] == [
        "busy 100 %: d0 100, d1 100, d2 100, d3 100, d4 100, d5 100,",
        "waiting: 32 for a device",
    ]
    watcher.close()
    assert Terminal(stream.getvalue()).rows == [""]


def test_the_end_is_foretold_by_what_is_done():
    watcher = ProgressDisplay(io.StringIO(), force=True, predicted=100.0)
    life = busy(1, tasks=4)
    watcher._weigh(life)
    watcher._done = 1.0
    assert watcher._left(2.0) == 6.0  # a quarter took 2 s, whatever was predicted


SCRIPT = """
import time
from pathlib import Path
import weft


@weft.task
def nap(k):
    while not Path({gate!r}).exists():
        time.sleep(0.01)


def build():
    return [nap(k) for k in {numbers}]
"""


BOTH = re.compile(r"cpu0 nap-\d+ +cpu1 nap-\d+")


def _take_interrupts():
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def watched(folder, numbers, *, interrupt=False):
    """Run `weft run` on a terminal of 80 columns; what it wrote, and its process.

    Its tasks go on once the terminal showed two of them; with `interrupt`, they do not end.
    """
    script, gate = folder / "naps_script.py", folder / "gate"
    script.write_text(SCRIPT.format(numbers=numbers, gate=str(gate)))
    environment = {**os.environ, "WEFT_HISTORY": str(folder / "h.sqlite"), "TERM": "xterm"}
    here, there = pty.openpty()
    import fcntl
    import termios

    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    argv = [sys.executable, "-m", "weft", "run", str(script), "--devices", "2"]
    process = subprocess.Popen(
        argv,
        stdin=there,
        stdout=there,
        stderr=there,
        env=environment,
        start_new_session=True,
        # Tests in the background may ignore the signal.
        preexec_fn=_take_interrupts,  # noqa: PLW1509  # it takes no lock
    )
    os.close(there)
    text, pressed = b"", False
    deadline = time.monotonic() + 2400
    while time.monotonic() < deadline:
        if select.select([here], [], [], 0.2)[0]:
            try:
                text += os.read(here, 65536)
            except OSError:
                break
        if not pressed and BOTH.search(text.decode(errors="replace")):
            pressed = True
            if interrupt:
                os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does: to all of them
            else:
                gate.touch()
    process.wait(WAIT_LIMIT)
    os.close(here)
    return text.decode(), process


def test_a_run_on_a_terminal(tmp_path):
    text, process = watched(tmp_path, "range(1, 13)")
    assert process.returncode == 0, text
    drawn = text[: text.rindex("\x1b[J")]
    assert "/12 tasks" in drawn
    assert BOTH.search(drawn)
    assert all(
        len(line) < 80
        for line in re.sub(r"\x1b\[\d*[AKJ]", "", drawn).replace("\r", "\n").split("\n")
    )
    after = Terminal(text.replace("\r\n", "\n")).rows
    assert not any(re.match(r"\[[#.]{20}\]", line) for line in after)  # no picture is left
    assert any("tasks 12 of 12" in line for line in after)


def test_ctrl_c_leaves_a_clean_terminal_and_no_process(tmp_path):
    text, process = watched(tmp_path, "range(8)", interrupt=True)
    assert process.returncode != 0
    rows = Terminal(text.replace("\r\n", "\n")).rows
    assert not any(re.match(r"\[[#.]{20}\]", line) for line in rows)
    deadline = time.monotonic() + WAIT_LIMIT
    while (left := _of_session(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


def _of_session(leader):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found
