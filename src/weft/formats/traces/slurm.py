"""Slurm's accounts: ``sacct --parsable2`` and ``sacct --json``."""

from __future__ import annotations

import math
from typing import Any

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.formats.parsing.quantity import quantity
from weft.formats.parsing.record import Record
from weft.formats.traces.cells import Cells, binary_size, clock, moment, number, table, whole
from weft.formats.traces.recording import MeasuredExecution, Recording

DONE = "COMPLETED"
NOT_STARTED = frozenset({"PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING"})
MEGABYTE = 2**20


def is_sacct(header: str) -> bool:
    """Return whether a first line is that of ``sacct --parsable2``."""
    columns = {c.lower() for c in header.split("|")}
    return "jobid" in columns and bool({"elapsed", "elapsedraw", "start"} & columns)


def is_sacct_json(record: Record) -> bool:
    """Return whether a record is that of ``sacct --json``."""
    jobs = record.content.get("jobs")
    return isinstance(jobs, list) and ("meta" in record or "metadata" in record or _timed(jobs))


def _timed(jobs: list[Any]) -> bool:
    return bool(jobs) and isinstance(jobs[0], dict) and {"job_id", "time"} <= jobs[0].keys()


def read_sacct(text: str, *, name: str) -> Recording:
    """Return the jobs of a table; their steps give only the memory that was used."""
    head, _, rest = text.lstrip().partition("\n")
    rows = table(f"{head.lower()}\n{rest}", "|", needed=("jobid",))
    memory: dict[str, float] = {}
    jobs: dict[str, Cells] = {}
    for row in rows:
        job, step, _ = row.text("jobid").partition(".")
        if not job:
            raise InvalidInput(f"line {row.line}, column 'JobID' is empty")
        memory[job] = max(memory.get(job, 0.0), row.read(binary_size, 0.0, "maxrss"))
        if not step and _state(row.text("state")) not in NOT_STARTED:
            jobs[job] = row  # a job that was requeued has several lines: the last one counts
    made = [_of_row(row, job, memory[job]) for job, row in jobs.items()]
    return Recording(name, "Slurm", tuple(made))


def _state(text: str) -> str:
    return text.partition(" ")[0].rstrip("+")  # CANCELLED by 1000


def _of_row(row: Cells, job: str, memory: float) -> MeasuredExecution:
    kind = row.text("jobname", default="job")
    start, end = (row.read(moment, math.nan, c) for c in ("start", "end"))
    seconds = row.read(number, math.nan, "elapsedraw")
    if math.isnan(seconds):
        seconds = row.read(clock, math.nan, "elapsed")
    if math.isnan(seconds):
        seconds = end - start
    if math.isnan(seconds):
        raise InvalidInput(
            f"line {row.line} has no duration: give sacct --format=JobID,JobName,State,Start,"
            "End,ElapsedRaw,NodeList,AllocCPUS,MaxRSS"
        )
    resources = row.text("alloctres", "reqtres", "allocgres")
    return MeasuredExecution(
        task=f"{kind}-{job}",
        kind=kind,
        seconds=seconds,
        start=start,
        host=row.text("nodelist"),
        device="gpu" if "gpu" in resources else "cpu",
        memory=memory,
        cores=row.read(whole, 1, "alloccpus", "ncpus"),
        done=_state(row.text("state", default=DONE)) == DONE,
    )


def read_sacct_json(record: Record, *, name: str) -> Recording:
    """Return the jobs of a document of any version of Slurm's data parser."""
    made = [_of_job(job) for job in record.children("jobs")]
    return Recording(name, "Slurm", tuple(e for e in made if e is not None))


def _of_job(job: Record) -> MeasuredExecution | None:
    states = _states(job)
    if NOT_STARTED & set(states):
        return None
    kind = job.text("name", "") or "job"
    time = job.child("time")
    start = _number(time, "start", 0.0)
    allocated = job.child("tres").raw("allocated", []) if "tres" in job else []
    counts = _resources(allocated, job.path("tres.allocated"))
    return MeasuredExecution(
        task=f"{kind}-{_whole(job, 'job_id')}",
        kind=kind,
        seconds=_number(time, "elapsed", _number(time, "end", 0.0) - start),
        start=start or math.nan,
        host=job.text("nodes", ""),
        device="gpu" if counts.get("gres", 0) else "cpu",
        memory=counts.get("mem", 0.0) * MEGABYTE,
        cores=max(1, int(min(counts.get("cpu", 1.0), 2.0**30))),
        done=DONE in states,
    )


def _states(job: Record) -> list[str]:
    state = job.raw("state", DONE)
    current = state.get("current", DONE) if isinstance(state, dict) else state
    states = current if isinstance(current, list) else [current]
    for entry in states:
        if not isinstance(entry, str):
            raise InvalidInput(f"{job.path('state')} is {shown(entry)}; it must be a string")
    return states


def _resources(rows: object, where: str) -> dict[str, float]:
    if not isinstance(rows, list):
        raise InvalidInput(f"{where} is {shown(rows)}; it must be a list")
    found: dict[str, float] = {}
    for i, row in enumerate(rows):
        record = Record(row, f"{where}[{i}]")
        found[record.text("type", "")] = _number(record, "count", 0.0)
    return found


def _number(record: Record, key: str, default: float) -> float:
    """Return a number, also in the form {"set": true, "infinite": false, "number": 5}."""
    value = record.raw(key, default)
    if isinstance(value, dict):
        value = value.get("number", default) if value.get("set", True) is True else default
    made = quantity(value, "seconds", record.path(key))
    if not math.isfinite(made):
        raise InvalidInput(f"{record.path(key)} is {made:g}; it must be finite")
    return made


def _whole(record: Record, key: str) -> str:
    value = record.raw(key, 0)
    if isinstance(value, bool) or not isinstance(value, int | str) or len(str(value)[:99]) > 60:
        raise InvalidInput(f"{record.path(key)} is {shown(value)}; it must be a job's number")
    return str(value)
