"""Events of a run from the reports of tasks on Dask."""

from __future__ import annotations

from collections.abc import Sequence

from weft.runtime.backends.dask.sites import WorkerSite
from weft.runtime.backends.dask.tasks import Report
from weft.runtime.backends.protocol import Failed, Finished, Transfer


def event_of(
    number: int,
    device: int,
    report: Report,
    site: WorkerSite,
    sites: Sequence[WorkerSite],
    origin: float,
) -> Finished | Failed:
    """Return the end of an order on a device of `site`; the run began at `origin`."""
    start, finish = (report[k] - site.offset - origin for k in ("start", "finish"))
    if "fault" in report:
        words = report["fault"], report["text"], report.get("traceback", "")
        return Failed(number, device, start, finish, *words)
    near = {s.address: s.devices[0] for s in sites if report["transfers"]}
    moved = tuple(
        Transfer(near.get(source, device), size, seconds)
        for source, size, seconds in report["transfers"]
    )
    return Finished(
        number,
        device,
        start,
        finish,
        (float(report["size"]),),
        (tuple(report["branches"]),),
        moved,
        site.id,
    )
