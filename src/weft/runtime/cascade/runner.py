"""The units of a cascade: runs go to their processes, failures are tried again.

The backend reads `preload`, `arguments`, `functions` and `function`: a run is a call of a stage.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from math import inf
from typing import Any

from weft.errors import InvalidInput, WeftError
from weft.runtime.backends.calls import MAX_KILLED_STARTS, MAX_STARTS, pickled_function
from weft.runtime.backends.local.backend import LocalBackend
from weft.runtime.backends.payload import Payload
from weft.runtime.backends.protocol import DeviceAdded, DeviceLost, Event, Failed, Finished, Order
from weft.runtime.cascade.description import CascadeDescription
from weft.runtime.cascade.feed import CascadeState, StageState
from weft.runtime.cascade.measured import Measurements
from weft.runtime.cascade.request import DeadlineMissed, Request, StageFailed, StageGraph
from weft.runtime.cascade.stage import LoadedStage
from weft.runtime.cascade.work import CascadeUnit, Run, Work
from weft.runtime.session.jobs import Assignment
from weft.runtime.session.session import Session

MAX_DEATHS = 3
"""Units that may die with a request that they run alone, before it fails."""


class UnitRunner:
    """Assignments on units, whose ends are reported to the session.

    Parameters
    ----------
    over : called with a request that is in no assignment any more and has failed or was cancelled
    answered : called with a request whose stages are all done, and its value
    counts : "units lost" is counted there
    publish : called with the kind and the facts of a change; see `cascade.feed`

    Attributes
    ----------
    measured : times and branches so far
    moment : when the last events came: a batch takes from those that caused it to its own end
    """

    def __init__(
        self,
        description: CascadeDescription,
        backend: LocalBackend,
        session: Session,
        *,
        over: Callable[[Request], None],
        answered: Callable[[Request, Any], None],
        counts: Counter[str],
        publish: Callable[..., None],
    ) -> None:
        self.description, self.measured = description, Measurements(description.stream)
        self.graph = StageGraph(description.stream.problem.workflow)
        self.moment = 0.0
        self._backend, self._session = backend, session
        self._over, self._answered, self._publish = over, answered, publish
        self._counts, self._tasks = counts, list(self.graph.labels)
        self.functions = [
            pickled_function(LoadedStage(description.stages[task])) for task in self._tasks
        ]
        self.function: dict[int, int] = {}
        """Number of a run -> number of its stage."""
        rows = zip(session.cluster.names, session.cluster.kinds, strict=True)
        self.units = [CascadeUnit(name, kind, i) for i, (name, kind) in enumerate(rows)]
        self._by_name = {unit.name: unit for unit in self.units}
        self._runs: dict[int, tuple[Run, CascadeUnit]] = {}
        self._numbers = count()

    # -- the calls as the backend reads them --------------------------------

    def preload(self) -> list[bytes]:
        """Return all stages: units load their models before they take requests."""
        return self.functions

    def arguments(self, number: int) -> Payload:
        """Return the packed batch of a run."""
        run, _ = self._runs[number]
        return self._backend.packed(
            (([self.graph.takes(run.task, r) for r in run.requests],), {}), number
        )

    # -- for any thread -----------------------------------------------------

    def state(self, jobs: Mapping[int, Request]) -> CascadeState:
        """Return the work of units and the waiting requests, of open requests by job."""
        now, units, held = self._backend.clock(), [unit.state() for unit in self.units], 0
        stages = {task: StageState() for task in self.graph.labels}
        for unit, shown in zip(self.units, units, strict=True):
            if shown.batch:  # as read above: the unit itself may have gone on since
                stages[shown.task].running += shown.batch
            for work in list(unit.works):
                for waits in list(work.runs):
                    stages[waits.task].queued += len(waits.requests)
        for request in list(jobs.values()):
            for task in self.graph.due(request) if not request.running else ():
                stages[task].waiting += 1
            held += 1
        for (_, task), sizes in list(self.measured.batches.items()):
            for size, (number, seconds) in list(sizes.items()):
                stages[task].batches += int(number)
                stages[task].requests += int(size * number)
                stages[task].seconds += seconds
        return CascadeState(now, held, tuple(units), stages)

    # -- for the thread of the cascade --------------------------------------

    def load(self) -> None:
        """Start the units; every stage must load on every unit."""
        self._backend.start(self)
        for unit in self.units:
            self._begin_loading(unit)
        while any(not unit.up for unit in self.units):
            for event in self._backend.wait(inf):
                if isinstance(event, Failed):
                    run, unit = self._runs[event.number]
                    raise WeftError(
                        f"stage '{run.task}' cannot be loaded on unit '{unit.name}': {event.text}"
                    )
                if isinstance(event, DeviceLost):
                    name = self.units[event.device].name
                    raise WeftError(f"unit '{name}' died while it loaded its stages: {event.text}")
                self.handle(event)

    def limits(self) -> list[float]:
        """Return when the running batches are late."""
        return [unit.current.limit for unit in self.units if unit.current is not None]

    def begin(self, assignment: Assignment, members: list[tuple[Request, str]]) -> None:
        """Queue an assignment on its unit."""
        unit = self._by_name[assignment.device]
        for request, _ in members:
            request.running += 1
        unit.works.append(Work.of(assignment, members))
        self._advance(unit)

    def end_late(self) -> None:
        """Kill units whose batch takes too long."""
        now = self._backend.clock()
        for unit in self.units:
            if unit.current is not None and unit.current.limit <= now:
                unit.current.late, unit.current.limit = True, inf
                self._backend.cancel(unit.current.number)

    def drop_left_out(self) -> None:
        """Give up units whose processes do not start any more."""
        for device, text in self._backend.left_out.items():
            if not self.units[device].out:
                self._give_up(self.units[device], f"its process dies before it can work: {text}")

    def unserved(self) -> dict[str, str]:
        """Return the stages that only units that are out can run, and why these are out."""
        if not any(unit.out for unit in self.units):
            return {}
        problem, found = self._session.problems[0], {}
        for t, task in enumerate(self._tasks):
            able = [u for u in self.units if problem.duration(t, u.index) < inf]
            if all(unit.out for unit in able):
                found[task] = f"no unit is left that can run it: {causes(able)}"
        return found

    # -- units --------------------------------------------------------------

    def _begin_loading(self, unit: CascadeUnit) -> None:
        unit.loading.extend(Run(task, []) for task in self._tasks)
        self._advance(unit)

    def _advance(self, unit: CascadeUnit) -> None:
        """Send the next run to an idle unit; report work that is done."""
        while unit.current is None:
            run = unit.following()
            if run is not None:
                self._send(unit, run)
            elif unit.works:
                self._complete(unit.works.popleft())
            else:
                return

    def _send(self, unit: CascadeUnit, run: Run) -> None:
        run.number = next(self._numbers)
        self.function[run.number] = self._tasks.index(run.task)
        self._runs[run.number] = (run, unit)
        timeout = self.description.stages[run.task].timeout
        run.begun = self.moment
        if timeout is not None and run.requests:
            run.limit = self._backend.clock() + timeout
        unit.current = run
        if run.requests:
            jobs = [request.job for request in run.requests]
            self._publish("batch", unit=unit.name, stage=run.task, jobs=jobs)
        try:
            order = Order(run.number, (run.number,), ((),), (False,))
            self._backend.submit(order, unit.index, 0.0)
        except Exception as error:  # noqa: BLE001  # payloads that cannot be pickled
            self._end_run(run)
            self._failed(unit, run, f"cannot be sent: {type(error).__name__}: {error}")

    def _end_run(self, run: Run) -> None:
        _, unit = self._runs.pop(run.number)
        del self.function[run.number]
        unit.current = None
        self._backend.release(run.number)

    def _complete(self, work: Work) -> None:
        """Report an assignment to the session, then answer or drop its requests."""
        # A request that failed has no outcome; its job is dropped at once, so any branch will do.
        outcomes = [
            r.results[task][1] if task in r.results else next(iter(self.graph.labels[task]), None)
            for r, task in work.members
        ]
        self._session.finished(work.assignment, outcomes)
        for request, _ in work.members:
            request.running -= 1
            if request.over:
                self._over(request)
                continue
            complete, value = self.graph.answer(request)
            if complete:
                self._answered(request, value)

    def handle(self, event: Event) -> None:
        """Handle an event of the backend."""
        if isinstance(event, Finished):
            run, unit = self._runs[event.number]
            self._finished(unit, run, self.moment - run.begun)
        elif isinstance(event, Failed):
            run, unit = self._runs[event.number]
            self._end_run(run)
            self._failed(unit, run, event.text)
        elif isinstance(event, DeviceLost):
            self._lost(self.units[event.device], event)
        elif isinstance(event, DeviceAdded):
            unit = self.units[event.device]
            if not (unit.up or unit.out or unit.loading or unit.current):
                self._begin_loading(unit)

    def _finished(self, unit: CascadeUnit, run: Run, seconds: float) -> None:
        try:
            pairs = self._backend.fetch(run.number)
        except Exception as error:  # noqa: BLE001  # unpickling runs code of the user
            self._end_run(run)
            self._failed(unit, run, f"{type(error).__name__}: {error}")
            return
        self._end_run(run)
        if run.requests:
            unit.deaths = 0
            self.measured.batch(unit.kind, run.task, len(run.requests), seconds)
            self._publish("batch ended", unit=unit.name, stage=run.task, seconds=seconds)
        for request, (value, given) in zip(run.requests, pairs, strict=True):
            try:
                outcome = self.graph.outcome(run.task, given)
            except InvalidInput as error:
                request.fail(StageFailed(f"stage '{run.task}' failed: {error}"))
                continue
            request.results[run.task] = (value, outcome)
            self.measured.branch(run.task, outcome)
        if not run.requests and not unit.loading:
            unit.up = True
            self._session.slowed(unit.name, 1.0)
            self._publish("unit up", unit=unit.name)
        self._advance(unit)

    def _failed(self, unit: CascadeUnit, run: Run, text: str) -> None:
        """Try the requests of a failed batch one by one; fail a single one."""
        if not run.requests:
            unit.loading.clear()
            self._give_up(unit, f"stage '{run.task}': {text}")
            return
        if len(run.requests) > 1:
            unit.works[0].runs.extendleft(Run(run.task, [request]) for request in run.requests)
        else:
            run.requests[0].fail(StageFailed(f"stage '{run.task}' failed: {text}"))
        self._advance(unit)

    def _give_up(self, unit: CascadeUnit, why: str) -> None:
        """Leave out a unit that cannot load its stages; raise if no other is left."""
        unit.out = why
        if all(other.out for other in self.units):
            raise WeftError(f"no unit is left: {causes(self.units)}")
        warnings.warn(f"unit '{unit.name}' stays out: {why}", stacklevel=2)

    def _lost(self, unit: CascadeUnit, event: DeviceLost) -> None:
        """Make the work of a dead unit ready again; fail a request that kills units alone."""
        text, loaded = event.text, unit.up
        self._counts["units lost"] += 1
        self._publish("unit lost", unit=unit.name, text=text)
        run, works = unit.current, list(unit.works)
        unit.up = False
        unit.works.clear()
        unit.loading.clear()
        if run is not None:
            self._end_run(run)
            self._blame(run, text)
        self._session.device_lost(unit.name)
        for request, _ in (member for work in works for member in work.members):
            request.running -= 1
            if request.over:
                self._over(request)
        if not loaded and not unit.out:
            unit.deaths += 1
            if unit.deaths >= (MAX_STARTS if event.fault == "exited" else MAX_KILLED_STARTS):
                self._give_up(unit, f"its process dies while it loads its stages: {text}")

    def _blame(self, run: Run, text: str) -> None:
        for request in run.requests:
            request.alone = True
        if len(run.requests) != 1:
            return
        (request,) = run.requests
        request.deaths += 1
        if run.late:
            timeout = self.description.stages[run.task].timeout
            request.fail(DeadlineMissed(f"stage '{run.task}' took longer than {timeout:g} s"))
        elif request.deaths >= MAX_DEATHS:
            request.fail(
                StageFailed(f"stage '{run.task}' failed: {MAX_DEATHS} units died with it: {text}")
            )


def causes(units: list[CascadeUnit]) -> str:
    """Return the names of units that are out, with the reasons."""
    return "; ".join(f"'{unit.name}': {unit.out}" for unit in units)
