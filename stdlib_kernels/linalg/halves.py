"""Products of matrices of float16 and bfloat16, with sums of float32.

Tiles are multiplied by :func:`kerneldsl.mma`: by tensor cores of a GPU, and by the instructions for
bfloat16 of a CPU that has them.
"""

from __future__ import annotations

import os

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch, launch_over
from stdlib_kernels.arrays import is_on_host
from stdlib_kernels.checks import Array

__all__ = ["fits_mma", "multiply_mma"]

#: Fewest rows and columns of products, and of their tiles.
LEAST = 64
#: Rows, columns, extents along k, and threads of a block: for the caches of a CPU, and for one or
#: two warpgroups of a GPU. The largest tiles are taken that keep all processors at work.
HOST_TILES = ((512, 512, 256, 128), (256, 256, 256, 128), (LEAST, LEAST, 128, 128))
DEVICE_TILES = ((128, 256, 64, 256), (128, 128, 32, 128), (LEAST, LEAST, 32, 128))
#: Fewest tiles that keep a large GPU at work.
MIN_TILES = 96
#: Lowest compute capability with tensor cores for bfloat16, in tenths.
MIN_ARCHITECTURE = 80


@kd.kernel(wraparound=False)
def matmul_mma(a, b, out, *, rows, columns, depth):
    """Multiply two matrices: ``a[m, k], b[k, n], out[m, n]``."""
    for m, n in kd.tiles(out.shape, (rows, columns)):
        acc = kd.tile.zeros((rows, columns), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], depth)):
            x = kd.tile.load(a, (m, k), (rows, depth))
            y = kd.tile.load(b, (k, n), (depth, columns))
            acc = kd.mma(x, y, acc)
        kd.tile.store(out, (m, n), acc)


def fits_mma(a: Array, b: Array, out: Array) -> bool:
    """Return whether matrices are large enough, and of 16-bit floats that a device multiplies.

    On a CPU, and on GPUs without such tensor cores, float16 is faster as float32.
    """
    names = ("bfloat16",) if is_on_host(out) else ("bfloat16", "float16")
    is_of_halves = out.dtype.name in names and a.dtype == b.dtype == out.dtype
    is_large = out.ndim == 2 and min(*out.shape, a.shape[1]) >= LEAST
    return is_of_halves and is_large and (is_on_host(out) or _has_tensor_cores(out))


def _has_tensor_cores(out: Array) -> bool:
    """Return whether the GPU of an array multiplies bfloat16: from compute capability 8.0 on."""
    digits = "".join(filter(str.isdigit, getattr(out.device, "arch", None) or ""))
    return bool(digits) and int(digits) >= MIN_ARCHITECTURE


def multiply_mma(a: Array, b: Array, out: Array) -> None:
    """Multiply two matrices into a third one of fitting size."""
    is_host = is_on_host(out)
    wanted = 2 * (os.cpu_count() or 1) if is_host else MIN_TILES
    tiles = HOST_TILES if is_host else DEVICE_TILES
    large = (each for each in tiles if _count(out, each) >= wanted)
    tile = next(large, tiles[-1])
    rows, columns, depth, threads = tile
    static = {"rows": rows, "columns": columns, "depth": depth}
    if is_host:
        launch(matmul_mma, _count(out, tile), threads, a, b, out, **static)
    else:  # as many blocks as run at once, each of which loads its next tile early
        launch_over(matmul_mma, out.shape, a, b, out, block=threads, **static)


def _count(out: Array, tile: tuple[int, ...]) -> int:
    """Return the number of tiles of a product."""
    rows, columns = out.shape
    return -(-rows // tile[0]) * -(-columns // tile[1])
