"""Set-up: what a device loads before it runs a kind of task, and keeps loaded.

Loading a kind (a model, a container) takes seconds and memory of the device's cache. When the cache
is full, the kind used least recently is dropped. Pinned kinds are loaded before the first job and
never dropped. `docs/simulator.md` has the definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.errors import InvalidInput
from weft.model.columns import FloatArray, IntArray, floats, frozen
from weft.typed import description

ANY_KIND = "*"
"""The kind whose set-up or batch curve holds for every task kind without its own."""

SECONDS, MEMORY, PINNED = range(3)
"""Columns of a set-up."""


@description
@dataclass(frozen=True)
class Setup:
    """Loading a kind of task: seconds, bytes of the cache, whether always loaded.

    Examples
    --------
    >>> Setup(2.5, memory=4e9).row
    (2.5, 4000000000.0, 0.0)
    """

    seconds: float
    memory: float = 0.0
    pinned: bool = False

    @property
    def row(self) -> tuple[float, float, float]:
        """The columns of a set-up."""
        return float(self.seconds), float(self.memory), float(self.pinned)


def setup_columns(devices: Sequence[Mapping[str, Setup | float]]) -> dict[str, FloatArray]:
    """Gather the set-ups of devices: kind -> (p, 3)."""
    table = {}
    for kind in dict.fromkeys(k for given in devices for k in given):
        rows = [given.get(kind, given.get(ANY_KIND, 0.0)) for given in devices]
        table[kind] = np.array([x.row if isinstance(x, Setup) else (x, 0, 0) for x in rows], float)
    return table


def setup_of_kinds(setup: Mapping[str, FloatArray], kinds: Sequence[str], p: int) -> FloatArray:
    """Return (kinds, p, 3) seconds, bytes and whether pinned, by kind and device."""
    other = setup.get(ANY_KIND, np.zeros((p, 3)))
    return frozen(np.array([setup.get(kind, other) for kind in kinds], float).reshape(-1, p, 3))


def checked_setup(
    setup: Mapping[str, FloatArray], cache: FloatArray, names: Sequence[str]
) -> dict[str, FloatArray]:
    """Return the set-ups as frozen columns; refuse those that no device can hold."""
    p = len(names)
    made = {str(k): floats(v, f"set-up of '{k}'", shape=(p, 3)) for k, v in setup.items()}
    with np.errstate(over="ignore"):  # infinite amounts exceed every cache
        held = (np.where(v[:, PINNED] > 0.0, v[:, MEMORY], 0.0) for v in made.values())
        pinned = sum(held, np.zeros(p))
    for kind, rows in made.items():
        for d, (seconds, memory, always) in enumerate(rows.tolist()):
            where = f"the set-up of '{kind}' on device '{names[d]}'"
            if not 0.0 <= seconds < np.inf or not 0.0 <= memory < np.inf:
                raise InvalidInput(
                    f"{where} takes {seconds:g} s and {memory:g} bytes; both must be finite "
                    "numbers, zero or more"
                )
            if always not in (0.0, 1.0):
                raise InvalidInput(f"{where} is pinned by {always:g}; it must be 0 or 1")
            if kind == ANY_KIND and always:
                raise InvalidInput(f"{where} is pinned; name the kinds that stay loaded")
            if memory + pinned[d] - always * memory > cache[d]:
                raise InvalidInput(
                    f"{where} needs {memory:g} bytes beside what is pinned; the cache has "
                    f"{cache[d]:g}"
                )
    return made


def seconds_before_groups(
    setup: FloatArray,
    cache: FloatArray,
    switch: FloatArray,
    *,
    device: IntArray,
    kind: IntArray,
    restart: IntArray | None = None,
) -> FloatArray:
    """Return (g,) seconds of set-up of groups in the order of their starts.

    The oracle uses it. `setup` is (kinds, p, 3); `restart` (g,) counts the failures of a group's
    device before its start: each of them empties the cache.
    """
    taken = np.zeros(len(device))
    recent: dict[int, list[int]] = {}
    latest: dict[int, tuple[int, int]] = {}
    always = [np.flatnonzero(setup[:, d, PINNED] > 0).tolist() for d in range(setup.shape[1])]
    for g, (d, k) in enumerate(zip(device.tolist(), kind.tolist(), strict=True)):
        age = 0 if restart is None else int(restart[g])
        before, last = latest.get(d, (age, -1))
        if before != age or d not in recent:
            recent[d], last = list(always[d]), -1
        if k not in recent[d]:
            taken[g] += setup[k, d, SECONDS]
        if last not in (-1, k):
            taken[g] += switch[d]
        recent[d] = [*(x for x in recent[d] if x != k), k]
        latest[d] = (age, k)
        while sum(setup[x, d, MEMORY] for x in sorted(recent[d])) > cache[d]:
            drop = next(
                (x for x in recent[d] if x != k and x not in always[d] and setup[x, d, MEMORY] > 0),
                None,
            )
            if drop is None:
                break
            recent[d].remove(drop)
    return taken
