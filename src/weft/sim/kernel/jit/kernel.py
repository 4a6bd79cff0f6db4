"""Kernels that compile in a third of numba's time.

Machine code is generated for entry points only. Numba makes machine code, wrappers for Python and
an optimised module for every function, and links the module into every caller, where it is
optimised again. Here a function that only compiled code calls is lowered to LLVM's language; it is
optimised and translated once per kernel that Python calls.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.environment import lookup_environment
from numba.core.funcdesc import default_mangler
from numba.core.registry import CPUDispatcher

from weft.sim.kernel.jit.clock import PausedClock
from weft.sim.kernel.jit.stored import KernelCache

# mypy: disable-error-code="no-untyped-call, misc, attr-defined, no-any-return"

planning_clock = PausedClock()
"""Seconds of the wall clock, without those in which kernels are compiled or loaded."""


class Callee(JITCodeLibrary):
    """A function that only compiled code calls, and so without an address."""

    def finalize(self) -> None:
        """Leave the code as it is until a kernel contains it."""
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return a unique number of this function in place of an address."""
        self._ensure_finalized()
        return id(self)

    @property
    def codegen(self) -> Callee:
        """The object that receives the environment."""
        return self

    def set_env(self, name: str, environment: object) -> None:
        """Do nothing, as kernels set environments at their addresses."""


class EntryPoint(JITCodeLibrary):
    """A function that Python calls, with the code of all functions below it."""

    def finalize(self) -> None:
        """Link, optimise and translate, and set the environments of all functions."""
        # LLVM drops a function that nothing has called so far, so callers come first.
        self._linking_libraries = _callees_first(self, set())[-2::-1]
        super().finalize()
        for variable in self._final_module.global_variables:
            environment = lookup_environment(variable.name)
            if environment is not None:
                self._codegen.set_env(variable.name, environment)

    def _optimize_final_module(self) -> None:
        """Optimise twice.

        The second pass inlines calls whose callees became simple in the first (HEFT: 1.25x).
        """
        super()._optimize_final_module()
        super()._optimize_final_module()


def _callees_first(library: Any, seen: set[int]) -> list[Any]:
    seen.add(id(library))
    order: list[Any] = []
    if isinstance(library, EntryPoint | Callee):
        for callee in library._linking_libraries:  # noqa: SLF001  # no public way
            if id(callee) not in seen:
                order += _callees_first(callee, seen)
    return [*order, library]


class _Compiler(CompilerBase):
    """Numba's compiler, into a library of the given class."""

    library: type[JITCodeLibrary]

    def define_pipelines(self) -> list[Any]:
        """Return the only pipeline."""
        state = self.state
        state.targetctx = state.targetctx.subtarget(mangler=_short_name)
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return [DefaultPassBuilder.define_nopython_pipeline(state)]


class _EntryPointCompiler(_Compiler):
    library = EntryPoint


class _CalleeCompiler(_Compiler):
    library = Callee


def _short_name(
    name: str, argtypes: Any, *, abi_tags: tuple[str, ...] = (), uid: int | None = None
) -> str:
    """Mangle a name with a hash of the types, which take 4 kB written out."""
    digest = sha256(repr(argtypes).encode()).hexdigest()[:16]
    return str(default_mangler(name, (), abi_tags=(*abi_tags, digest), uid=uid))


class _Flags(Flags):
    """Options of the compiler that compare quickly, as numba does so at every call."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Flags) and self._values == other._values

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._values)))


class Kernel(CPUDispatcher):
    """A compiled function with two forms: for calls from Python and from kernels."""

    on_wait: Callable[[], None] = staticmethod(lambda: None)
    """Called when another process compiles the same kernel, before this one waits for it."""

    def __init__(
        self, function: Callable[..., Any], options: dict[str, Any], stamp: str | None
    ) -> None:
        super().__init__(function, targetoptions=options, pipeline_class=_EntryPointCompiler)
        self._callee = CPUDispatcher(
            function,
            targetoptions={**options, "no_cpython_wrapper": True},
            pipeline_class=_CalleeCompiler,
        )
        for form in (self, self._callee):
            form._compiler._customize_flags = _Flags  # noqa: SLF001  # no public way
        self._cache = KernelCache(function, stamp)

    def compile(self, sig: Any) -> Any:
        """Load the stored form for these types; compile it if no process has done so."""
        with planning_clock.paused(), self._cache.locked(self.on_wait):
            return super().compile(sig)

    @property
    def _numba_type_(self) -> types.Dispatcher:
        return self._callee._type  # noqa: SLF001  # no public way
