"""A stage in a worker process: its model is loaded once, then batches run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from weft.errors import InvalidInput
from weft.runtime.backends.local.worker import current_device
from weft.typed import description

StageFunction = Callable[..., Any] | str
"""A callable, or "module:function"."""


class UnitSetting(NamedTuple):
    """Name and number of threads of the unit that loads a model."""

    name: str
    threads: int


@description
@dataclass(frozen=True)
class Stage:
    """The program of a task.

    Attributes
    ----------
    call : takes a list of inputs, returns a list with a pair (value, outcome) for each; the
        outcome is the branch to take, None for a task without a choice
    setup : called with a `UnitSetting` once per unit; its result is the first argument of `call`
    timeout : seconds that a batch may take; its unit is killed then
    folder : searched for modules first
    """

    call: StageFunction
    setup: StageFunction | None = None
    timeout: float | None = None
    folder: str = ""


class LoadedStage:
    """A stage as workers hold it; unpickling loads its model."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        stage = self.stage
        if stage.folder and stage.folder not in sys.path:
            sys.path.insert(0, stage.folder)
        self._call = function_of(stage.call)
        self._model: tuple[Any, ...] = ()
        if stage.setup is not None:
            setting = UnitSetting(current_device(), int(os.environ.get("OMP_NUM_THREADS", "1")))
            self._model = (function_of(stage.setup)(setting),)

    def __call__(self, batch: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Return value and outcome of each input; none, if the stage is only loaded."""
        if not batch:
            return []
        return pairs(self._call(*self._model, list(batch)), len(batch))


def function_of(function: StageFunction) -> Callable[..., Any]:
    """Return a callable, imported if it is given as "module:function".

    Examples
    --------
    >>> function_of("math:sqrt")(9)
    3.0
    """
    if not isinstance(function, str):
        return function
    module, _, name = function.partition(":")
    if not module or not name:
        raise InvalidInput(f"'{function}' is no function; write module:function")
    found = getattr(import_module(module), name, None)
    if not callable(found):
        raise InvalidInput(f"module '{module}' has no function '{name}'")
    return found  # type: ignore[no-any-return]  # checked above: it can be called


def pairs(given: Any, count: int) -> list[tuple[Any, Any]]:
    """Return the results of a batch, or say what is wrong with them.

    Examples
    --------
    >>> pairs([("a", "sure"), ("b", None)], 2)
    [('a', 'sure'), ('b', None)]
    """
    try:
        found = [(value, outcome) for value, outcome in given]
    except (TypeError, ValueError):
        raise InvalidInput(
            f"a stage must return a list of pairs (value, outcome); got {type(given).__name__}"
        ) from None
    if len(found) != count:
        raise InvalidInput(f"a stage returned {len(found)} pairs for {count} inputs")
    return found
