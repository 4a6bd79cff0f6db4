"""Checks of training settings, records of trainings, and the type of progress callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, ClassVar, TypeVar

from weft.errors import InvalidInput

T = TypeVar("T")
Progress = Callable[[T], None]
"""Receives the state of a training (a record or a row of its curve) after each step."""


def silent(_: object) -> None:
    """Ignore the progress."""


class TrainingRecord:
    """The record of a training for the card of its model.

    `recorded` names further attributes that belong into it.
    """

    algorithm: ClassVar[str]
    recorded: ClassVar[tuple[str, ...]] = ()
    settings: Any
    score: float
    seconds: float
    curve: list[dict[str, float]]

    def record(self) -> dict[str, object]:
        """Return plain values for the card."""
        return {
            "algorithm": self.algorithm,
            "seed": self.settings.seed,
            "score": self.score,
            **{name: getattr(self, name) for name in self.recorded},
            "cpu_seconds": round(self.seconds, 1),
            "settings": asdict(self.settings),
            "curve": self.curve,
        }


def require(
    settings: object, *, positive: Iterable[str] = (), at_least_one: Iterable[str] = ()
) -> None:
    """Refuse fields that are not above 0 (`positive`), or below 1 (`at_least_one`).

    Messages begin with the class attribute `noun` of the settings, or with the class name.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> require(SimpleNamespace(noun="PPO", epochs=0), at_least_one=("epochs",))
    Traceback (most recent call last):
    weft.errors.InvalidInput: PPO: epochs is 0; it must be 1 or more
    """
    noun = getattr(settings, "noun", type(settings).__name__)
    for name in at_least_one:
        if not getattr(settings, name) >= 1:
            raise InvalidInput(f"{noun}: {name} is {getattr(settings, name)}; it must be 1 or more")
    for name in positive:
        if not getattr(settings, name) > 0:
            raise InvalidInput(f"{noun}: {name} is {getattr(settings, name)}; it must be above 0")
