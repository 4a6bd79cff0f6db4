"""Reports of devices in any order and with wrong clocks give a trace that is possible."""

from __future__ import annotations

from collections import deque
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.strategies import problems
from weft.model import Problem, Workload
from weft.model.trace import DONE, LOST
from weft.runtime import RunOptions
from weft.runtime.backends.protocol import DeviceAdded, DeviceLost, Failed, Finished, Started
from weft.runtime.deciders.policy import greedy
from weft.runtime.engine.driver import Driver
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.journal import JournalEntry


class Scripted:
    """A scripted backend: (clock, [(event, instance or device, device, start, finish)])."""

    name = "scripted"
    modelled = False

    def __init__(self, workload, script):
        self.workload = workload
        self.script = deque(script)
        self.numbers = {}
        self.cancelled = []
        self.now = 0.0

    def devices(self):
        return self.workload.cluster

    def clock(self):
        return self.now

    def submit(self, order, device, priority):
        self.numbers[order.members[0], device] = order.number

    def cancel(self, number):
        self.cancelled.append(number)

    def release(self, instance):
        """Nothing is kept."""

    def restore(self, instance, path):
        """Nothing is kept."""

    def wait(self, until):
        if not self.script:
            self.now = max(self.now, until) if until < inf else self.now
            return []
        self.now, events = self.script.popleft()
        return [self._event(*event) for event in events]

    def _event(self, what, instance, device, start, finish=0.0):
        number = self.numbers.get((instance, device), -1)
        if what == "done":
            return Finished(number, device, start, finish)
        if what == "failed":
            return Failed(number, device, start, finish, "raised", "scripted")
        if what == "started":
            return Started(number, device, start)
        return (
            DeviceLost(device, start, "scripted") if what == "lost" else DeviceAdded(device, start)
        )


def drive(workload, script, **options):
    driver = Driver(
        LiveLifecycle(workload), Scripted(workload, script), greedy(), options=RunOptions(**options)
    )
    driver.run()
    trace = driver.trace()
    assert weft.check(workload, trace) == []
    return driver, trace


def pair():
    """Two independent tasks of one second on two devices: greedy gives one to each."""
    return Workload.of(Problem.from_arrays(np.ones((2, 2))))


def test_a_job_finishes_with_its_last_task_whatever_is_reported_first():
    _, trace = drive(
        pair(), [(0.0, []), (2.1, [("done", 0, 0, 0.1, 2.0)]), (2.2, [("done", 1, 1, 0.1, 1.9)])]
    )
    assert trace.job_finish.tolist() == [2.0]
    assert trace.finish.tolist() == [2.0, 1.9]


def test_the_life_cycle_itself_takes_ends_in_any_order():
    life = LiveLifecycle(pair())
    life.arrive(0, 0.0)
    for k in (0, 1):
        life.commit([k], k, 0.0)
        life.begin(k, 0.0)
    life.finish(0, 2.0)
    life.finish(1, 1.9)
    assert life.job_finish == [2.0]


def chain():
    """0 -> 1, where each task runs on a device of its own."""
    return Workload.of(Problem.from_arrays([[1.0, inf], [inf, 1.0]], [[0, 1]]))


@pytest.mark.parametrize(
    ("reports", "starts", "ends"),
    [
        # Device 0 says that it ended at 5, but the driver received it at 2, which counts. Its
        # child ran from 2.5 to 3 by its own clock.
        ([(2.0, 0.5, 5.0), (3.1, 2.5, 3.0)], [0.5, 2.5], [2.0, 3.0]),
        # Device 1 is two seconds behind: 0.5 to 1 by its clock. The call was sent at 2, the
        # report received at 3.
        ([(2.0, 0.1, 1.9), (3.0, 0.5, 1.0)], [0.1, 2.0], [1.9, 2.0]),
        # Starts in the future do not count.
        ([(2.0, 7.0, 8.0), (3.0, 9.0, 9.5)], [0.0, 2.0], [2.0, 3.0]),
    ],
    ids=["ahead", "behind", "future"],
)
def test_wrong_clocks_neither_delay_nor_reorder(reports, starts, ends):
    events = [
        (received, [("done", device, device, start, finish)])
        for device, (received, start, finish) in enumerate(reports)
    ]
    _, trace = drive(chain(), [(0.0, []), *events])
    assert trace.start.tolist() == starts
    assert trace.finish.tolist() == ends


def test_what_was_ahead_on_a_device_is_not_run_into():
    # Two tasks on one device, both reported at once; the second begins by its own clock before the
    # first ended.
    workload = Workload.of(Problem.from_arrays(np.ones((2, 1))))
    _, trace = drive(
        workload, [(0.0, []), (3.0, [("done", 0, 0, 0.2, 1.5), ("done", 1, 0, 1.4, 2.5)])]
    )
    assert trace.start.tolist() == [0.2, 1.5]


def test_a_failure_and_the_end_behind_it_in_one_report():
    # 0 is given up; 1, sent ahead, ran from 1 to 2: not from when the driver heard of it.
    workload = Workload.of(Problem.from_arrays(np.ones((2, 1))))
    script = [(0.0, []), (2.5, [("failed", 0, 0, 0.0, 1.0), ("done", 1, 0, 1.0, 2.0)])]
    driver, trace = drive(workload, script, on_error="continue")
    assert trace.status.tolist() == [LOST, DONE]
    assert trace.start.tolist() == [0.0, 1.0]
    assert trace.finish.tolist() == [1.0, 2.0]
    assert len(driver.failures) == 1


def test_what_is_done_elsewhere_counts_before_a_failure_stops_the_run():
    script = [(0.0, []), (2.0, [("failed", 0, 0, 0.0, 1.0), ("done", 1, 1, 0.0, 1.5)])]
    _, trace = drive(pair(), script)
    assert sorted(trace.status.tolist()) == [DONE, LOST]


def test_a_retried_task_begins_after_it_was_lost():
    # Its device says it failed at 4, heard at 2; it runs again from 2.
    workload = Workload.of(Problem.from_arrays(np.ones((1, 1))))
    script = [(0.0, []), (2.0, [("failed", 0, 0, 1.0, 4.0)]), (3.0, [("done", 0, 0, 2.5, 3.0)])]
    _, trace = drive(workload, script, retries=1, backoff=0.0)
    assert trace.status.tolist() == [LOST, DONE]
    assert trace.start.tolist() == [1.0, 2.5]
    assert trace.finish.tolist() == [2.0, 3.0]


def test_a_time_limit_counts_from_the_start_that_was_reported():
    # Sent at 0, begun at 4: with a limit of 2 it may run until 6.
    workload = Workload.of(Problem.from_arrays(np.ones((1, 1))))
    driver, trace = drive(
        workload,
        [(0.0, []), (4.5, [("started", 0, 0, 4.0)]), (5.9, [("done", 0, 0, 4.0, 5.8)])],
        timeout=2.0,
    )
    assert trace.start.tolist() == [4.0]
    assert driver.backend.cancelled == []


def test_a_device_lost_in_the_future_is_lost_now():
    script = [
        (0.0, []),
        (1.0, [("lost", 0, 0, 9.0)]),
        (2.0, [("added", 0, 0, -3.0), ("done", 1, 1, 0.0, 1.0)]),
    ]
    _, trace = drive(pair(), [*script, (3.5, [("done", 0, 1, 2.5, 3.0), ("done", 0, 0, 2.5, 3.0)])])
    assert trace.scenario.change_time.tolist() == [1.0, 2.0]  # when the driver noticed
    assert trace.makespan == 3.0


def test_a_job_called_off_late_ends_when_it_was_called_off():
    workload = pair()
    backend = Scripted(workload, [(0.0, []), (2.0, [("done", 0, 0, 0.0, 1.0)])])
    driver = Driver(LiveLifecycle(workload), backend, greedy(), cancels=[1.5])
    driver.run()
    trace = driver.trace()
    assert trace.scenario.cancel.tolist() == [2.0]  # when the driver got to it
    assert weft.check(workload, trace) == []


def test_a_job_done_before_it_could_be_called_off_is_done():
    workload = pair()
    backend = Scripted(
        workload, [(0.0, []), (2.0, [("done", 0, 0, 0.0, 1.0), ("done", 1, 1, 0.0, 1.9)])]
    )
    driver = Driver(LiveLifecycle(workload), backend, greedy(), cancels=[1.5])
    driver.run()
    assert driver.trace().job_finish.tolist() == [1.9]
    assert weft.check(workload, driver.trace()) == []


def test_a_journal_is_resumed_in_the_order_it_was_written(tmp_path):
    # 1 -> 0, both ended at the same time by the clock: sorted by time and number, the child would
    # come first and run again.
    workload = Workload.of(Problem.from_arrays([[0.0], [0.0]], [[1, 0]]))
    driver = Driver(LiveLifecycle(workload), Scripted(workload, []), greedy())
    driver.resume(
        [JournalEntry(i, "d0", 0.0, 0.0, 0.0, {}, f"{i}.result") for i in (1, 0)],
        lambda i: tmp_path / str(i),
    )
    driver.run()
    assert len(driver.trace()) == 2


def test_a_journal_of_devices_that_are_gone_is_resumed(tmp_path):
    workload = chain()
    driver = Driver(LiveLifecycle(workload), Scripted(workload, [(2.0, [])]), greedy())
    driver.resume(
        [JournalEntry(i, "old", 0.0, float(i), i + 1.0, {}, f"{i}.result") for i in (0, 1)],
        lambda i: tmp_path / str(i),
    )
    driver.run()
    assert driver.trace().device.tolist() == [0, 1]


class Skewed(Scripted):
    """Devices with clocks of their own, whose reports come late."""

    def __init__(self, workload, rng):
        super().__init__(workload, [])
        self.rng = rng
        self.offset = rng.uniform(-3.0, 3.0, workload.cluster.p)
        self.lanes = [deque() for _ in range(workload.cluster.p)]

    def submit(self, order, device, priority):
        self.lanes[device].append((order.number, self.now))

    def wait(self, until):
        busy = [d for d, lane in enumerate(self.lanes) if lane]
        if not busy:
            self.now = max(self.now, until) if until < inf else self.now
            return []
        self.now += float(self.rng.exponential(0.5))
        events = []
        for device in self.rng.permutation(busy).tolist()[
            : int(self.rng.integers(1, len(busy) + 1))
        ]:
            for _ in range(int(self.rng.integers(1, len(self.lanes[device]) + 1))):
                number, since = self.lanes[device].popleft()
                start, finish = np.sort(self.rng.uniform(since, self.now, 2)) + self.offset[device]
                bad = self.rng.random() < 0.2
                events.append(
                    Failed(number, device, start, finish, "raised", "skewed")
                    if bad
                    else Finished(number, device, start, finish)
                )
        return events


@settings(max_examples=60)
@given(problems(min_tasks=1), st.integers(0, 2**32 - 1), st.sampled_from([1, 3]))
def test_whatever_the_clocks_say_the_trace_could_have_happened(problem, seed, window):
    workload = Workload.of(problem)
    driver = Driver(
        LiveLifecycle(workload),
        Skewed(workload, np.random.default_rng(seed)),
        greedy(),
        options=RunOptions(window=window, retries=1, backoff=0.01, on_error="continue"),
    )
    driver.run()
    assert weft.check(workload, driver.trace()) == []


@pytest.mark.parametrize("stop", [True, False])
def test_a_loss_and_an_end_in_one_report(stop):
    # Device 0 ends task 0 and dies; task 1 on device 1 fails in the same breath.
    script = [
        (0.0, []),
        (2.0, [("lost", 0, 0, 1.9), ("failed", 1, 1, 0.0, 1.0), ("done", 0, 0, 0.0, 1.8)]),
    ]
    driver, trace = drive(pair(), script, on_error="stop" if stop else "continue")
    assert sorted(trace.status.tolist()) == [DONE, LOST]
    assert [failure.task for failure in driver.failures] == ["t1"]
