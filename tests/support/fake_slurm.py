"""Slurm's commands for machines without Slurm: srun runs its command here."""

from __future__ import annotations

import os
from pathlib import Path

SRUN = """\
#!/bin/sh
# Keeps the options beside the script; runs the command after them.
echo "$@" | head -1 >> "$(dirname "$0")/calls"
while [ "${1#--}" != "$1" ]; do
  case "$1" in --nodelist=*) export SLURMD_NODENAME="${1#--nodelist=}";; esac
  shift
done
"$@"
code=$?
exit $code
"""
SCONTROL = """\
#!/bin/sh
[ "$3" = "n[0-1]" ] && printf 'n0\\nn1\\n' && exit 0
echo "scontrol: error: bad list" >&2
exit 1
"""
ALLOCATION = {
    "SLURM_JOB_ID": "17",
    "SLURM_JOB_NODELIST": "n[0-1]",
    "SLURM_JOB_CPUS_PER_NODE": "2(x2)",
}


def fake_allocation(folder: Path) -> dict[str, str]:
    """Write the commands to a folder; return the variables of an allocation of two nodes."""
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        path = folder / name
        path.write_text(text)
        path.chmod(0o755)
    return {**ALLOCATION, "PATH": f"{folder}:{os.environ['PATH']}"}
