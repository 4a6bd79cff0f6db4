"""Settings of trainings and their bounds, and records."""

from __future__ import annotations

from dataclasses import asdict
from math import inf
from reprlib import repr as short
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    get_args,
    get_origin,
    get_type_hints,
)

from weft.errors import InvalidInput
from weft.typed import typed_dataclass


def refuse_reset_options(options: object) -> None:
    """Refuse options of `reset`: the environments of weft have none."""
    if options is not None and options != {}:
        raise InvalidInput(
            f"options of reset are {short(options)}; this environment has none: give options when "
            "it is made"
        )


class TrainingRecord:
    """The record of a training for the card of its model.

    `recorded` names further attributes for the record.
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


class Bound(NamedTuple):
    """Limits of a number in settings: `low`, which is excluded if `above`, and `high`."""

    low: float
    high: float = inf
    above: bool = False

    def __contains__(self, value: object) -> bool:
        assert isinstance(value, int | float)
        if self.above:
            return self.low < value <= self.high
        return self.low <= value <= self.high and value < inf

    def __str__(self) -> str:
        if self.high < inf:
            return f"within [{self.low:g}, {self.high:g}]"
        return f"above {self.low:g}" if self.above else f"{self.low:g} or more"


Count = Annotated[int, Bound(1)]
"""A number of things, 1 or more."""
PopulationSize = Annotated[int, Bound(4)]
"""Candidates per generation of an evolution strategy."""
Positive = Annotated[float, Bound(0, above=True)]
"""A number above 0."""


class Settings:
    """Settings of a training, checked against the bounds of their types.

    Messages begin with `noun`, or with the name of the class.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class PpoSettings(Settings, noun="PPO"):
    ...     epochs: Count = 4
    >>> PpoSettings(epochs=0)
    Traceback (most recent call last):
    weft.errors.InvalidInput: PPO: epochs is 0; it must be 1 or more
    """

    noun: ClassVar[str]

    def __init_subclass__(cls, *, noun: str | None = None) -> None:
        cls.noun = noun or cls.__name__

    def __post_init__(self) -> None:
        """Refuse numbers out of bounds, and words that are not among the known ones."""
        for name, kind in get_type_hints(type(self), include_extras=True).items():
            value = getattr(self, name)
            if get_origin(kind) is Literal and value not in get_args(kind):
                words = " or ".join(f"'{word}'" for word in get_args(kind))
                raise InvalidInput(f"{self.noun}: {name} is '{value}'; it must be {words}")
            for bound in getattr(kind, "__metadata__", ()):
                if value not in bound:
                    raise InvalidInput(f"{self.noun}: {name} is {value}; it must be {bound}")


@typed_dataclass(frozen=True, kw_only=True)
class InstanceSettings(Settings):
    """Settings with drawn instances: `alone` single workflows, and `streams`."""

    alone: int = 30
    streams: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse values out of range, and settings that draw no instance."""
        super().__post_init__()
        if self.alone + self.streams < 1:
            raise InvalidInput("training needs at least one instance; raise alone or streams")
