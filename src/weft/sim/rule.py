"""`Rule`: a priority rule for the compiled kernel.

It has an order of instances and a placement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from weft.errors import InvalidInput, UnknownName
from weft.model import Workload
from weft.model.columns import FloatArray, assign, frozen
from weft.registry import closest

Placement = Literal["first", "fastest", "earliest", "eft", "mru"]
PLACEMENTS: tuple[str, ...] = get_args(Placement)
"""How a rule chooses a device, in the order of the table in docs/simulator.md."""


@dataclass(frozen=True, eq=False)
class Rule:
    """A priority rule: keys of instances, and a placement.

    The ready instance with the lowest key for which `placement` finds a device goes next. Ties go
    to the lowest instance number.

    Examples
    --------
    >>> Rule("fifo", "first", np.zeros(3)).keys.tolist()
    [0.0, 0.0, 0.0]
    """

    name: str
    placement: Placement
    keys: FloatArray

    def __post_init__(self) -> None:
        """Refuse unknown placements and keys that have no order."""
        if self.placement not in PLACEMENTS:
            raise UnknownName(
                f"rule '{self.name}' has the unknown placement "
                f"'{self.placement}'{closest(self.placement, PLACEMENTS)}"
            )
        keys = np.ascontiguousarray(self.keys, dtype=np.float64)
        if keys.ndim != 1 or np.isnan(keys).any():
            raise InvalidInput(
                f"the keys of rule '{self.name}' must be one number per instance, none of them NaN"
            )
        assign(self, keys=frozen(keys))

    def check_fits(self, workload: Workload) -> None:
        """Raise unless there is one key per instance of the workload."""
        if len(self.keys) != workload.instances:
            raise InvalidInput(
                f"rule '{self.name}' has {len(self.keys)} keys, "
                f"but '{workload.name}' has {workload.instances} instances"
            )
