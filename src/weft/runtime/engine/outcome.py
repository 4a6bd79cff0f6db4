"""What came of the orders that ended: in which order to hear of them, and the branches that functions of choices named, as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.errors import InvalidInput
from weft.runtime.backends.protocol import Event, Failed, Finished
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.device_state import Group


def outcomes_of(life: LiveLifecycle, group: Group, event: Finished) -> dict[int, int]:
    """Choice, over all jobs -> branch; raises `InvalidInput` when a function named none, or one there is not."""
    found: dict[int, int] = {}
    for k, i in enumerate(group.members):
        numbers = life.choices_of(i)
        if numbers:
            said = event.branches[k] if k < len(event.branches) else ()
            found.update(zip(numbers, _branches(life, i, numbers, said), strict=True))
    return found


def in_turn(events: Sequence[Event]) -> list[Finished | Failed]:
    """Ends in order within a device; devices with failures last, since those may call off what others have done."""
    ends = [event for event in events if isinstance(event, Finished | Failed)]
    if len(ends) < 2:
        return ends
    bad = {event.device for event in ends if isinstance(event, Failed)}
    return sorted(ends, key=lambda end: (end.device in bad, end.device))


def of_members(event: Finished, asked: Sequence[int], kept: Sequence[int]) -> Finished:
    """Leave out what an event says of members that were called off while their batch ran."""
    if len(asked) == len(kept):
        return event
    which = [k for k, i in enumerate(asked) if i in kept]
    data = tuple(event.data[k] for k in which if k < len(event.data))
    return replace(
        event,
        data=data,
        branches=tuple(event.branches[k] for k in which if k < len(event.branches)),
    )


def _branches(
    life: LiveLifecycle, instance: int, numbers: list[int], said: tuple[str | int, ...]
) -> list[int]:
    choices = life.problem(instance).workflow.choices
    first = int(life.workload.first_choice[life.place[instance][0]])
    labels = [[choices.labels[b] for b in choices.branches(c - first)] for c in numbers]
    if len(said) != len(numbers):
        raise InvalidInput(
            f"it named {len(said)} branches; it must return one of {' and one of '.join(map(str, labels))}"
        )
    return [_number(word, known) for word, known in zip(said, labels, strict=True)]


def _number(word: str | int, known: list[str]) -> int:
    if isinstance(word, str) and word in known:
        return known.index(word)
    if isinstance(word, int) and 0 <= word < len(known):
        return word
    raise InvalidInput(f"it returned the branch {word!r}; it must be one of {known}")
