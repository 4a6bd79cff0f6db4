"""Plans for batch systems: jobs with dependencies, places and priorities.

- `jobs`: one job per task of a plan, and the commands of tasks
- `hyperqueue_script`: a program that submits them to HyperQueue
- `slurm_scripts`: sbatch scripts, and a script that submits them
"""

from weft.formats.batch.hyperqueue_script import write_hyperqueue
from weft.formats.batch.jobs import BatchJob, batch_jobs, load_commands
from weft.formats.batch.slurm_scripts import write_slurm

__all__ = ["BatchJob", "batch_jobs", "load_commands", "write_hyperqueue", "write_slurm"]
