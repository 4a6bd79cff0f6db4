"""Registration of weft's environments as soon as Gymnasium is imported.

Either of weft and Gymnasium may be imported first. Gymnasium loads no plugins by entry points since
its version 1.0, and `import weft` must not cost the import of Gymnasium.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module, util
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class RegisteringFinder(MetaPathFinder):
    """A finder of the module `gymnasium` whose loader also imports `weft.learn`."""

    def __init__(self) -> None:
        self._searching = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the other finders have for Gymnasium."""
        if fullname != "gymnasium" or self._searching:
            return None
        self._searching = True
        try:
            spec = util.find_spec(fullname)
        finally:
            self._searching = False
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_register(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            import_module("weft.learn")

        spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]  # of one spec
        return spec
