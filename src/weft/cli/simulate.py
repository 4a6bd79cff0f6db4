"""`weft simulate`: a stream of jobs under a policy."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.arguments import (
    add_flag,
    add_option,
    add_problems,
    add_uncertainty,
    excludes,
    read_problem,
    refuse_given,
    taking,
    uncertainty,
)
from weft.cli.plan import add_outputs, save_outputs
from weft.cli.values import number, whole

if TYPE_CHECKING:
    from weft.model import Problem, Trace, Workload

SUMMARY = "simulate a stream of jobs under a policy"
EXAMPLE = (
    "  weft simulate montage.json --gpus 4xV100+2xT4 --policy fifo \\\n"
    "      --jobs 100 --load 0.8 --noise 0.2"
)

PROCESSES = ("batch", "poisson", "regular")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_problems(parser, "workflows or problems; each job runs one of them", many="*")
    text = "a policy by name (see: weft list policies) or file"
    add_option(parser, "--policy", str, "POLICY", text, default="fifo")
    jobs = parser.add_argument_group("jobs")
    add_option(
        jobs, "--workload", Path, "FILE", "the jobs of a workload file, instead of drawn ones"
    )
    add_option(jobs, "--jobs", whole(1), "N", "number of jobs", default=1)
    jobs.add_argument(
        "--arrivals",
        choices=PROCESSES,
        help=f"one of: {', '.join(PROCESSES)} (default: poisson; for one job: batch)",
    )
    rate = jobs.add_mutually_exclusive_group()
    text = "work that arrives per second, as a share of the cluster's capacity (default: 0.7)"
    add_option(rate, "--load", number(above=0), "L", text)
    add_option(rate, "--rate", number(above=0), "R", "jobs per second")
    text = "give each job a deadline: X times its shortest possible time after it arrives"
    add_option(jobs, "--slack", number(above=0), "X", text)
    add_uncertainty(parser)
    share = number(least=0, most=1)
    add_option(parser, "--cancellations", share, "P", "share of jobs cancelled", default=0.0)
    add_flag(parser, "--lazy", "data moves when its consumer is placed, not when it is produced")
    add_outputs(parser, "trace")


def run(args: argparse.Namespace) -> None:
    """Simulate, write and print."""
    from weft.cli.output import name_written, notice, show

    with notice("simulating"):
        trace = _simulated(args)
    try:
        save_outputs(args, trace)
    finally:  # a full disk does not take the figures
        found = figures(trace)
        show(args, found, text(trace, found))
    name_written(args, args.out, args.gantt, args.chrome)


def figures(trace: Trace) -> dict[str, object]:
    """Return the figures of a trace."""
    from weft.model.metrics import trace_metrics

    return {
        "workload": trace.workload.name,
        "policy": trace.policy,
        **trace_metrics(trace).as_dict(),
    }


def text(trace: Trace, found: dict[str, object]) -> str:
    """Return the figures as text, one per line, with units."""
    workload = trace.workload
    jobs = f"{workload.jobs:,} job" + ("s" if workload.jobs > 1 else "")
    head = (
        f"{workload.name}: {jobs}, {workload.instances:,} tasks, {workload.cluster.p} devices, "
        f"policy {trace.policy}"
    )
    unsaid = _unsaid(trace)
    lines = [
        f"  {key.replace('_', ' '):<24}{_shown(key, value)}"
        for key, value in found.items()
        if isinstance(value, int | float) and key not in unsaid
    ]
    return "\n".join([head, *lines])


def _unsaid(trace: Trace) -> set[str]:
    """Return the figures without meaning here, such as misses without deadlines."""
    workload, unsaid = trace.workload, set[str]()
    if not (workload.deadline < float("inf")).any():
        unsaid |= {"deadline_misses", "deadline_miss_share", "in_time_share"}
    if workload.jobs == 1:
        unsaid |= {"jobs", "finished", "cancelled", "jct", "jct_median", "jct_p95", "jct_p99"}
    if not workload.cluster.price.any():
        unsaid.add("cost")
    if not (trace.status != 0).any():
        unsaid |= {"lost", "lost_seconds"}
    return unsaid


SECONDS = (
    "makespan",
    "mean_waiting",
    "mean_turnaround",
    "jct",
    "jct_median",
    "jct_p95",
    "jct_p99",
    "lost_seconds",
)
SHARES = ("efficiency", "utilisation", "deadline_miss_share", "in_time_share")


def _shown(key: str, value: float) -> str:
    """Format a figure with its unit; counts and ratios have none."""
    from weft.model.explain.quantities import (
        format_bytes,
        format_energy,
        format_money,
        format_number,
        format_seconds,
    )

    if key in SECONDS:
        return format_seconds(value)
    if key in SHARES or key.startswith("utilisation of "):
        return f"{format_number(100 * float(value))} %"
    units = {"bytes_moved": format_bytes, "energy": format_energy, "cost": format_money}
    return units.get(key, format_number)(float(value))


def _simulated(args: argparse.Namespace) -> Trace:
    workload = _workload(args)  # bad files are refused before heavy imports
    from weft.policies import simulate

    return simulate(
        workload,
        args.policy,
        seed=args.seed,
        eager=not args.lazy,
        **uncertainty(args),
        cancellations=args.cancellations,
    )


def _workload(args: argparse.Namespace) -> Workload:
    from weft.errors import InvalidInput
    from weft.formats import load_workload
    from weft.generators import stream_of

    if (args.workload is None) == (not args.file):
        raise InvalidInput("give either workflow files or --workload; see: weft simulate --help")
    excludes(args, "--workload", "--jobs --arrivals --load --rate --slack --cluster --gpus")
    if args.workload is not None:
        with taking("workflow files without --workload, and --gpus or --cluster"):
            return load_workload(args.workload)
    process = args.arrivals or ("batch" if args.jobs == 1 else "poisson")
    if process == "batch":
        refuse_given(args, "--load --rate", "when all jobs arrive at once")
    problems: list[Problem] = [read_problem(path, args) for path in args.file]
    return stream_of(
        problems,
        jobs=args.jobs,
        process=process,
        load=args.load,
        rate=args.rate,
        slack=args.slack,
        seed=args.seed,
    )
