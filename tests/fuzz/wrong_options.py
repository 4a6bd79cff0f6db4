"""Calls of public functions with one argument replaced by a value that makes no sense.

`python -m tests.fuzz.wrong_options` prints a line per call that ends neither well nor with one
clear line; names of functions choose some. The options of a planner are those of its signature. A
missing or unknown argument is a TypeError of Python itself, which is clear.
"""

# ruff: noqa: T201  # it prints
from __future__ import annotations

import inspect
import math
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import weft
from tests.fuzz.sound_calls import PROBLEM, Call, calls, environments
from weft.errors import WeftError
from weft.planners.planner import PLANNERS, planner_options
from weft.sim.kernel.jit import compiled

ODD: tuple[Any, ...] = (
    "x", "", "\x1b[31m", b"a", -1, 0, 1.5, math.nan, -math.inf, -(10**30), 10**400, 1e308, 2**63,
    None, True, [], {}, (1, 2), ["x"], {"x": 1}, object(), int, Path("nowhere"),
)  # fmt: skip
SOUND = (("progress", int), ("track", int), ("seconds", 1e308), ("seconds", 2**63))
"""Values that are what they should be: a callback that returns anything, and no limit."""

MOST_SECONDS = 5.0
"""A call that takes more processor time hangs; the sound call has compiled its kernels."""


def changed(call: Call) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the call with each of its arguments replaced by each odd value."""
    name, function, given, options = call
    for place, (key, parameter) in enumerate(inspect.signature(function).parameters.items()):
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        for odd in ODD:
            if (key, odd) in SOUND:
                continue
            arguments, more = list(given), dict(options)
            if place < len(given):
                arguments[place] = odd
            else:
                more[key] = odd
            text = repr(odd)[:30] if odd is not ODD[-3] else "object()"
            yield (f"{name}, {key} = {text}", partial(function, *arguments, **more))


def planner_calls() -> Iterator[Call]:
    """Yield a sound call of every planner that has options, with these as its parameters."""
    for name in PLANNERS.names():
        if options := planner_options(name):
            limit = {"seconds": 0.01} if "seconds" in PLANNERS.create(name).supports else {}
            yield f"plan by {name}", _by_options(name, options), (), limit


def _by_options(planner: str, options: list[str]) -> Callable[..., object]:
    def call(**given: object) -> object:
        return weft.plan(PROBLEM, planner, **given)

    kind = inspect.Parameter.KEYWORD_ONLY
    signature = inspect.Signature([inspect.Parameter(option, kind) for option in options])
    call.__signature__ = signature  # type: ignore[attr-defined]  # functions have attributes
    return call


def outcome(call: Callable[[], object]) -> str | None:
    """Return what is wrong with the end of a call, or None; to compile kernels does not count."""
    before = -1
    trouble: str | None = ""
    while trouble is not None and compiled() > before:
        before, trouble = compiled(), _outcome(call)
    return trouble


def _outcome(call: Callable[[], object]) -> str | None:
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        call()
    except WeftError as error:
        return None if str(error).isprintable() and len(str(error)) < 600 else f"says {error!a}"
    except Exception as error:  # noqa: BLE001  # the very thing that is looked for
        at = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno}: {error!s:.100}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    return None


def _give_up(*_: object) -> None:
    raise TimeoutError(f"takes more than {MOST_SECONDS:g} s")


def main(chosen: list[str]) -> int:
    """Make the calls; return 1 if one ends badly."""
    signal.signal(signal.SIGPROF, _give_up)
    warnings.simplefilter("ignore")
    made = bad = 0
    with tempfile.TemporaryDirectory() as folder, chdir(folder):  # some paths are good ones
        for call in chain(calls(Path(folder)), planner_calls(), environments()):
            if chosen and call[0] not in chosen:
                continue
            if not call[0].startswith("load"):  # of a file that is not there
                call[1](*call[2], **call[3])
            for name, trial in changed(call):
                made += 1
                if trouble := outcome(trial):
                    bad += 1
                    print(f"{name}: {trouble!s}".encode("ascii", "replace").decode(), flush=True)
    print(f"{made} calls, {bad} without a clear end")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
