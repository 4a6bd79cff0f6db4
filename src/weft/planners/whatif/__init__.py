"""What would change if the machines or the tasks were different.

- `changes`: more or fewer devices, faster links, faster tasks; `text`: the same, written by people
- `answer`: `whatif`, the problem planned again and compared
- `tornado`: every change by the same share, and which one saves most
"""

from weft.planners.whatif.answer import WhatIf, whatif
from weft.planners.whatif.changes import (
    AddDevice,
    Bandwidth,
    Change,
    DeviceSpeed,
    Faster,
    Latency,
    RemoveDevice,
)
from weft.planners.whatif.text import parse_change
from weft.planners.whatif.tornado import Tornado, TornadoRow, tornado

__all__ = [
    "AddDevice",
    "Bandwidth",
    "Change",
    "DeviceSpeed",
    "Faster",
    "Latency",
    "RemoveDevice",
    "Tornado",
    "TornadoRow",
    "WhatIf",
    "parse_change",
    "tornado",
    "whatif",
]
