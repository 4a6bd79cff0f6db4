"""Tiled Cholesky, LU and QR: the tiles that tasks read and write give the edges.

Work is counted in 10**12 operations (a device of speed 1 does one TFLOP/s), by the leading terms in
units of b**3 / 3 for tiles of order b (Buttari et al. 2009; Bouwmeester et al. 2011, table 1). They
add up exactly: n**3 / 3 for Cholesky, 2 n**3 / 3 for LU, 4 n**3 / 3 for QR. An edge carries the
tiles that its source wrote last and its target reads or writes.
"""

from __future__ import annotations

from weft.arguments import whole
from weft.generators.generators import register_sketch
from weft.generators.sketch import Sketch

KERNEL_COST = {
    "potrf": 1,
    "trsm": 3,
    "syrk": 3,
    "gemm": 6,
    "getrf": 2,
    "geqrt": 4,
    "ormqr": 6,
    "tpqrt": 6,
    "tpmqrt": 12,
}
"""Operations of a kernel on tiles of order b, in units of b**3 / 3."""

Tile = tuple[str, int, int]


class _Factorisation(Sketch):
    """Kernels in sequential order; readers of a tile depend on its last writer.

    Later writers need not wait for readers of the old tile: data moves by copies, so a reader keeps
    the version that it received.
    """

    def cut(self, tiles: int, tile_size: int, element: int) -> None:
        """Cut the matrix into tiles; begin with no kernel."""
        self.tiles = whole(tiles, "tiles")
        self.order = whole(tile_size, "tile_size")
        self.bytes = float(self.order * self.order * whole(element, "element"))
        self.name = f"{self.name}-{self.tiles}"
        self._writer: dict[Tile, int] = {}

    def kernel(
        self, kind: str, at: tuple[int, ...], *, writes: list[Tile], reads: list[Tile] | None = None
    ) -> None:
        """Add one kernel call; it also reads the tiles it writes."""
        work = KERNEL_COST[kind] * self.order**3 / 3e12
        task = self.task(f"{kind}({','.join(map(str, at))})", kind, work)
        for tile in [*(reads or []), *writes]:
            if tile in self._writer:
                self.edge(self._writer[tile], task, self.bytes)
        for tile in writes:
            self._writer[tile] = task

    def solve_column(self, k: int) -> None:
        """Add the triangular solves below a diagonal tile."""
        for i in range(k + 1, self.tiles):
            self.kernel("trsm", (i, k), reads=[("A", k, k)], writes=[("A", i, k)])


def _squares(tiles: int) -> int:
    """Return 1 + 4 + 9 + ... + tiles ** 2, the tasks of LU and QR."""
    return tiles * (tiles + 1) * (2 * tiles + 1) // 6


@register_sketch(
    "cholesky",
    size="tiles",
    estimate=lambda tiles: tiles * (tiles + 1) * (tiles + 2) // 6,
    sigma=0.0,
    sketch=_Factorisation,
)
def cholesky(f: _Factorisation, *, tiles: int = 8, tile_size: int = 960, element: int = 8) -> None:
    """Right-looking tiled Cholesky: T (T + 1) (T + 2) / 6 tasks, path of 3 T - 2.

    Examples
    --------
    >>> w = cholesky(tiles=4)
    >>> w.n, w.m, w.kinds
    (20, 30, ('potrf', 'trsm', 'syrk', 'gemm'))
    """
    f.cut(tiles, tile_size, element)
    for k in range(f.tiles):
        f.kernel("potrf", (k,), writes=[("A", k, k)])
        f.solve_column(k)
        for i in range(k + 1, f.tiles):
            f.kernel("syrk", (i, k), reads=[("A", i, k)], writes=[("A", i, i)])
            for j in range(k + 1, i):
                f.kernel("gemm", (i, j, k), reads=[("A", i, k), ("A", j, k)], writes=[("A", i, j)])


@register_sketch("lu", size="tiles", estimate=_squares, sigma=0.0, sketch=_Factorisation)
def lu(f: _Factorisation, *, tiles: int = 6, tile_size: int = 960, element: int = 8) -> None:
    """Right-looking LU without pivoting between tiles: T (T + 1) (2 T + 1) / 6 tasks.

    Examples
    --------
    >>> lu(tiles=3).n
    14
    """
    f.cut(tiles, tile_size, element)
    for k in range(f.tiles):
        f.kernel("getrf", (k,), writes=[("A", k, k)])
        for j in range(k + 1, f.tiles):
            f.kernel("trsm", (k, j), reads=[("A", k, k)], writes=[("A", k, j)])
        f.solve_column(k)
        for i in range(k + 1, f.tiles):
            for j in range(k + 1, f.tiles):
                f.kernel("gemm", (i, j, k), reads=[("A", i, k), ("A", k, j)], writes=[("A", i, j)])


@register_sketch("qr", size="tiles", estimate=_squares, sigma=0.0, sketch=_Factorisation)
def qr(f: _Factorisation, *, tiles: int = 6, tile_size: int = 960, element: int = 8) -> None:
    """Tiled QR with a flat tree (Buttari et al. 2009): T (T + 1) (2 T + 1) / 6 tasks.

    Examples
    --------
    >>> w = qr(tiles=3)
    >>> w.n, w.kinds
    (14, ('geqrt', 'ormqr', 'tpqrt', 'tpmqrt'))
    """
    f.cut(tiles, tile_size, element)
    for k in range(f.tiles):
        # The reflectors below the diagonal ("V") and the triangle above it ("A") are separate
        # tiles: ormqr reads V while tpqrt changes A.
        f.kernel("geqrt", (k,), writes=[("A", k, k), ("V", k, k)])
        for j in range(k + 1, f.tiles):
            f.kernel("ormqr", (k, j), reads=[("V", k, k)], writes=[("A", k, j)])
        for i in range(k + 1, f.tiles):
            f.kernel("tpqrt", (i, k), writes=[("A", k, k), ("A", i, k)])
            for j in range(k + 1, f.tiles):
                f.kernel(
                    "tpmqrt", (i, j, k), reads=[("A", i, k)], writes=[("A", k, j), ("A", i, j)]
                )
