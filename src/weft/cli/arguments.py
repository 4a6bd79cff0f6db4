"""Arguments that several verbs share, and the files they name."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.model import Cluster, Problem


def whole(least: int) -> Callable[[str], int]:
    """Return a reader of whole numbers, `least` or more."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is below {least}")
        return value

    return read


def number(
    *, above: float | None = None, least: float = -math.inf, most: float = math.inf
) -> Callable[[str], float]:
    """Return a reader of finite numbers within limits."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{text}' is not a number") from None
        if not math.isfinite(value):
            raise argparse.ArgumentTypeError(f"'{text}' is not finite")
        if above is not None and value <= above:
            raise argparse.ArgumentTypeError(f"{text} must be above {above:g}")
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"{text} must be {least:g} or more"
                if value < least
                else f"{text} must be {most:g} or less"
            )
        return value

    return read


def names(text: str) -> list[str]:
    """Read names separated by commas, each name once.

    Examples
    --------
    >>> names("heft, cpop,heft")
    ['heft', 'cpop']
    """
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add --cluster and --gpus: two ways to describe the cluster."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--cluster", type=Path, metavar="TOML", help="the cluster, a TOML file")
    where.add_argument(
        "--gpus",
        metavar="SPEC",
        help="the cluster as GPU counts: 4xV100+2xT4 (see: weft list devices)",
    )


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Add --seed."""
    parser.add_argument(
        "--seed",
        type=whole(0),
        default=0,
        metavar="N",
        help="the same seed gives the same result (default: 0)",
    )


def add_uncertainty(parser: argparse.ArgumentParser) -> None:
    """Add the options of drawn scenarios."""
    group = parser.add_argument_group("uncertainty")
    group.add_argument(
        "--noise",
        type=number(least=0),
        default=0.0,
        metavar="S",
        help="sigma of log-normal duration factors, no unit (default: 0)",
    )
    group.add_argument(
        "--bias",
        type=number(least=0),
        default=0.0,
        metavar="S",
        help="the same per task kind and device kind",
    )
    group.add_argument(
        "--slowdowns",
        type=number(least=0),
        default=0.0,
        metavar="R",
        help="expected slowdowns per device",
    )
    group.add_argument(
        "--failures",
        type=number(least=0),
        default=0.0,
        metavar="R",
        help="expected failures per device",
    )


def uncertainty(args: argparse.Namespace) -> dict[str, float]:
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


def read_problem(path: Path, args: argparse.Namespace) -> Problem:
    """Return the problem of a file, on the cluster of --cluster or --gpus."""
    from weft.errors import InvalidInput
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
