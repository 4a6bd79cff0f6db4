"""Arguments that several verbs share, and the files they name."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli.values import number, whole
from weft.errors import InvalidInput

if TYPE_CHECKING:
    from weft.model import Cluster, Problem, Schedule, Trace


PROBLEM_OPTIONS = "--problem --cluster --gpus"
"""Options with the problem of schedules."""


def add_option(
    group: argparse._ActionsContainer,
    flag: str,
    read: Callable[[str], object],
    metavar: str,
    text: str,
    *,
    default: object = None,
    **more: Any,
) -> None:
    """Add an option with one value; its help names its default."""
    if default is not None and "default:" not in text:
        text += (
            f" (default: {default:g})" if isinstance(default, float) else f" (default: {default})"
        )
    group.add_argument(flag, type=read, metavar=metavar, help=text, default=default, **more)


def add_flag(group: argparse._ActionsContainer, flag: str, text: str) -> None:
    """Add an option without a value."""
    group.add_argument(flag, action="store_true", help=text)


def add_file(parser: argparse.ArgumentParser, text: str, *, many: str | None = None) -> None:
    """Add the file, or with `many` the files ("*" or "+"), that a verb reads."""
    parser.add_argument("file", type=Path, nargs=many, metavar="FILE", help=text)


def add_problems(parser: argparse.ArgumentParser, text: str, *, many: str | None = None) -> None:
    """Add the files of `add_file`; --cluster and --gpus for those without machines."""
    add_file(parser, text, many=many)
    add_cluster(parser)


def add_problem(parser: argparse.ArgumentParser) -> None:
    """Add --problem, --cluster and --gpus: the problem of schedules, which hold none."""
    text = "the problem or workflow of schedules; traces hold their own"
    add_option(parser, "--problem", Path, "FILE", text)
    add_cluster(parser)


def add_planner(parser: argparse.ArgumentParser) -> None:
    """Add --planner, --seconds and --seed."""
    text = "the planner (default: heft; see: weft list planners)"
    add_option(parser, "--planner", str, "NAME", text, default="heft")
    add_seconds(parser)
    add_seed(parser)


def planning(args: argparse.Namespace) -> dict[str, Any]:
    """Return the values of `add_planner` as options of a function that plans."""
    return options_of(args, "planner", "seconds", "seed")


def options_of(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return arguments of the command line as options of the same names.

    Examples
    --------
    >>> options_of(argparse.Namespace(seed=3, steps=5, json=True), "steps", "seed")
    {'steps': 5, 'seed': 3}
    """
    return {name: getattr(args, name) for name in names}


def given_options(argv: Sequence[str]) -> frozenset[str]:
    """Return the options among the words of a command line.

    Examples
    --------
    >>> sorted(given_options(["a.json", "--seed=3", "--json", "--", "--no-option"]))
    ['--json', '--seed']
    """
    words = takewhile(lambda word: word != "--", argv)
    return frozenset(word.partition("=")[0] for word in words if word.startswith("--"))


def needs(args: argparse.Namespace, options: str, *others: str) -> None:
    """Refuse each of the `options`, separated by blanks, without one of the others."""
    for option in options.split():
        if option in args.given and not args.given.intersection(others):
            raise InvalidInput(
                f"{option} counts only with {' or '.join(others)}; add it or leave {option} out"
            )


def excludes(args: argparse.Namespace, option: str, others: str) -> None:
    """Refuse each of the others, separated by blanks, if the option is given too."""
    if option in args.given:
        refuse_given(args, others, f"with {option}")


def refuse_given(args: argparse.Namespace, options: str, why: str) -> None:
    """Refuse each of the `options`, separated by blanks, because it does not count."""
    for option in options.split():
        if option in args.given:
            raise InvalidInput(f"{option} does not count {why}; leave {option} out")


def add_names(parser: argparse.ArgumentParser, name: str, text: str, *, many: str) -> None:
    """Add the names ("*" or "+" of them) of what a verb is about."""
    parser.add_argument(name, nargs=many, metavar=name.removesuffix("s").upper(), help=text)


def add_seconds(parser: argparse.ArgumentParser, default: float | None = None) -> None:
    """Add --seconds, the time limit of a plan."""
    text = "time limit of each plan in seconds, for planners that search"
    add_option(parser, "--seconds", number(above=0), "S", text, default=default)


def add_stream_objective(parser: argparse.ArgumentParser) -> None:
    """Add --objective, what a training for a stream minimises."""
    parser.add_argument(
        "--objective",
        choices=("completion", "tardiness", "late"),
        default="completion",
        help="minimise the mean completion time, the mean time of jobs after the deadline of the "
        "stream (tardiness), or the share of jobs that end after it (late) (default: completion)",
    )


def add_stream(parser: argparse.ArgumentParser) -> None:
    """Add --stream, a conditional stream."""
    text = "a stream file, or a name (see: weft list streams)"
    add_option(parser, "--stream", str, "TOML", text, default="conditional-paper")


def add_json(parser: argparse.ArgumentParser, default: Any = False) -> None:
    """Add --json."""
    text = "print one JSON document and nothing else"
    parser.add_argument("--json", action="store_true", default=default, help=text)


def add_subcommand(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    summary: str,
    example: str,
) -> argparse.ArgumentParser:
    """Add a subcommand with an example and --json."""
    command = commands.add_parser(
        name,
        help=summary,
        description=summary,
        epilog=f"example:\n{example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_json(command, default=argparse.SUPPRESS)
    return command


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add --cluster and --gpus: two ways to describe the cluster."""
    where = parser.add_mutually_exclusive_group()
    add_option(where, "--cluster", Path, "TOML", "the cluster, a TOML file")
    text = "the cluster as GPU counts: 4xV100+2xT4 (see: weft list devices)"
    add_option(where, "--gpus", str, "SPEC", text)


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Add --seed."""
    add_option(parser, "--seed", whole(0), "N", "the same seed gives the same result", default=0)


def add_uncertainty(parser: argparse.ArgumentParser) -> None:
    """Add the options of drawn scenarios, and --seed."""
    add_seed(parser)
    group = parser.add_argument_group("uncertainty")
    text = "spread of durations: standard deviation of their logarithm; 0.3 is about 30 %%"
    add_option(group, "--noise", number(least=0), "S", text, default=0.0)
    text = "the same for estimates, one factor per task kind and device kind"
    add_option(group, "--bias", number(least=0), "S", text, default=0.0)
    add_option(
        group, "--slowdowns", number(least=0), "R", "expected slowdowns per device", default=0.0
    )
    add_option(
        group, "--failures", number(least=0), "R", "expected failures per device", default=0.0
    )


def uncertainty(args: argparse.Namespace) -> dict[str, Any]:
    """Return the values of `add_uncertainty` as options of `Scenario.draw`."""
    return {key: getattr(args, key) for key in ("noise", "bias", "slowdowns", "failures")}


def read_cluster(args: argparse.Namespace) -> Cluster | None:
    """Return the cluster of --cluster or --gpus, or None."""
    if args.gpus is not None:
        from weft.generators import gpu_cluster

        return gpu_cluster(args.gpus)
    if args.cluster is not None:
        from weft.formats import load_cluster

        return load_cluster(args.cluster)
    return None


@contextmanager
def taking(what: str) -> Iterator[None]:
    """Name what a verb takes, not what reads the content of the file that is given."""
    try:
        yield
    except InvalidInput as error:
        text, hint, _ = str(error).partition("; read it with ")
        if not hint:
            raise
        raise InvalidInput(f"{text}; give {what}") from None


def read_results(
    paths: Sequence[Path], args: argparse.Namespace
) -> list[tuple[Schedule | Trace, Problem | None]]:
    """Return schedules with the problem of --problem, and traces, which hold theirs."""
    from weft.formats import load_result
    from weft.model import Schedule

    with taking("a schedule or a trace, as written by weft plan --out or weft simulate --out"):
        results = [load_result(path) for path in paths]
    plans = [k for k, result in enumerate(results) if isinstance(result, Schedule)]
    if not plans:
        refuse_given(args, PROBLEM_OPTIONS, "for traces, which hold their own problem")
        return [(result, None) for result in results]
    if args.problem is None:
        raise InvalidInput(
            f"{paths[plans[0]]}: holds a schedule; add --problem FILE, the problem it is for"
        )
    problem = read_problem(args.problem, args)
    return [(result, problem if k in plans else None) for k, result in enumerate(results)]


def read_problem(path: Path, args: argparse.Namespace) -> Problem:
    """Return the problem of a file, on the cluster of --cluster or --gpus."""
    from weft.formats import load

    machines = read_cluster(args)
    try:
        return load(path, cluster=machines)
    except InvalidInput as error:
        if machines is None and "without machines" in str(error):
            raise InvalidInput(
                f"{path}: holds a workflow without machines; "
                "add --cluster machines.toml or --gpus 4xV100+2xT4"
            ) from None
        raise
