"""The product of two matrices, with tiles of both in shared memory.

A block makes one tile of the product. It walks along the inner dimension a tile at a time: each
thread loads one element of each factor, all wait, and each adds up the tile's products.

References
----------
CUDA C++ Programming Guide, section "Shared Memory": the tiled matrix multiplication, here with any
size and any of NumPy's numeric dtypes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from stdlib_kernels.arrays import (
    Array,
    check_array,
    check_out,
    check_same_kind,
    destination,
    finish,
    on_device,
)
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.repeating import launch

__all__ = ["matmul"]

#: Rows and columns of a tile, and of a block.
TILE = 16
#: Most blocks of a grid along y on every device (CUDA C++ Programming Guide, "Technical
#: Specifications per Compute Capability"); more rows of tiles are taken in turn.
MAX_GRID_Y = 65535


@cache
def matmul_tiles(dtype: np.dtype[Any]) -> Any:
    """Make the kernel for one dtype: ``(a[m, k], b[k, n], out[m, n])``."""
    number = dtype.type

    @kd.kernel(wraparound=False)
    def matmul_tiles(a, b, out):
        tile_a = kd.shared.array((TILE, TILE), number)
        tile_b = kd.shared.array((TILE, TILE), number)
        tx = kd.threadIdx.x
        ty = kd.threadIdx.y
        inner = a.shape[1]
        column = kd.blockIdx.x * TILE + tx
        for top in range(kd.blockIdx.y * TILE, out.shape[0], kd.gridDim.y * TILE):
            row = top + ty
            total = number(0)
            for start in range(0, inner, TILE):
                # The factors are converted as they are loaded; past the edge they are 0, which adds
                # nothing: those threads' infinities and NaN never meet an element of the product.
                tile_a[ty, tx] = number(0)
                tile_b[ty, tx] = number(0)
                if row < a.shape[0] and start + tx < inner:
                    tile_a[ty, tx] = number(a[row, start + tx])
                if start + ty < inner and column < b.shape[1]:
                    tile_b[ty, tx] = number(b[start + ty, column])
                kd.syncthreads()
                for k in range(TILE):
                    total += tile_a[ty, k] * tile_b[k, tx]
                kd.syncthreads()
            if row < out.shape[0] and column < out.shape[1]:
                out[row, column] = total

    return matmul_tiles


@repeated_function
def matmul(a: Array, b: Array, out: Array | None = None) -> Any:
    """Multiply two matrices.

    Parameters
    ----------
    a : ndarray or device array of shape (m, k)
        Of any layout; integer, float or complex.
    b : array of shape (k, n)
        Of `a`'s kind.
    out : array of shape (m, n), optional
        Where the product goes, of the product's dtype and of `a`'s kind.

    Returns
    -------
    array of shape (m, n)
        Of `a`'s kind; `out`, where it is given. Its dtype is NumPy's for the two factors; products
        add up in that dtype, and integers wrap around as in NumPy.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        Where a factor is no matrix of numbers, or `out` does not fit.
    kerneldsl.errors.ArgumentValueError
        Where the inner dimensions differ.

    See Also
    --------
    numpy.matmul

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.linalg import matmul
    >>> matmul(np.array([[1, 2], [3, 4]]), np.array([[5, 6], [7, 8]])).tolist()
    [[19, 22], [43, 50]]
    """
    check_array("a", a, kinds="iufc", ndim=2)
    check_array("b", b, kinds="iufc", ndim=2)
    check_same_kind("a", a, "b", b)
    if a.shape[1] != b.shape[0]:
        raise ArgumentValueError(
            f"matmul: a of shape {tuple(a.shape)} and b of shape {tuple(b.shape)} do not fit",
            value=(tuple(a.shape), tuple(b.shape)),
            limit="The columns of a must be as many as the rows of b",
            remedy="Transpose one of them, or reshape it",
        )
    dtype = np.result_type(a.dtype, b.dtype)
    rows, columns = a.shape[0], b.shape[1]
    check_out(out, like=a, shape=(rows, columns), dtype=dtype)
    left, right = on_device(a), on_device(b)
    result = destination(left, (rows, columns), dtype, out, right)
    if rows and columns:
        grid = (-(-columns // TILE), min(-(-rows // TILE), MAX_GRID_Y))
        launch(matmul_tiles(dtype), grid, (TILE, TILE), left, right, result)
    return finish(result, like=a, out=out)
