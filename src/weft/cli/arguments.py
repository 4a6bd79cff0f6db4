"""Arguments several verbs share, checked where they are read."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path


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
    """Read a list with commas, each name once.

    Examples
    --------
    >>> names("heft, cpop,heft")
    ['heft', 'cpop']
    """
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add --cluster and --gpus: two ways to say the machines."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--cluster", type=Path, metavar="TOML", help="the machines, from a TOML file"
    )
    where.add_argument(
        "--gpus",
        metavar="SPEC",
        help="the machines, in words: 4xV100+2xT4 (see: weft list devices)",
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
    """Add what a drawn future may hold."""
    group = parser.add_argument_group("what may happen")
    group.add_argument(
        "--noise",
        type=number(least=0),
        default=0.0,
        metavar="S",
        help="sigma of log-normal duration factors (default: 0)",
    )
    group.add_argument(
        "--bias",
        type=number(least=0),
        default=0.0,
        metavar="S",
        help="the same by task kind and device kind",
    )
    group.add_argument(
        "--slowdowns",
        type=number(least=0),
        default=0.0,
        metavar="R",
        help="expected slowdowns of each device",
    )
    group.add_argument(
        "--failures",
        type=number(least=0),
        default=0.0,
        metavar="R",
        help="expected failures of each device",
    )


def uncertainty(args: argparse.Namespace) -> dict[str, float]:
    """Return what `add_uncertainty` read, as options of `Scenario.draw`."""
    return {key: getattr(args, key) for key in ("noise", "bias", "slowdowns", "failures")}
