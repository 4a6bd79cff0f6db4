"""`weft export`: a plan as jobs of a batch system."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.arguments import (
    add_file,
    add_flag,
    add_option,
    add_planner,
    add_problem,
    excludes,
    read_problem,
    refuse_given,
)
from weft.cli.values import folder, number, whole
from weft.errors import InvalidInput

if TYPE_CHECKING:
    from weft.model import Problem, Schedule

SUMMARY = "write a plan as jobs of Slurm or HyperQueue"
EXAMPLE = """\
  weft export slurm montage.json --cluster cluster.toml --commands commands.json --out jobs
  jobs/submit.sh --partition=long

  weft plan montage.json --cluster cluster.toml --planner anytime --out plan.json
  weft export slurm plan.json --problem montage.json --cluster cluster.toml --out jobs

  commands.json is {"task or kind": ["program", "argument", ...]}, {task} stands for the task's
  name; commands of a WfFormat file need no --commands."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("engine", choices=("slurm", "hyperqueue"), help="the batch system")
    add_file(parser, "a workflow or problem, to be planned; with --problem: a saved schedule")
    add_problem(parser)
    add_planner(parser)
    add_option(
        parser, "--commands", Path, "JSON", "the commands of tasks or task kinds (see below)"
    )
    add_option(parser, "--out", folder, "DIR", "a new or empty folder", required=True)
    slurm = parser.add_argument_group("for slurm")
    add_flag(slurm, "--any-node", "let Slurm choose nodes (default: those planned)")
    text = "difference in nice between one job of the plan and the next"
    add_option(slurm, "--nice-step", whole(0), "N", text, default=1)
    limit = "time limit of a job, in multiples of its planned time (default: that of the partition)"
    add_option(slurm, "--time-factor", number(above=0), "X", limit)


def run(args: argparse.Namespace) -> None:
    """Write the files and say how to submit them."""
    from weft.cli.output import notice, show

    excludes(args, "--problem", "--planner --seconds --seed")
    if args.engine != "slurm":
        refuse_given(args, "--any-node --nice-step --time-factor", f"for {args.engine}")
    with notice(f"planning {args.file.name}"):
        from weft.formats.batch import batch_jobs, load_commands, write_hyperqueue, write_slurm

        problem, schedule = _planned(args)
        source = args.commands or args.problem or args.file
        jobs = batch_jobs(problem, schedule, load_commands(source))
        if args.engine == "slurm":
            written = write_slurm(
                jobs,
                args.out,
                nodes=not args.any_node,
                nice_step=args.nice_step,
                time_factor=args.time_factor,
            )
        else:
            written = write_hyperqueue(jobs, args.out)
    document = {"engine": args.engine, "jobs": len(jobs), "files": [str(path) for path in written]}
    start = args.out / ("submit.sh" if args.engine == "slurm" else "submit.py")
    show(args, document, f"wrote {len(jobs)} jobs to {args.out}\nsubmit them with: {start}")


def _planned(args: argparse.Namespace) -> tuple[Problem, Schedule]:
    from weft.formats import load_schedule
    from weft.model.check import check
    from weft.planners.planner import timed_plan

    if args.problem is None:
        problem = read_problem(args.file, args)
        made = timed_plan(problem, args.planner, seconds=args.seconds, seed=args.seed)
        return problem, made.schedule
    problem, schedule = read_problem(args.problem, args), load_schedule(args.file)
    wrong = check(problem, schedule)
    if wrong:
        raise InvalidInput(f"{args.file}: is no schedule of {args.problem}: {wrong[0]}")
    return problem, schedule
