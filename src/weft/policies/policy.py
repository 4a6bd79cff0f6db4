"""The table of policies: View -> Decision, one at a time."""

from __future__ import annotations

from weft.registry import Registry
from weft.sim.view import Policy

POLICIES: Registry[Policy] = Registry("policy")
