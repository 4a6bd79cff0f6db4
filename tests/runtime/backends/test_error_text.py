"""Tasks that end in odd ways: exceptions without a text, forks, closed pipes, odd results."""

from __future__ import annotations

import os

import pytest

import weft
from weft.runtime import LocalBackend, TaskFailed
from weft.runtime.backends.error_text import MOST_LINE, MOST_TRACEBACK, error_line, traceback_text
from weft.runtime.service.service import Service


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class NumberText(Exception):
    __str__ = int  # returns no text


class Unloadable:
    """An object whose pickle cannot be loaded anywhere."""

    def __reduce__(self):
        return int, ("no number",)


def raises(kind):
    raise kind


def raises_long():
    raise ValueError("x" * 5_000_000)


def forks_and_returns():
    return os.fork()


def closes_all():
    os.closerange(3, 1000)


def aborts():
    os.abort()


@pytest.fixture(scope="module", name="backend")
def _backend():
    with LocalBackend(2) as found:
        yield found


def run(backend, function, *args):
    return weft.run(weft.task(function)(*args), backend=backend, history=False)


@pytest.mark.parametrize("kind", [Mute, NumberText])
def test_an_exception_whose_text_raises_fails_its_task_only(backend, kind):
    with pytest.raises(TaskFailed, match=f"{kind.__name__} .its text cannot be shown") as found:
        run(backend, raises, kind())
    assert found.value.failure.fault == "raised"
    assert kind.__name__ in found.value.failure.traceback


def test_long_texts_are_clipped(backend):
    with pytest.raises(TaskFailed, match="4990000 characters left out") as found:
        run(backend, raises_long)
    assert len(found.value.failure.text) < MOST_LINE + 100
    assert len(found.value.failure.traceback) < MOST_TRACEBACK + 100


def test_a_traceback_that_raises_is_left_out():
    class Group(ExceptionGroup):
        @property
        def exceptions(self):
            raise SystemExit

    assert traceback_text(Group("a", [ValueError()]), None) == ""
    assert error_line(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_a_fork_that_returns_too_is_not_heard(backend):
    trace = run(backend, forks_and_returns)
    assert trace.value > 0  # that of the child is 0
    assert not weft.check(trace.workload, trace)
    assert run(backend, abs, -1).value == 1


def test_a_task_that_closes_its_pipe_fails(backend):
    with pytest.raises(TaskFailed, match="it closed the pipe of its process") as found:
        run(backend, closes_all)
    assert not weft.check(found.value.trace.workload, found.value.trace)


def test_crashes_are_counted_once(backend):
    with pytest.raises(TaskFailed, match="3 times under this task") as found:
        run(backend, aborts)
    assert found.value.failure.attempts == 3


def test_a_result_that_cannot_be_loaded_names_its_task(backend):
    with pytest.raises(weft.WeftError, match="the result of task 'Unloadable-0' cannot be loaded"):
        run(backend, Unloadable)


def test_a_result_that_cannot_be_loaded_concerns_its_own_submission_only(backend):
    seen = []
    with Service(backend) as service:
        bad = service.submit("a", weft.task(Unloadable)(), watch=seen.append)
        good = [service.submit("a", weft.task(abs)(-k)) for k in range(5)]
        with pytest.raises(weft.WeftError, match="cannot be loaded"):
            bad.result(600.0)
        assert [future.result(600.0) for future in good] == [{"abs-0": k} for k in range(5)]
    (event,) = [event for event in seen if event.kind == "finished"]
    assert event.result is None
    assert "cannot be loaded" in event.text
