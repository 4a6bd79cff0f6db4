"""HyperQueue: the jobs as data, and a program that submits them as one graph."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from weft.formats.batch.jobs import BatchJob, make_empty, parents_first

RESOURCES = {"gpu": "gpus/nvidia"}
"""Names of resources that HyperQueue's workers call otherwise."""

PROGRAM = '''\
#!/usr/bin/env python3
"""Submit the tasks of tasks.json to a HyperQueue server (pip install hyperqueue) and wait.

usage: submit.py [SERVER_DIR]
"""

import json
import sys
from pathlib import Path

from hyperqueue import Client, Job
from hyperqueue.ffi.protocol import ResourceRequest

here = Path(__file__).resolve().parent
(here / "logs").mkdir(exist_ok=True)
job, tasks = Job(name=here.name, max_fails=None), {}
for task in json.loads((here / "tasks.json").read_text()):
    tasks[task["number"]] = job.program(
        task["command"],
        name=task["name"],
        deps=[tasks[parent] for parent in task["parents"]],
        priority=task["priority"],
        resources=ResourceRequest(cpus=task["cpus"], resources=task["resources"]),
        stdout=str(here / "logs" / f"{task['number']}.out"),
        stderr=str(here / "logs" / f"{task['number']}.err"),
    )
client = Client(sys.argv[1] if len(sys.argv) > 1 else None)
client.wait_for_jobs([client.submit(job)])
'''


def write_hyperqueue(jobs: Sequence[BatchJob], folder: Path) -> list[Path]:
    """Write ``tasks.json`` and ``submit.py`` to a new or empty folder.

    A task that starts earlier in the plan has a higher priority; HyperQueue chooses the worker.
    """
    make_empty(folder)
    rows = [
        {
            "number": job.number,
            "name": job.name,
            "command": list(job.command),
            "parents": list(job.parents),
            "priority": len(jobs) - job.order,
            "cpus": job.cpus,
            "resources": {
                **({"mem": job.megabytes} if job.megabytes else {}),
                **{RESOURCES.get(name, name): amount for name, amount in job.resources.items()},
            },
        }
        for job in parents_first(jobs)
    ]
    (folder / "tasks.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    program = folder / "submit.py"
    program.write_text(PROGRAM, encoding="utf-8")
    program.chmod(0o755)
    return [folder / "tasks.json", program]
