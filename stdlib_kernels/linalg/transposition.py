"""The transpose of a matrix, through a tile in shared memory.

Rows are read and rows are written, so both global accesses are coalesced; the tile is turned round
in shared memory, whose rows are one element longer than the tile so that a column's elements lie
in different banks.

References
----------
Greg Ruetsch and Paulius Micikevicius, "Optimizing Matrix Transpose in CUDA", NVIDIA, 2009.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import kerneldsl as kd
from stdlib_kernels.arrays import Array, check_array, check_out, destination, finish, on_device
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.repeating import launch

__all__ = ["transpose"]

#: Rows and columns of a tile.
TILE = 32
#: Rows that the threads of a block move at once.
ROWS = 8


#: Most blocks of a grid along y on every device (CUDA C++ Programming Guide, "Technical
#: Specifications per Compute Capability"); more rows of tiles are taken in turn.
MAX_GRID_Y = 65535


@cache
def transpose_tiles(dtype: np.dtype[Any]) -> Any:
    """Make the kernel for one dtype: ``(source[m, n], out[n, m])``."""
    number = dtype.type

    @kd.kernel(wraparound=False)
    def transpose_tiles(source, out):
        tile = kd.shared.array((TILE, TILE + 1), number)
        tx = kd.threadIdx.x
        ty = kd.threadIdx.y
        left = kd.blockIdx.x * TILE
        for top in range(kd.blockIdx.y * TILE, source.shape[0], kd.gridDim.y * TILE):
            for k in range(0, TILE, ROWS):
                if top + ty + k < source.shape[0] and left + tx < source.shape[1]:
                    tile[ty + k, tx] = source[top + ty + k, left + tx]
            kd.syncthreads()
            for k in range(0, TILE, ROWS):
                if left + ty + k < out.shape[0] and top + tx < out.shape[1]:
                    out[left + ty + k, top + tx] = tile[tx, ty + k]
            kd.syncthreads()

    return transpose_tiles


@repeated_function
def transpose(a: Array, *, out: Array | None = None) -> Any:
    """Transpose a matrix into new memory.

    Parameters
    ----------
    a : ndarray or device array of shape (m, n)
        Of any layout; bool, integer, float or complex.
    out : array of shape (n, m), optional
        Where the result goes, of `a`'s dtype and kind; it must not overlap `a`.

    Returns
    -------
    array of shape (n, m)
        Of `a`'s dtype and kind, C-contiguous; `out`, where it is given.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        Where `a` is no matrix, or `out` does not fit.

    See Also
    --------
    numpy.transpose : gives a view instead.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.linalg import transpose
    >>> transpose(np.array([[1, 2, 3], [4, 5, 6]])).tolist()
    [[1, 4], [2, 5], [3, 6]]
    """
    check_array("a", a, kinds="biufc", ndim=2)
    rows, columns = a.shape
    check_out(out, like=a, shape=(columns, rows), dtype=a.dtype)
    source = on_device(a)
    result = destination(source, (columns, rows), a.dtype, out)
    if rows and columns:
        grid = (-(-columns // TILE), min(-(-rows // TILE), MAX_GRID_Y))
        launch(transpose_tiles(a.dtype), grid, (TILE, ROWS), source, result)
    return finish(result, like=a, out=out)
