"""`weft plan`: a schedule for a workflow on a cluster."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli.arguments import (
    add_flag,
    add_option,
    add_planner,
    add_problems,
    excludes,
    read_problem,
)
from weft.cli.values import chart, number, output, picture, result_file, whole
from weft.errors import InvalidInput

if TYPE_CHECKING:
    from weft.model import Cluster, Problem, Trace
    from weft.planners import Plan

SUMMARY = "plan a workflow: which task runs where and when"
ROWS = 40
"""Rows of the table of tasks without --all."""

NOT_FRONT = "--planner --objective --duplicate --iterations --threads --all --out --gantt --chrome"
"""Options that do not count for the front of --pareto."""

EXAMPLE = """\
  weft plan montage.json --gpus 4xV100+2xT4 --planner heft --gantt montage.html
  weft plan graph.json --variants ways.toml --min-accuracy 0.9
  weft plan graph.json --variants ways.toml --pareto --picture front.svg"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_problems(parser, "a workflow or problem in any known format (see: weft list formats)")
    add_planner(parser)
    search = parser.add_argument_group("for planners that search (see docs: Planners)")
    objectives = "makespan (default), energy or waiting, or weights: makespan=1,energy=0.01"
    add_option(search, "--objective", str, "NAME", objectives)
    add_flag(
        search, "--duplicate", "allow copies: a task may run on several devices, to save transfers"
    )
    add_option(
        search, "--iterations", whole(1), "N", "stop after N moves of the search, not after a time"
    )
    add_option(search, "--threads", whole(1), "N", "threads (default: one per core)")
    ways = parser.add_argument_group("for tasks with variants (see docs: Machines)")
    add_option(ways, "--variants", Path, "TOML", "several ways to run tasks or kinds of tasks")
    add_option(ways, "--min-accuracy", float, "A", "least mean accuracy of the variants")
    add_option(ways, "--budget", number(above=0), "M", "most money, for rent and variants")
    add_flag(ways, "--pareto", "print the Pareto front of makespan, cost, energy and accuracy")
    add_option(ways, "--picture", picture, "FILE", "the front, as HTML, SVG or PNG")
    add_flag(parser, "--all", f"print all tasks (default: the first {ROWS})")
    add_outputs(parser, "schedule")


def add_outputs(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the files a result can be written to."""
    group = parser.add_argument_group("files to write")
    add_option(group, "--out", result_file, "FILE", f"the {what}, as JSON or NPZ")
    add_option(group, "--gantt", chart, "FILE", "the Gantt chart, as HTML, SVG or PNG")
    add_option(group, "--chrome", output, "FILE", "a Chrome trace, for ui.perfetto.dev")


def save_outputs(args: argparse.Namespace, result: Plan | Trace) -> None:
    """Write the files of `add_outputs`."""
    from weft.formats import save, save_chrome_trace
    from weft.model import Trace

    bare = result if isinstance(result, Trace) else result.schedule
    if args.out is not None:
        save(bare, args.out)
    if args.gantt is not None:
        from weft.report.gantt.static import save_gantt

        save_gantt(result, args.gantt)
    if args.chrome is not None:
        problem = None if isinstance(result, Trace) else result.problem
        save_chrome_trace(bare, args.chrome, problem=problem)


def run(args: argparse.Namespace) -> None:
    """Plan, write and print."""
    from weft.cli.output import emit, name_written, notice

    for front in ("--pareto", "--picture"):
        excludes(args, front, NOT_FRONT)
    with notice(f"planning {args.file.name}"):
        from weft.planners.planner import timed_plan

        problem = with_variants(read_problem(args.file, args), args.variants)
        if args.pareto or args.picture is not None:
            print_front(problem, args)
            return
        made = timed_plan(
            problem, args.planner, seconds=args.seconds, seed=args.seed, **search_options(args)
        )
    try:
        save_outputs(args, made)
    finally:  # a full disk does not take the plan
        if args.json:
            rows = {**made.schedule.to_arrays(), **made.schedule.names(made.problem)}
            emit({**figures(made), "schedule": rows})
        else:
            print(text(made, args))
    name_written(args, args.out, args.gantt, args.chrome)


def with_variants(problem: Problem, path: Path | None) -> Problem:
    """Return the problem with the variants of a file."""
    if path is None:
        return problem
    from dataclasses import replace

    from weft.formats.native.variants import load_variants
    from weft.model import Problem

    return Problem.bind(replace(problem.workflow, variants=load_variants(path)), problem.cluster)


def print_front(problem: Problem, args: argparse.Namespace) -> None:
    """Print and draw the front of the variants."""
    from math import inf

    from weft.cli.output import show_answer
    from weft.planners.variants import pareto
    from weft.report.answers import front_text, save_trade_off

    front = pareto(
        problem,
        min_accuracy=-inf if args.min_accuracy is None else args.min_accuracy,
        budget=inf if args.budget is None else args.budget,
        seconds=args.seconds,
        seed=args.seed,
    )
    document = {"problem": problem.name, "front": [one.as_dict() for one in front]}
    show_answer(args, document, front_text(front), lambda path: save_trade_off(front, path))


def search_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the given options of planners that search; others refuse them."""
    given: dict[str, Any] = {
        "objective": None if args.objective is None else read_objective(args.objective),
        "duplicate": args.duplicate or None,
        "iterations": args.iterations,
        "min_accuracy": args.min_accuracy,
        "budget": args.budget,
        "threads": args.threads,
    }
    return {name: value for name, value in given.items() if value is not None}


def read_objective(text: str) -> str | dict[str, float]:
    """Read the name of a quantity, or weights.

    Examples
    --------
    >>> read_objective("energy"), read_objective("makespan=1,energy=0.01")
    ('energy', {'makespan': 1.0, 'energy': 0.01})
    """
    if "=" not in text:
        return text
    weights = {}
    for part in text.split(","):
        name, _, weight = part.partition("=")
        try:
            weights[name.strip()] = float(weight)
        except ValueError:
            raise InvalidInput(
                f"--objective has '{part}'; give weights like makespan=1,energy=0.01"
            ) from None
    return weights


def figures(made: Plan) -> dict[str, object]:
    """Return the figures of a plan, for JSON."""
    from weft.model.metrics import schedule_metrics

    problem = made.problem
    return {
        "problem": problem.name,
        "tasks": problem.n,
        "edges": problem.m,
        "devices": problem.p,
        "planner": made.planner,
        "makespan": made.makespan,
        "bound": made.bound,
        "gap": made.gap,
        "energy": made.energy,
        "cost": made.cost,
        "status": made.status,
        "seconds": made.seconds,
        "copies": made.schedule.copies,
        "capacity_use": schedule_metrics(problem, made.schedule).capacity_use,
        **chosen_variants(made),
    }


def table(made: Plan, most: int | None) -> list[str]:
    """Return which task runs where and when, by start; at most `most` tasks."""
    import numpy as np

    from weft.report.tables import Column, table_text

    schedule, names = made.schedule, made.problem.cluster.names
    if not len(schedule):
        return []
    order = np.lexsort((schedule.task, schedule.finish, schedule.start))[:most].tolist()
    rows = [
        {
            "task": made.problem.workflow.task_name(int(schedule.task[i])),
            "device": names[int(schedule.device[i])] + (" (copy)" if schedule.copy[i] else ""),
            "start": float(schedule.start[i]),
            "finish": float(schedule.finish[i]),
        }
        for i in order
    ]
    times = (Column("start", unit="s"), Column("finish", unit="s"))
    lines = ["", table_text(rows, (Column("task"), Column("device"), *times))]
    if len(rows) < len(schedule):
        lines.append(f"... and {len(schedule) - len(rows):,} more; --all prints all")
    return [*lines, ""]


def text(made: Plan, args: argparse.Namespace) -> str:
    """Return a plan and its figures as text."""
    from weft.model.explain.quantities import format_seconds

    problem = made.problem
    verdict = (
        "optimal"
        if made.status == "optimal"
        else f"at most {100 * made.gap:.1f} % above the optimum"
    )
    if made.schedule.copies:
        verdict += f", {made.schedule.copies} copies"
    limit = f"bound {format_seconds(made.bound)}"
    given = args.gpus is not None or args.cluster is not None
    own = "" if given or problem.cluster.name == problem.name else f" ({problem.cluster.name})"
    lines = [
        f"{problem.name}: {problem.n} tasks, {problem.m} edges, {problem.p} devices{own}",
        f"{made.planner}: makespan {format_seconds(made.makespan)}, {limit} ({verdict})",
        *expenses(made.problem.cluster, made.energy, made.problem.cluster.rent(made.makespan)),
        *capacities(made),
        *variant_lines(made),
        *network(problem.cluster),
        f"planned in {format_seconds(made.seconds)}",
        *table(made, None if args.all else ROWS),
    ]
    return "\n".join(lines)


def chosen_variants(made: Plan) -> dict[str, object]:
    """Return the chosen variants and their accuracy, if tasks have some."""
    if not made.variants:
        return {}
    names = {task: variant.name for task, variant in made.variants.items()}
    known = made.accuracy == made.accuracy  # not NaN
    return {"accuracy": made.accuracy if known else None, "variants": names}


def variant_lines(made: Plan) -> list[str]:
    """Return a line on the chosen variants, if tasks have some."""
    from weft.model.explain.quantities import format_money
    from weft.report.answers.trade_off import counted

    found = chosen_variants(made)
    if not found:
        return []
    names = counted({task: variant.name for task, variant in made.variants.items()})
    accuracy = "" if found["accuracy"] is None else f"; mean accuracy {made.accuracy:.4g}"
    spent = sum(variant.cost for variant in made.variants.values())
    cost = f"; cost {format_money(spent)}" if spent else ""
    return [f"variants: {names}{accuracy}{cost}"]


def capacities(made: Plan) -> list[str]:
    """Return a line on the use of capacities that tasks share, if there are any."""
    from weft.model.explain.quantities import format_share
    from weft.model.metrics import schedule_metrics

    used = schedule_metrics(made.problem, made.schedule).capacity_use if made.problem.shared else {}
    shares = ", ".join(f"{name} {format_share(share)}" for name, share in used.items())
    return [f"utilisation: {shares}"] if shares else []


def network(cluster: Cluster) -> list[str]:
    """Return a line on the links that transfers share, if they do."""
    return [f"shared links: {cluster.network}"] if cluster.network is not None else []


def expenses(cluster: Cluster, energy: float, cost: float) -> list[str]:
    """Return a line on energy and rent, where devices have power or prices."""
    from weft.model.explain.quantities import format_energy, format_money

    parts = []
    if cluster.power.any() or cluster.idle_power.any():
        parts.append(f"energy {format_energy(energy)}")
    if cluster.price.any():
        hourly = format_money(cluster.rent(3600.0))
        parts.append(f"rent {format_money(cost)} (all devices until the end, {hourly} per hour)")
    return [", ".join(parts)] if parts else []
