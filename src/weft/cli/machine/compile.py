"""`weft compile`: compile kernels ahead of their first use."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.arguments import add_names
from weft.cli.values import folder
from weft.errors import InvalidInput, UnknownName
from weft.registry import closest

if TYPE_CHECKING:
    from weft.model import Problem

SUMMARY = "compile kernels ahead of their first use"
EXAMPLE = """\
  weft compile                       # all, for this user: for the build of an image
  weft compile heft anytime fifo     # these planners and policies
  weft compile --into kernels        # for any processor of the level x86-64-v3, into a folder"""

LEFT_OUT = {"exact", "deepsched"}
"""Planners without kernels of their own, or with an extra."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    text = "a planner or policy (default: all of them; see: weft list)"
    add_names(parser, "names", text, many="*")
    parser.add_argument(
        "--into",
        type=folder,
        metavar="DIR",
        help="write them to this new or empty folder, as in wheels of weft",
    )


def run(args: argparse.Namespace) -> None:
    """Compile for this user, or into a folder for other machines."""
    from weft.cli.output import show

    names = _known(args.names)
    if args.into is None:
        count, text = _compile_here(names)
    else:
        count, text = _compile_into(args.into, names)
    show(args, {"names": names, "into": args.into and str(args.into), "compiled": count}, text)


def _compile_here(names: list[str]) -> tuple[int, str]:
    """Compile by using; return the number of functions and a sentence."""
    from weft.sim.kernel.jit import compiled

    before, problem = compiled(), _problem()
    for number, name in enumerate(names, start=1):
        print(f"weft: {name} ({number} of {len(names)})", file=sys.stderr, flush=True)
        use(name, problem)
    count = compiled() - before
    return count, f"compiled {count} functions; all others were cached"


def _compile_into(into: Path, names: list[str]) -> tuple[int, str]:
    """Compile in a process of its own, since numba reads the target at its start."""
    from weft.formats.batch.jobs import make_empty
    from weft.sim.kernel.jit.stored import has_level, level_environment

    if not has_level():
        raise InvalidInput("--into compiles for x86-64-v3; this processor is of another kind")
    make_empty(into)
    environment = {**os.environ, **level_environment(into.resolve())}
    command = [sys.executable, "-m", "weft", "compile", *names]
    made = subprocess.run(  # noqa: S603  # this Python, this program
        command, env=environment, check=False, stdout=subprocess.DEVNULL
    )
    if made.returncode:
        raise InvalidInput("compiling failed; the lines above say why")
    count = len(list(into.rglob("*.nbc")))
    return count, f"{count} kernels in {into}"


def use(name: str, problem: Problem) -> None:
    """Use the kernels that a planner or policy needs for a plain problem or stream.

    Plans and rules also run on machines with capacities, which have kernels of their own.
    """
    import weft
    from weft.formats.native.stream_toml import load_stream
    from weft.learn.conditional.scores import completions
    from weft.policies.rules import RulePolicy

    policies = {str(entry): entry for entry in weft.list_policies()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a problem that is too small to matter
        if name in weft.list_planners():
            plan = weft.plan(problem, name, seconds=0.1 if name == "anytime" else None)
            weft.simulate(problem, plan, noise=0.3, seed=1)
            weft.simulate(_with_capacities(problem), plan)
            assert plan.bound <= plan.makespan  # the bound is computed when it is read
        if name in policies and policies[name].supports(problem):
            weft.simulate(problem, name, noise=0.3, seed=1)
            if isinstance(weft.load_policy(name), RulePolicy):
                weft.simulate(_with_capacities(problem), name)
        elif name in policies:
            stream = load_stream("conditional-paper").with_jobs(20)
            completions(weft.load_policy(name), [stream], [1])


def _known(names: list[str]) -> list[str]:
    """Return the names, by default all; refuse others."""
    import weft

    known = list(dict.fromkeys([*weft.list_planners(), *map(str, weft.list_policies())]))
    for name in names:
        if name not in known:
            near = closest(name, known, listing="weft list")
            raise UnknownName(f"no planner or policy {name!r}{near}")
    return names or [name for name in known if name not in LEFT_OUT]


def _problem() -> Problem:
    """Return the problem of the README."""
    import weft

    workflow = weft.generate("cholesky", tiles=8, tile_size=7680)
    return weft.Problem.bind(workflow, weft.gpu_cluster("4xV100+2xA100+4xT4"))


def _with_capacities(problem: Problem) -> Problem:
    """Return the problem on nodes with room for all of its tasks."""
    import numpy as np

    import weft

    workflow = replace(problem.workflow, needs={"slots": np.ones(problem.n)})
    room = np.full(len(problem.cluster.node_names), float(problem.p))
    return weft.Problem.bind(workflow, replace(problem.cluster, capacity={"slots": room}))
