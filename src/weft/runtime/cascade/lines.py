"""Requests as lines of JSON, one after the other or several at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import cycle, islice
from typing import Any

from weft.errors import InvalidInput, WeftError
from weft.formats.parsing.source import one_line, parse_json
from weft.runtime.cascade.cascade import Cascade

ROUNDS = 40
"""Batches per number of open requests in `probe`."""


def answer_lines(
    cascade: Cascade,
    lines: Iterable[str],
    show: Callable[[str], None],
    *,
    timeout: float | None = None,
) -> None:
    """Answer each line as soon as possible, with its number.

    A full queue delays reading.
    """
    room = threading.Semaphore(cascade.description.queue)
    shown = threading.Lock()
    futures: list[Future[Any]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        room.acquire()

        def done(future: Future[Any], number: int = number) -> None:
            with shown:
                show(answer_of(future, number))
            room.release()

        future = _submitted(cascade, line, timeout)
        futures = [f for f in futures if not f.done()]
        futures.append(future)
        future.add_done_callback(done)
    for _ in range(cascade.description.queue):
        room.acquire()


def _submitted(cascade: Cascade, line: str, timeout: float | None) -> Future[Any]:
    try:
        return cascade.submit(parse_json(line), timeout=timeout)
    except (ValueError, WeftError) as error:
        failed: Future[Any] = Future()
        failed.set_exception(error)
        return failed


def answer_of(future: Future[Any], number: int) -> str:
    """Return an answer as a line of JSON.

    Examples
    --------
    >>> future = Future()
    >>> future.set_result({"shape": "circle"})
    >>> answer_of(future, 3)
    '{"line": 3, "value": {"shape": "circle"}}'
    """
    error = future.exception()
    if error is not None:
        return json.dumps({"line": number, "error": one_line(str(error))})
    try:
        return json.dumps({"line": number, "value": future.result()})
    except (TypeError, ValueError) as wrong:
        return json.dumps({"line": number, "error": f"the value is no JSON: {wrong}"})


def read_payloads(lines: Iterable[str]) -> list[Any]:
    """Return the payloads of lines of JSON."""
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found += [parse_json(line)] if line.strip() else []
        except InvalidInput as error:
            raise InvalidInput(f"line {number} {error}") from None
    if not found:
        raise InvalidInput("there are no payloads; give one line of JSON for each")
    return found


def probe(cascade: Cascade, payloads: Sequence[Any], *, rounds: int = ROUNDS) -> None:
    """Send more and more payloads at once, to measure batches of all sizes."""
    largest = int(cascade.description.stream.problem.cluster.batch.sum())
    endless = cycle(payloads)
    open_at_once = 1
    while open_at_once <= min(2 * largest, cascade.description.queue):
        _keep_open(cascade, islice(endless, rounds * open_at_once), open_at_once)
        open_at_once *= 2
    cascade.measured.forget_arrivals()


def _keep_open(cascade: Cascade, payloads: Iterator[Any], count: int) -> None:
    running = {cascade.submit(payload) for payload in islice(payloads, count)}
    while running:
        done, running = wait(running, return_when=FIRST_COMPLETED)
        running |= {cascade.submit(payload) for payload in islice(payloads, len(done))}
