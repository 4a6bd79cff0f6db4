"""The driver's side of a worker: process, pipe, orders and loaded functions."""

# pickles of this run's own processes
from __future__ import annotations

import multiprocessing
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.spawn import get_executable
from pathlib import Path
from typing import Any, Literal

from weft.runtime.backends.calls import START_LIMIT
from weft.runtime.backends.leftover_processes import (
    VARIABLE,
    end_all,
    end_descendants,
    end_group,
    family,
)
from weft.runtime.backends.local import worker
from weft.runtime.backends.local.device import LocalDevice
from weft.runtime.backends.local.pipe import MessagePipe
from weft.runtime.backends.protocol import Order

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)


BOOTSTRAP = """\
import sys
from multiprocessing.connection import Connection
pipe = Connection(int(sys.argv[1]))
sys.path[:], sys.argv[:] = pipe.recv()
from weft.runtime.backends.local.worker import main
main(pipe)
"""
"""Program of a worker: it never imports the user's `__main__`, so that scripts need no guard."""


class WorkerLink(ABC):
    """The driver's side of a worker, which runs the orders of a device in turn.

    Subclasses reach the process itself: one of this machine, or one of a batch system.
    """

    watch: int | None = None
    """File that is readable once the process is dead, if there is one."""
    offset = 0.0
    """Seconds to add to the clock of the worker."""
    shares_memory = True
    """Whether the worker reads and writes the files of payloads."""

    def __init__(self, device: int, token: str, box: MessagePipe) -> None:
        self.device = device
        self.token = token
        """Value of a variable that the children of its tasks inherit."""
        self.box = box
        self.pid = 0
        """Process id; 0: the process is on another machine."""
        self.ready = False
        self.ended = False
        self.orders: deque[Order] = deque()
        self.loaded_functions: set[int] = set()
        """Numbers of the functions it received."""
        self.handshakes_due = 1
        """Answers still expected: one after the start, one after each `preload`."""

    def preload(self, functions: Sequence[bytes]) -> None:
        """Send functions before the clock starts: imports do not count as run time."""
        self.loaded_functions.clear()
        self._send("clear")
        for number, data in enumerate(functions):
            self.send_function(number, data)
        self._send("ping")
        self.box.flush()
        self.handshakes_due += 1

    def send_function(self, number: int, data: bytes) -> None:
        """Send a function once."""
        if number not in self.loaded_functions:
            self.loaded_functions.add(number)
            self._send("function", number, data)

    def handshake(self) -> bool:
        """Wait for the expected answers; return whether the process is up."""
        deadline = time.perf_counter() + START_LIMIT
        poll = select.poll()
        poll.register(self.box.fd, select.POLLIN)
        try:
            while self.handshakes_due and (left := deadline - time.perf_counter()) > 0:
                # In steps, as bytes that did not fit into the socket must still be sent.
                poll.poll(1000.0 * min(left, 1.0 if self.box.flush() else 0.01))
                for message in map(pickle.loads, self.box.take()):
                    if message[0] == "handshake":
                        self.record_handshake(message)
        except EOFError:
            self.exit_code(1.0)
        self.ready = self.handshakes_due == 0
        return self.ready

    def record_handshake(self, message: tuple[Any, ...]) -> None:
        """Count an answer, which has the process id and the time of the worker."""
        self.handshakes_due -= 1

    @abstractmethod
    def exit_code(self, seconds: float = 0.0) -> int | None:
        """Wait for the end of the process; return its exit code, None if it still runs."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the process; the pipe reports its end."""

    @abstractmethod
    def end(self) -> None:
        """Kill the process with its children, and close the pipe."""

    @abstractmethod
    def end_cause(self) -> tuple[str, Literal["exited", "killed"]]:
        """Clean up a dead process; return the cause and the fault."""

    def _send(self, *words: Any) -> None:
        self.box.put(pickle.dumps(words))


class WorkerProcess(WorkerLink):
    """A process of this machine."""

    def __init__(self, device: int, spec: LocalDevice, folder: Path, token: str) -> None:
        here, there = multiprocessing.Pipe(duplex=True)
        here.send(([p or str(Path.cwd()) for p in sys.path], sys.argv))
        key = bytes(multiprocessing.current_process().authkey)
        here.send(worker.Setting(spec.name, str(folder), spec.cores, spec.memory, key))
        private: Any = subprocess
        flags = private._args_from_interpreter_flags()  # noqa: SLF001  # as multiprocessing does
        self.process = subprocess.Popen(  # noqa: S603  # this Python, this program
            [get_executable(), *flags, "-P", "-c", BOOTSTRAP, str(there.fileno())],
            env={**os.environ, **ONE_THREAD, **spec.environment, VARIABLE: token},
            stdin=subprocess.DEVNULL,
            process_group=0,  # with the children of its tasks
            pass_fds=[there.fileno()],
        )
        there.close()
        super().__init__(device, token, MessagePipe(here, blocking=False))
        self.pid = self.process.pid
        # A child may keep its pipe open.
        self.watch = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None

    def kill(self) -> None:
        """Kill the process with its children."""
        left = family(self.pid) if self.process.returncode is None else []
        self.process.kill()
        end_all(left)

    def end(self) -> None:
        """Kill the process with its group and its children."""
        self.ended = True
        left: list[int] = []
        if self.process.returncode is None:
            left = family(self.pid)
            end_group(self.process.pid)
        self.process.kill()
        end_all(left)
        self.exit_code(10.0)
        self.box.close()
        if self.watch is not None:
            os.close(self.watch)
            self.watch = None

    def end_cause(self) -> tuple[str, Literal["exited", "killed"]]:
        """Clean up a dead process; return the cause and the fault."""
        dead = self._dies_within(5.0)
        self.end()
        end_descendants(self.token)
        return cause_of(self.process.returncode if dead else None)

    def _dies_within(self, seconds: float) -> bool:
        """Wait for the end of the process, but keep its id, which is that of its group."""
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return any(
            self.process.returncode is not None or os.waitid(os.P_PID, self.pid, how) is not None
            for _ in pauses(seconds)
        )

    def exit_code(self, seconds: float = 0.0) -> int | None:
        """Wait for the end of the process; return its exit code, None if it still runs."""
        codes = (self.process.poll() for _ in pauses(seconds))
        return next((code for code in codes if code is not None), None)


def pauses(seconds: float, each: float = 0.002) -> Iterator[None]:
    """Yield at once and after every pause, until the pauses add up to some seconds.

    On a busy machine each pause takes longer, which gives the delayed process more time.
    """
    yield
    for _ in range(round(seconds / each)):
        time.sleep(each)
        yield


def cause_of(code: int | None) -> tuple[str, Literal["exited", "killed"]]:
    """Return the cause and the fault that an exit code indicates."""
    if code == worker.CLOSED_PIPE:
        return f"it closed the pipe of its process to weft (exit code {code})", "exited"
    if code is not None and code >= 0:
        return f"it ended its process with exit code {code}", "exited"
    if code is None:
        return "its process fell silent", "killed"
    name = signal.Signals(-code).name if -code in [s.value for s in signal.Signals] else str(-code)
    memory = " (often: out of memory)" if name == "SIGKILL" else ""
    return f"its process was killed by {name}{memory}", "killed"
