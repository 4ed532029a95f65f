"""A matrix product through tiles in shared memory, as in the CUDA C++ Programming Guide.

Run it: python examples/tiled_matmul.py
"""

from __future__ import annotations

import numpy as np

import kerneldsl as kd

TILE = 16


@kd.kernel
def matmul(a, b, out):
    tile_a = kd.shared.array((TILE, TILE), kd.float32)
    tile_b = kd.shared.array((TILE, TILE), kd.float32)
    tx = kd.threadIdx.x
    ty = kd.threadIdx.y
    column, row = kd.grid(2)  # x runs along a row
    total = kd.float32(0)
    for start in range(0, a.shape[1], TILE):
        # Every thread reaches both barriers; only the loads are guarded.
        tile_a[ty, tx] = kd.float32(0)
        tile_b[ty, tx] = kd.float32(0)
        if row < a.shape[0] and start + tx < a.shape[1]:
            tile_a[ty, tx] = a[row, start + tx]
        if start + ty < b.shape[0] and column < b.shape[1]:
            tile_b[ty, tx] = b[start + ty, column]
        kd.syncthreads()
        for k in range(TILE):
            total += tile_a[ty, k] * tile_b[k, tx]
        kd.syncthreads()
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = total


def main() -> None:
    rng = np.random.default_rng()
    a = rng.standard_normal((301, 203)).astype(np.float32)
    b = rng.standard_normal((203, 257)).astype(np.float32)
    out = np.full((a.shape[0], b.shape[1]), np.nan, np.float32)
    grid = (-(-out.shape[1] // TILE), -(-out.shape[0] // TILE))
    matmul[grid, (TILE, TILE)](a, b, out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-4, atol=1e-4)
    print(f"matmul of {a.shape} and {b.shape} on {kd.current_target()}: as NumPy's")


if __name__ == "__main__":
    main()
