"""The Slurm backend: a device is a job step of the allocation that runs tasks.

All tasks stay within the allocation: a device costs one step, a task costs a message.
"""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from weft.runtime.backends.pilots.backend import START_SECONDS, PilotBackend
from weft.runtime.backends.pilots.device import PilotDevice, PilotDevices, pilot_devices
from weft.runtime.backends.slurm.allocation import Allocation

MEGABYTE = 2**20
"""Slurm counts memory in these."""
_ODD = re.compile(r"[^\w.-]", re.ASCII)
"""Characters that would lead a log file elsewhere, or that Slurm replaces in its name."""

END_SECONDS = 3.0
"""Seconds after which a step that does not end gets the next signal."""


class SlurmBackend(PilotBackend):
    """Devices that are job steps within one allocation of Slurm.

    Parameters
    ----------
    devices : a number of single cores, or one `PilotDevice` each; by default one per core of the
        allocation
    host : address of this machine that steps connect to; by default its name
    start_seconds : seconds in which Slurm must start each step
    logs : folder for the output of workers; by default it goes to the output of this program
    """

    name = "slurm"

    def __init__(
        self,
        devices: PilotDevices = None,
        *,
        host: str | None = None,
        start_seconds: float = START_SECONDS,
        logs: str | Path | None = None,
    ) -> None:
        self.allocation = Allocation.current()
        few = devices is None or isinstance(devices, int)
        specs = (
            self.allocation.devices(devices)  # type: ignore[arg-type]  # None or a number
            if few
            else pilot_devices(devices)  # type: ignore[arg-type]  # descriptions
        )
        self.allocation.check(specs)
        super().__init__(specs, host=host or socket.gethostname(), start_seconds=start_seconds)
        self._logs = None if logs is None else Path(logs).resolve()

    def launch(
        self, spec: PilotDevice, argv: Sequence[str], facts: bytes, variables: Mapping[str, str]
    ) -> SlurmStep:
        """Start a step of one task.

        Only the task gets the variables: with them, srun itself would look like a process of a
        task.
        """
        options = step_options(spec, self.allocation.job, self._logs)
        given = [f"{name}={value}" for name, value in variables.items()]
        return SlurmStep(["srun", *options, "env", *given, *argv], facts)


def step_options(spec: PilotDevice, job: str, logs: Path | None = None) -> list[str]:
    """Return the options of ``srun`` for a device.

    Steps overlap, as weft counts cores itself, and a step without a memory limit would take the
    memory of all others. Steps with generic resources exclude each other, so that each has its own.
    """
    gres = [f"gpu:{spec.gpus}"] if spec.gpus else []
    gres += [f"{name}:{amount:g}" for name, amount in spec.resources.items()]
    memory = 0 if spec.memory is None else -(-spec.memory // MEGABYTE)
    return [
        f"--jobid={job}",
        f"--job-name=weft-{spec.name}",
        "--nodes=1",
        "--ntasks=1",
        f"--cpus-per-task={spec.cpus}",
        "--exact",
        *([] if gres else ["--overlap"]),
        *([f"--nodelist={spec.node}"] if spec.node else []),
        *([f"--mem={memory}M"] if memory or gres else []),
        *([f"--gres={','.join(gres)}"] if gres else []),
        *([] if logs is None else [f"--output={logs}/{_ODD.sub('_', spec.name)}.%s.log"]),
        "--input=all",
        "--export=ALL",
        "--kill-on-bad-exit=0",
        "--unbuffered",
        "--quiet",
    ]


class SlurmStep:
    """A step, as its ``srun`` process reports it."""

    def __init__(self, command: Sequence[str], facts: bytes) -> None:
        self._srun = subprocess.Popen(  # noqa: S603  # srun with this program
            list(command),
            stdin=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for the driver, which ends the step
        )
        assert self._srun.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it ended at once; its exit code says so
            self._srun.stdin.write(facts)
            self._srun.stdin.close()

    def exit_code(self) -> int | None:
        """Return the exit code of the step; srun adds 128 to a signal."""
        code = self._srun.poll()
        return 128 - code if code is not None and code > 128 else code

    def cancel(self) -> None:
        """End the step: srun ends by itself once its task did, and later by signals."""
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                self._srun.send_signal(number)
            try:
                self._srun.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            return
