"""Compare products of tiles on one core of this CPU with NumPy's matmul, in turns.

Run ``python -m benchmarks.cpu_products [extent] [turns] [dtype …]``. Each turn measures a product
of square matrices by ``kd.mma`` and by NumPy, in processor time of one thread. The result is the
median of the ratios of neighbours, and the best rate of each, in 10⁹ operations per second. The
dtype may be ``ternary``: int8 by packed weights.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np

import kerneldsl as kd

#: Rows, columns, and the extent along k of the tiles.
TILES = ((256, 256, 256), (512, 512, 256), (1024, 128, 512))


@kd.kernel
def product(a, b, c, *, BM, BN, BK, SUMS):
    for m, n in kd.tiles(c.shape, (BM, BN)):
        acc = kd.tile.zeros((BM, BN), SUMS)
        for k in kd.pipelined(range(0, a.shape[1], BK)):
            x = kd.tile.load(a, (m, k), (BM, BK))
            y = kd.tile.load(b, (k, n), (BK, BN))
            acc = kd.mma(x, y, acc)
        kd.tile.store(c, (m, n), acc)


@kd.kernel
def ternary(x, words, y, *, BM, BN, BK, SUMS):
    for m, n in kd.tiles(y.shape, (BM, BN)):
        acc = kd.tile.zeros((BM, BN), SUMS)
        for k in kd.pipelined(range(0, x.shape[1], BK)):
            w = kd.tile.load(kd.packed(words, kd.ternary), (n, k), (BN, BK))
            acc = kd.mma(kd.tile.load(x, (m, k), (BM, BK)), w.T, acc)
        kd.tile.store(y, (m, n), acc)


def measure(run: Callable[[], object]) -> float:
    """Return the processor time of a call, in seconds."""
    start = time.process_time()
    run()
    return time.process_time() - start


def main(extent: int, turns: int, dtypes: list[str]) -> None:
    """Print a line for each dtype and tile."""
    rng = np.random.default_rng(0)
    plain = [rng.standard_normal((extent, extent)).astype(np.float32) for _ in range(2)]
    for dtype in dtypes:
        is_ternary = dtype == "ternary"
        element = np.dtype(np.int8 if is_ternary else getattr(kd, dtype))
        sums = "int32" if element.kind in "iu" else "float32"
        a, b = ((50 * each).astype(element) for each in plain)
        if is_ternary:
            b = kd.ternary.pack(np.sign(b))
        c = np.empty((extent, extent), sums)
        for rows, columns, depth in TILES:
            kernel = ternary if is_ternary else product
            fixed = kernel.member(BM=rows, BN=columns, BK=depth, SUMS=sums)
            launch = fixed[(-(-extent // rows) * -(-extent // columns)), 128]

            def ours() -> None:
                launch(a, b, c)  # noqa: B023

            ours()
            pairs = [(measure(ours), measure(lambda: plain[0] @ plain[1])) for _ in range(turns)]
            operations = 2 * extent**3 / 1e9
            ratio = statistics.median(numpy / own for own, numpy in pairs)
            best, numpys = (operations / min(each) for each in zip(*pairs, strict=True))
            print(
                f"{dtype:9s} {extent}³, tiles {rows}×{columns}×{depth}: {ratio:.3f} of NumPy's "
                f"float32; best {best:.0f} and {numpys:.0f} Gop/s",
                flush=True,
            )


if __name__ == "__main__":
    given = sys.argv[1:]
    extent, turns = (int(each) for each in (*given[:2], "2048", "7")[:2])
    with kd.use("cpu"):
        main(extent, turns, given[2:] or ["float32"])
