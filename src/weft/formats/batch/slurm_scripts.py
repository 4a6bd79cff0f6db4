"""Slurm: one sbatch script per task, and one that submits them in their order."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from weft.errors import InvalidInput, visible
from weft.formats.batch.jobs import BatchJob, make_empty, parents_first

COLUMNS = "JobID,JobName,State,Start,End,ElapsedRaw,NodeList,AllocCPUS,MaxRSS,AllocTRES"
"""Columns of ``sacct`` that weft reads."""

_PLAIN = re.compile(r"[\w][\w.:-]*", re.ASCII)
_ODD = re.compile(r"""['"\\#%/]""")

MAX_NICE = 2_000_000_000
"""Slurm's limit is a little above."""


def write_slurm(
    jobs: Sequence[BatchJob],
    folder: Path,
    *,
    nodes: bool = True,
    nice_step: int = 1,
    time_factor: float | None = None,
) -> list[Path]:
    """Write ``jobs/*.sh``, ``submit.sh`` and ``measure.sh`` to a new or empty folder.

    Parameters
    ----------
    nodes : ask for the node of the plan
    nice_step : a job that starts k places later in the plan has this times k more of nice
    time_factor : limit of a job, in its planned seconds; default: that of the partition
    """
    make_empty(folder)
    (folder / "jobs").mkdir()
    (folder / "logs").mkdir()
    width = len(str(len(jobs)))
    files = {job.number: f"jobs/{job.order:0{width}}.sh" for job in jobs}
    for job in jobs:
        options = job_options(job, nodes=nodes, nice_step=nice_step, time_factor=time_factor)
        lines = ["#!/bin/bash", f"# task {_in_one_line(job.name)}"]
        lines += [f"#SBATCH {option}" for option in options]
        _write(folder / files[job.number], [*lines, f"exec {shlex.join(job.command)}"])
    _write(folder / "submit.sh", submit_lines(jobs, files))
    _write(folder / "measure.sh", MEASURE)
    return [folder / "submit.sh", folder / "measure.sh"]


def job_options(
    job: BatchJob, *, nodes: bool, nice_step: int, time_factor: float | None
) -> list[str]:
    """Return the options of ``sbatch`` for a job.

    Examples
    --------
    >>> job = BatchJob(0, "a", "align", ("bwa",), (), "n0", 3, 5.0, cpus=2, resources={"gpu": 1})
    >>> job_options(job, nodes=True, nice_step=10, time_factor=None)[1:]
    ['--ntasks=1', '--cpus-per-task=2', '--nodelist=n0', '--gres=gpu:1', '--nice=30']
    """
    gres = ",".join(
        f"{_plain(name, 'capacity')}:{amount}" for name, amount in job.resources.items()
    )
    minutes = 0 if time_factor is None else math.ceil(job.seconds * time_factor / 60.0)
    return [
        f"--job-name={shlex.quote(_job_name(job.kind))}",
        "--ntasks=1",
        f"--cpus-per-task={job.cpus}",
        *([f"--mem={job.megabytes}M"] if job.megabytes else []),
        *([f"--nodelist={_plain(job.node, 'node')}"] if nodes and job.node else []),
        *([f"--gres={gres}"] if gres else []),
        *([f"--time={max(1, minutes)}"] if time_factor is not None else []),
        f"--nice={min(nice_step * job.order, MAX_NICE)}",
    ]


def submit_lines(jobs: Sequence[BatchJob], files: dict[int, str]) -> list[str]:
    """Return the script that submits jobs after those they need and keeps their ids."""
    lines = [
        "#!/bin/bash",
        "# Submits every job; job.ids has a line per task: its name and Slurm's number.",
        "# Arguments are passed on to sbatch, e.g. --partition=long.",
        "set -euo pipefail",
        'cd "$(dirname "$0")"',
        ": > job.ids",
        'submit() { id=$(sbatch --parsable --output=logs/%j.out "$@"); id=${id%%;*}; }',
    ]
    for job in parents_first(jobs):
        after = "".join(f":${{j{p}}}" for p in job.parents)
        needs = f"--dependency=afterok{after} --kill-on-invalid-dep=yes " if after else ""
        lines.append(f'submit {needs}"$@" {files[job.number]}; j{job.number}=$id')
        lines.append(
            f"printf '%s\\t%s\\n' {shlex.quote(_in_one_line(job.name))} \"$id\" >> job.ids"
        )
    return [*lines, f'echo "submitted {len(jobs)} jobs; their numbers are in job.ids"']


MEASURE = [
    "#!/bin/bash",
    "# Writes what Slurm measured to sacct.txt; `weft history --trace sacct.txt` learns from it.",
    "# Arguments are passed on to sacct: -c where Slurm has a log of jobs, but no database.",
    "set -euo pipefail",
    'cd "$(dirname "$0")"',
    f'sacct "$@" --parsable2 --format={COLUMNS} --jobs="$(cut -f2 job.ids | paste -sd,)" \\',
    "  > sacct.txt",
]


def _in_one_line(text: str) -> str:
    return visible(" ".join(text.split()))


def _plain(name: str, what: str) -> str:
    """Return a name that sbatch neither splits nor expands."""
    if _PLAIN.fullmatch(name):
        return name
    raise InvalidInput(
        f"{what} '{name}' is no name that Slurm accepts: it has other characters than letters, "
        "digits and any of _.:-"
        + ("; leave out the nodes of the plan (--any-node)" if what == "node" else "")
    )


def _job_name(kind: str) -> str:
    """Return a kind without the characters that sbatch's reader of options interprets."""
    return _ODD.sub("_", _in_one_line(kind))


def _write(path: Path, lines: Sequence[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o755)
