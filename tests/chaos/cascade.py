"""A cascade under load whose units are killed at random: nothing accepted is lost."""

from __future__ import annotations

import os
import random
import resource
import secrets
import time
import warnings
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import weft
from tests.chaos.campaigns import Progress, Tally
from tests.chaos.processes import MARK, Killer, memory, workers
from tests.support.streams import two_stages
from tests.support.waiting import WAIT_LIMIT
from weft.formats.native.stream_toml import read_stream_toml
from weft.runtime.backends.local.worker import environment
from weft.runtime.service.queue import QueueFull

RATE = 60.0
"""Requests per second."""
EVERY = 2.0
"""Mean seconds between kills."""
LOADING = 0.5
"""Share of kills for which it is enough that the units load their stages."""
GROWTH = 30e6
"""Bytes by which the memory of the driver may grow after the first quarter."""
UNITS = """
[[units]]
name = "wide"
count = 2
batch = 8
batch_curve = 0.2
[[units]]
name = "narrow"
coefficient = 2.0
batch = 1
"""


def small(batch: list[int]) -> list[tuple[int, str]]:
    """Pass some time; every third number is unsure."""
    time.sleep(0.002)
    return [(x, "unsure" if x % 3 == 0 else "sure") for x in batch]


def large(batch: list[int]) -> list[tuple[int, None]]:
    """Pass more time."""
    time.sleep(0.008)
    return [(-x, None) for x in batch]


def value_of(x: int) -> int:
    """Return the answer of a request."""
    return -x if x % 3 == 0 else x


class UnitKiller(Killer):
    """Kills a unit only after the one before works again, or at least loads its stages.

    So no number of kills per second, however slow the machine, keeps the units from serving.
    """

    def __init__(self, cascade: weft.Cascade, every: float, seed: int, token: str) -> None:
        super().__init__("local", every, seed, token, most=10**9)
        self.cascade = cascade
        self._lost, self._while_loading = 0, True

    def victims(self) -> list[int]:
        """Return the processes of the units; none before the last kill is made good."""
        lost, state = self.cascade.counts["units lost"], self.cascade.state()
        loading = [bool(unit.task) and self._while_loading for unit in state.units]
        ready = [unit.up or loads for unit, loads in zip(state.units, loading, strict=True)]
        if (self.kills and lost == self._lost) or not all(ready):
            return []
        self._lost, self._while_loading = lost, self.rng.random() < LOADING
        return workers(self.backend, self.token)


def kill_units(seconds: float, progress: Progress, *, every: float = EVERY, seed: int = 0) -> Tally:
    """Kill units of a cascade under open-loop load for so long; judge every request."""
    tally = Tally(runs=1)
    token, before = secrets.token_hex(8), memory(os.getpid())
    stages = {"small": weft.Stage(small), "large": weft.Stage(large, timeout=5.0)}
    stream = read_stream_toml(two_stages(UNITS, gap=16, small=2, large=8), name="chaos")
    description = weft.CascadeDescription(stream, stages, policy="conditional-any", queue=500)
    with warnings.catch_warnings(), environment({MARK: token}):
        warnings.simplefilter("ignore")
        with weft.Cascade(description) as cascade:
            killer = UnitKiller(cascade, every, seed, token)
            killer.start()
            try:
                _drive(cascade, seconds, seed, tally, killer, progress)
            finally:
                killer.over.set()
                killer.join()
    tally.kills = killer.kills
    tally.left("cascade", token, os.getpid(), before)
    return tally


def _drive(
    cascade: weft.Cascade,
    seconds: float,
    seed: int,
    tally: Tally,
    killer: Killer,
    progress: Progress,
) -> None:
    rng, sent, begin = random.Random(seed), 0, time.monotonic()
    futures: dict[Future[Any], int] = {}
    due, shown, held = begin, begin, 0.0
    while due < begin + seconds or (killer.is_alive() and not killer.kills):
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            futures[cascade.submit(sent)] = sent
            sent += 1
        except QueueFull:
            pass  # it was not accepted
        except weft.WeftError:  # the cascade has no unit left; what it accepted fails with that
            tally.clear_error += 1
            break
        due += rng.expovariate(RATE)
        if len(futures) > 1000:
            _judge(futures, tally, 0.0)
        if not held and due > begin + seconds / 4:
            held = resident()
        if due > shown + 10.0:
            shown = due
            progress(
                f"cascade: {due - begin:.0f} s, {sent} sent, {tally.right} right, "
                f"{tally.clear_error} clear errors, {killer.kills} kills, {resident() / 1e6:.0f} MB"
            )
    killer.over.set()
    killer.join()
    _judge(futures, tally, WAIT_LIMIT)
    for x in futures.values():
        tally.wrong.append(f"cascade: request {x} has no answer")
    counts = cascade.counts
    if counts["answered"] + counts["failed"] != sent:
        tally.wrong.append(f"cascade: {sent} accepted, but counted: {dict(counts)}")
    if held and resident() > held + GROWTH:
        tally.wrong.append(f"cascade: memory grew from {held / 1e6:.0f} MB by {GROWTH / 1e6:.0f}")


def _judge(futures: dict[Future[Any], int], tally: Tally, patience: float) -> None:
    """Count the requests that are answered, and drop them."""
    for future in wait(futures, timeout=patience).done:
        x, error = futures.pop(future), future.exception()
        if error is None and future.result() == value_of(x):
            tally.right += 1
        elif isinstance(error, weft.WeftError):
            tally.clear_error += 1
        else:
            tally.wrong.append(f"cascade: request {x}: {error or future.result()!r}")


def resident() -> float:
    """Return the bytes of memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return float(pages * resource.getpagesize())
