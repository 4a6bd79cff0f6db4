"""An extension of griffe: classes of `weft.typed.typed_dataclass` show their parameters.

Griffe reads the source and recognises only the decorator of the standard library, by name.
"""

from __future__ import annotations

from typing import Any

from griffe import Class, ExprCall, ExprName, Extension

STANDARD = ExprName("dataclass", parent=ExprName("dataclasses"))


class TypedDataclasses(Extension):
    """Replaces the name of the decorator."""

    def on_class_instance(self, *, cls: Class, **_: Any) -> None:
        """Read the decorator as that of the standard library."""
        for decorator in cls.decorators:
            value = decorator.value
            if decorator.callable_path != "weft.typed.typed_dataclass":
                continue
            if isinstance(value, ExprCall):
                value.function = STANDARD
            else:
                decorator.value = STANDARD
