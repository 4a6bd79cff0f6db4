"""How work that takes long tells its caller how far it is.

An argument `progress` is a function that is called with the state after each step. An argument
`track` is a function that receives the steps, yields each of them and may show how many are done,
such as `tqdm.tqdm`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")

Progress = Callable[[T], None]
"""Is called with the state of the work (a record, or a row of its curve) after each step."""

Track = Callable[[Any], Iterable[Any]]
"""Receives the steps (a generator where their number is not known), and yields each of them."""


def silent(_: object) -> None:
    """Show no progress."""
