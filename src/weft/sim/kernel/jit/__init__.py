"""The one door to numba: every compiled function of weft is decorated here.

- `decorators`: `njit`, `njit_noalloc` and `njit_inline`; the stamp of the code below a kernel; the
  lines on stderr while kernels are compiled
- `clock`: time without that of compiling
- `kernel`: functions that become machine code only where Python calls them
- `stored`: the cache of this user, and kernels that came with the installation
"""

from weft.sim.kernel.jit.decorators import compiled, njit, njit_inline, njit_noalloc
from weft.sim.kernel.jit.kernel import planning_clock

__all__ = ["compiled", "njit", "njit_inline", "njit_noalloc", "planning_clock"]
