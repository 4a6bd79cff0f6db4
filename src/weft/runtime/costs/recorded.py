"""Records of other engines as measurements of the history."""

from __future__ import annotations

from pathlib import Path

from weft.formats import Recording, load_recording
from weft.runtime.costs.history import History, Measurement


def measurements(recording: Recording, *, device: str | None = None) -> list[Measurement]:
    """Return a measurement per successful execution; `device` replaces the recorded kind.

    Examples
    --------
    >>> from weft.formats import MeasuredExecution
    >>> done = MeasuredExecution("align-1", "align", 12.5, output=1e6)
    >>> measurements(Recording("run", "Nextflow", (done,)), device="A100")[0].device
    'A100'
    """
    return [
        Measurement(e.kind, device or e.device, e.seconds, output=e.output)
        for e in recording.executions
        if e.done
    ]


def import_recording(history: History, path: str | Path, *, device: str | None = None) -> int:
    """Add the executions of a trace of another engine; return their number.

    A file with a bad value adds nothing. The same file added twice counts twice.
    """
    found = measurements(load_recording(path), device=device)
    history.add(found)
    return len(found)
