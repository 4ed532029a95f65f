"""Products of matrices and of stacks of them, with tiles in shared memory; transposes.

A block computes one tile of the product. It goes along the inner dimension tile by tile.
Each thread loads one element of each factor, all threads wait, and each adds up the products. Large
matrices of floats are multiplied on a GPU by `multiply_blocks`, stacks of small ones by
`multiply_batches`. Large matrices of 16-bit floats are multiplied by `multiply_mma`. It also
multiplies other floats on a CPU. `multiply_panels` does the rest there, with the same bits.

By panels, each thread adds up eight elements of a column. A panel contains `WIDTH` bytes of each
row of the second factor, one row after the other. It is read from its beginning to its end. The
threads of a block are its columns. A row of them is two vectors of the widest processors, and the
sums of eight rows are sixteen, which fit into their registers. If there are fewer last rows or
columns, the preceding ones are computed once more, with the same bits.

References
----------
CUDA C++ Programming Guide, section "Shared Memory": the tiled matrix multiplication, here with any
size and any of NumPy's numeric dtypes. K. Goto and R. A. van de Geijn, "Anatomy of High-Performance
Matrix Multiplication", ACM Transactions on Mathematical Software 34 (2008): panels in the cache's
order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from kerneldsl.repeating.recorded_calls import host_threads, launch, launch_over
from stdlib_kernels import elementwise
from stdlib_kernels.arrays import (
    allocate,
    contiguous,
    finish,
    is_contiguous,
    is_on_host,
    on_device,
    source_and_result,
)
from stdlib_kernels.checks import Array, Out, check_array, check_same_kind
from stdlib_kernels.copying import itself
from stdlib_kernels.elementwise.calls import map_call
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.linalg.batches import multiply_batches, multiply_vector, places_of
from stdlib_kernels.linalg.blocks import MAX_GRID_Y, MIN_SIDE, multiply_blocks
from stdlib_kernels.movement.permuting import permuted
from stdlib_kernels.parameters import common_dtype, computing_dtype

__all__ = ["fits_panels", "matmul", "multiply_panels", "transpose"]


#: Rows and columns of a tile and of a block. If there are more rows than the grid allows, each
#: block computes several tiles.
TILE = 16

#: Rows that a thread adds up: as many as the kernel has sums.
ROWS = 8
#: Bytes of a panel's row.
WIDTH = 128
#: Rows of the second factor that a block copies.
COPIED = 64
#: Fewest products for which it pays to copy, and to launch twice.
MIN_PRODUCTS = 1 << 18


@kd.kernel(wraparound=False)
def matmul_tiles(a, b, out, *, number):
    """Multiply two matrices: ``a[m, k], b[k, n], out[m, n]``."""
    tile_a = kd.shared.array((TILE, TILE), number)
    tile_b = kd.shared.array((TILE, TILE), number)
    tx, ty, inner = kd.threadIdx.x, kd.threadIdx.y, a.shape[1]
    column = kd.blockIdx.x * TILE + tx
    for top in range(kd.blockIdx.y * TILE, out.shape[0], kd.gridDim.y * TILE):
        row = top + ty
        total = number(0)
        for start in range(0, inner, TILE):
            # The factors are converted when they are loaded. Beyond the edge they are 0, which adds
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


@repeated_function
def matmul(a: Array, b: Array, out: Out = None) -> Any:
    """Multiply matrices, stacks of matrices, and vectors.

    Parameters
    ----------
    a : ndarray or device array of shape (…, m, k) or (k,)
        Any layout; bool, integer, float or complex.
    b : array of shape (…, k, n) or (k,)
        Same kind as `a`. The axes before the last two are broadcast.
    out : array of shape (…, m, n), optional
        Array for the product, with its dtype. Same kind as `a`.

    Returns
    -------
    array of shape (…, m, n)
        Same kind as `a`. If a factor is a vector, the axis m or n is missing. `out` if it is given.
        The dtype is NumPy's for the two factors. Sums have this dtype, and integers wrap around as
        in NumPy. float16 and bfloat16 are multiplied and added as float32, and rounded once. For
        booleans, an element is whether any product is True.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If a factor is not an array of numbers, or `out` does not fit.
    kerneldsl.errors.ArgumentValueError
        If the inner dimensions differ, or others cannot be broadcast.

    See Also
    --------
    numpy.matmul

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.linalg import matmul
    >>> matmul(np.array([[1, 2], [3, 4]]), np.array([[5, 6], [7, 8]])).tolist()
    [[19, 22], [43, 50]]
    >>> matmul(np.array([[1, 2], [3, 4]]), np.array([1, 10])).tolist()
    [21, 43]
    """
    check_array("a", a, halves=True)
    check_array("b", b, halves=True)
    check_same_kind("a", a, "b", b)
    left = (1, *a.shape) if a.ndim == 1 else tuple(a.shape)
    right = (*b.shape, 1) if b.ndim == 1 else tuple(b.shape)
    batches = left[:-2], right[:-2], _stacked(a, b, left, right)
    dtype = common_dtype(a, b)
    whole = (*batches[2], left[-2], right[-1])
    shape = (*batches[2], *left[-2:-1][: a.ndim - 1], *right[-1:][: b.ndim - 1])
    two = on_device(b)
    one, result = source_and_result(a, out, shape, dtype, two)
    if math.prod(shape):
        factors = (one[None] if a.ndim == 1 else one), (two[:, None] if b.ndim == 1 else two)
        _multiply_as(_number(dtype), *factors, result.reshape(whole), batches)
    return finish(result, like=a, out=out)


@repeated_function
def transpose(a: Array, *, out: Out = None) -> Any:
    """Transpose a matrix into new memory.

    Parameters
    ----------
    a : ndarray or device array of shape (m, n)
        Any layout; bool, integer, float or complex.
    out : array of shape (n, m), optional
        Array for the result. Same dtype and kind as `a`. It must not overlap `a`.

    Returns
    -------
    array of shape (n, m)
        Same dtype and kind as `a`, C-contiguous; `out` if it is given.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If `a` is not a matrix, or `out` does not fit.

    See Also
    --------
    numpy.transpose : returns a view instead.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.linalg import transpose
    >>> transpose(np.array([[1, 2, 3], [4, 5, 6]])).tolist()
    [[1, 4], [2, 5], [3, 6]]
    """
    check_array("a", a, halves=True, ndim=2, remedy="Name the order of axes, with permute")
    return permuted(a, (1, 0), out)


def _stacked(a: Array, b: Array, left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a stack of products; raise an error for factors that do not fit."""
    if a.ndim and b.ndim and left[-1] == right[-2]:
        try:
            return np.broadcast_shapes(left[:-2], right[:-2])
        except ValueError:
            pass
    raise ArgumentValueError(
        f"matmul: a of shape {tuple(a.shape)} and b of shape {tuple(b.shape)} do not fit",
        value=(tuple(a.shape), tuple(b.shape)),
        limit="The columns of a must be as many as the rows of b. Extents of earlier axes must be "
        "equal, or 1",
        remedy="Transpose one of them, or reshape it",
    )


def _number(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which products of a dtype add up; booleans are counted."""
    return np.dtype(np.int32) if dtype.kind == "b" else computing_dtype(dtype)


def _is_true(v: Any) -> Any:
    return v != 0


def _multiply_as(
    number: np.dtype[Any], a: Array, b: Array, out: Array, batches: tuple[Any, Any, Any]
) -> None:
    """Multiply in a dtype; kernels compute in the dtype of the product."""
    if number == out.dtype:
        _multiply(a, b, out, batches)
        return
    if a.ndim == b.ndim == 2 and out.dtype.kind != "b" and not is_on_host(out):
        if b.shape[1] == 1:
            multiply_vector(a, b[:, 0], out[:, 0], number)
            return
        if a.shape[0] == 1 and is_contiguous(b.T):
            multiply_vector(b.T, a[0], out[0], number)
            return
    if a.ndim == b.ndim == 2 and fits_mma(a, b, out):
        multiply_mma(a, b, out)
        return
    one, two = (x if x.dtype == number else elementwise.astype(x, number) for x in (a, b))
    product = allocate(out, tuple(out.shape), number)
    _multiply(one, two, product, batches)
    rounded = _is_true if out.dtype.kind == "b" else itself
    map_call(rounded, [product], [out.dtype], [out], product)


def _multiply(a: Array, b: Array, out: Array, batches: tuple[Any, Any, Any]) -> None:
    """Multiply by the kernel that suits the shapes."""
    rows, columns = out.shape[-2:]
    if is_on_host(out):
        is_large = fits_panels(out, a.shape[-1])
        multiply_large = multiply_mma if is_large and fits_tiles(a, b, out) else multiply_panels
    else:
        is_large = out.dtype.kind == "f" and min(rows, columns) >= MIN_SIDE
        multiply_large = multiply_blocks
    if a.ndim == b.ndim == 2:
        if columns == 1:
            multiply_vector(a, b[:, 0], out.reshape((rows,)), out.dtype)
        elif is_large:
            multiply_large(a, b, out)
        else:
            grid = (-(-columns // TILE), min(-(-rows // TILE), MAX_GRID_Y))
            launch(matmul_tiles, grid, (TILE, TILE), a, b, out, number=out.dtype.type)
        return
    stacks = (_stack(a), _stack(b), out.reshape((-1, rows, columns)))
    if not is_large:
        multiply_batches(*stacks, batches)
        return
    places = [places_of(each, batches[2]) for each in batches[:2]]
    for number in range(stacks[2].shape[0]):
        one, two = (number if each is None else int(each[number]) for each in places)
        multiply_large(stacks[0][one], stacks[1][two], stacks[2][number])


def _stack(array: Array) -> Array:
    """Return all matrices along one axis, a view if one is possible."""
    if array.ndim == 3:
        return array
    return contiguous(array).reshape((math.prod(array.shape[:-2]), *array.shape[-2:]))


@kd.kernel(wraparound=False)
def copy_to_panels(b, panels, *, number, columns):
    """Copy neighbouring columns: ``b[k, n]`` to ``panels[p, k, columns]``."""
    t, p = kd.threadIdx.x, kd.blockIdx.x
    c = min(p * columns, b.shape[1] - columns) + t
    first = kd.blockIdx.y * COPIED
    for k in range(first, min(first + COPIED, b.shape[0])):
        panels[p, k, t] = number(b[k, c])


@kd.kernel(wraparound=False)
def matmul_panels(a, panels, out, *, number, columns):
    """Multiply: ``a[m, k], panels[p, k, columns], out[m, n]``."""
    t, p = kd.threadIdx.x, kd.blockIdx.x
    c = min(p * columns, out.shape[1] - columns) + t
    top = min(kd.blockIdx.y * ROWS, out.shape[0] - ROWS)
    sums = kd.local.array(ROWS, number)
    for r in range(ROWS):
        sums[r] = number(0)
    for k in range(a.shape[1]):
        x = panels[p, k, t]
        for r in range(ROWS):
            sums[r] += number(a[top + r, k]) * x
    for r in range(ROWS):
        out[top + r, c] = sums[r]


def fits_panels(out: Array, inner: int) -> bool:
    """Return whether a product on the host is large enough, and of numbers that vectors hold."""
    dtype, (rows, columns) = out.dtype, out.shape[-2:]
    is_of_vectors = dtype.kind in "iuf" and dtype.itemsize >= 4
    has_room = rows >= ROWS and columns * dtype.itemsize >= WIDTH
    return is_of_vectors and has_room and rows * columns * inner >= MIN_PRODUCTS


def fits_tiles(a: Array, b: Array, out: Array) -> bool:
    """Return whether tiles multiply large matrices on the host in less time than panels."""
    is_of_floats = a.dtype == b.dtype == out.dtype and out.dtype.kind == "f"
    return is_of_floats and choose_host_tile(out, a.shape[-1]) != PANELS


def multiply_panels(a: Array, b: Array, out: Array) -> None:
    """Multiply two matrices on the host into a third one of fitting size."""
    columns = WIDTH // out.dtype.itemsize
    static: dict[str, Any] = {"number": out.dtype.type, "columns": columns}
    inner, count = b.shape[0], -(-out.shape[1] // columns)
    panels = allocate(out, (count, inner, columns), out.dtype)
    launch(copy_to_panels, (count, -(-inner // COPIED)), columns, b, panels, **static)
    launch(matmul_panels, (count, -(-out.shape[0] // ROWS)), columns, a, panels, out, **static)


# -- products of tiles -----------------------------------------------------------------------------
# Products of matrices of float16 and bfloat16, with sums of float32; on a CPU of all floats.
#
# Tiles are multiplied by :func:`kerneldsl.mma`: by tensor cores of a GPU, and by the instructions
# for bfloat16 of a CPU that has them.


#: Fewest rows and columns of products of 16-bit floats, and of their tiles.
LEAST = 64
#: Threads of a block on a CPU.
HOST_BLOCK = 128
#: Rows, columns, and extents along k, for the caches of a CPU, with relative rates of such tiles.
HOST_TILES = {
    (512, 512, 256): 1.0,
    (256, 256, 64): 0.97,
    (128, 128, 64): 0.94,
    (64, 64, 64): 0.86,
    (32, 32, 64): 0.7,
    (8, 256, 64): 0.45,
}
#: The tile of a block of `multiply_panels`, of float32, and its rate.
PANELS, PANELS_RATE = (ROWS, WIDTH // 4, 1), 0.38
#: Tiles for one or two warpgroups of a GPU, with the relative rates of such tiles on an H200.
DEVICE_TILES: dict[tuple[int, ...], float] = {
    (128, 256, 64, 256): 1.0,
    (128, 192, 64, 256): 0.96,
    (128, 128, 64, 256): 0.89,
    (128, 96, 64, 256): 0.8,
    (128, 64, 64, 256): 0.76,
    (LEAST, LEAST, 64, 128): 0.45,
}
#: Tiles that a large GPU computes at once. Several blocks compute one in so many parts along k,
#: which have at least this extent.
MAX_TILES, PARTS, MIN_PART = 132, (1, 2, 3, 4, 6, 8, 12, 16, 32), 2048
#: Cost of adding parts, in products: of each launch, and of each sum.
LAUNCH_COST, SUM_COST = 21e6, 5
#: Lowest compute capability with tensor cores for bfloat16, in tenths.
MIN_ARCHITECTURE = 80


@kd.kernel(wraparound=False)
def matmul_mma(a, b, out, *, rows, columns, depth, parts, sums=kd.float32):
    """Multiply two matrices: ``a[m, k], b[k, n], out[m, n]``; parts along k are below each other.

    Each part then has whole tiles.
    """
    height, length = out.shape[0] // parts, -(-a.shape[1] // (depth * parts)) * depth
    for m, n in kd.tiles(out.shape, (rows, columns)):
        part = m // height if parts > 1 else 0
        acc = kd.tile.zeros((rows, columns), sums)
        for k in kd.pipelined(range(part * length, min((part + 1) * length, a.shape[1]), depth)):
            x = kd.tile.load(a, (m - part * height, k), (rows, depth))
            acc = kd.mma(x, kd.tile.load(b, (k, n), (depth, columns)), acc)
        kd.tile.store(out, (m, n), acc)


@kd.kernel(wraparound=False, early_start=True)
def add_parts(sums, out, *, parts):
    """Add the parts of a product in their order, which are below each other."""
    i, j = kd.grid(2)
    height, total = sums.shape[0] // parts, sums[i, j]
    for part in range(1, parts):
        total += sums[part * height + i, j]
    out[i, j] = total


def fits_mma(a: Array, b: Array, out: Array) -> bool:
    """Return whether matrices are large enough, and of 16-bit floats that a device multiplies.

    On a CPU, and on GPUs without such tensor cores, float16 is faster as float32.
    """
    is_of_halves = out.dtype.name == "bfloat16" or (out.dtype == "float16" and not is_on_host(out))
    sides = (min if is_on_host(out) else max)(out.shape), a.shape[1]
    is_large = out.ndim == 2 and min(sides) >= LEAST
    is_fast = is_on_host(out) or has_tensor_cores(out)
    return is_of_halves and a.dtype == b.dtype == out.dtype and is_large and is_fast


def has_tensor_cores(array: Array, least: int = MIN_ARCHITECTURE) -> bool:
    """Return whether an array's device has tensor cores for bfloat16, or of a later capability."""
    digits = "".join(filter(str.isdigit, getattr(array.device, "arch", None) or "0"))
    return int(digits) >= least


def choose_tile(extents: tuple[int, ...], depth: int) -> tuple[tuple[int, ...], int]:
    """Return the tile of a product on a GPU, and the parts along k in which it is computed."""

    def cost(choice: tuple[tuple[int, ...], int]) -> float:
        tile, parts = choice
        turns = -(-_count(extents, tile) * parts // MAX_TILES)
        own = turns * tile[0] * tile[1] * depth / parts / DEVICE_TILES[tile]
        sums = parts * math.prod(max(each, LEAST) for each in extents)
        return own + (parts > 1) * (LAUNCH_COST + SUM_COST * sums)

    all_parts = [each for each in PARTS if each == 1 or depth >= each * MIN_PART]
    return min(((tile, parts) for tile in DEVICE_TILES for parts in all_parts), key=cost)


def choose_host_tile(out: Array, depth: int) -> tuple[int, int, int]:
    """Return the tile by which the threads of a CPU finish a product soonest, or `PANELS`."""
    extents, threads = tuple(out.shape[-2:]), host_threads()
    rates = HOST_TILES if out.dtype.itemsize == 2 else {**HOST_TILES, PANELS: PANELS_RATE}

    def cost(tile: tuple[int, int, int]) -> float:
        turns = -(-_count(extents, tile) // threads)
        return turns * math.prod(tile) * -(-depth // tile[2]) / rates[tile]

    return min(rates, key=cost)


def multiply_mma(a: Array, b: Array, out: Array) -> None:
    """Multiply two matrices into a third one of fitting size."""
    extents, sums, names = tuple(out.shape), out, ("rows", "columns", "depth")
    static: dict[str, Any]
    if is_on_host(out):
        host_tile = choose_host_tile(out, a.shape[1])
        static = dict(zip(names, host_tile, strict=True), parts=1)
        if out.dtype == np.float64:
            static["sums"] = kd.float64
        launch(matmul_mma, _count(extents, host_tile), HOST_BLOCK, a, b, out, **static)
        return
    tile, parts = choose_tile(extents, a.shape[1])
    static = dict(zip(names, tile, strict=False), parts=parts)
    if parts > 1:
        height = parts * -(-extents[0] // tile[0]) * tile[0]
        sums = allocate(out, (height, extents[1]), np.dtype(np.float32))
    # As many blocks as run at once. Each loads its next tile early.
    launch_over(matmul_mma, tuple(sums.shape), a, b, sums, block=tile[3], **static)
    if parts > 1:
        launch_over(add_parts, extents, sums, out, parts=parts)


def _count(extents: tuple[int, ...], tile: tuple[int, ...]) -> int:
    """Return the number of tiles of a product."""
    return -(-extents[0] // tile[0]) * -(-extents[1] // tile[1])
