"""Measure products with quantized numbers, on one core of this CPU or on a GPU.

Run ``python -m benchmarks.quantized [extent] [--device cpu|gpu]``. On a CPU, times are processor
time of one thread. Products of one row are compared with a read of the packed weights by NumPy, in
turns: the ratio is the median of neighbours. On a GPU, times are by events around a
graph of calls.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np

import kerneldsl as kd
from stdlib_kernels import quantized
from stdlib_kernels.quantized.formats import FORMATS

#: Format of the weights, dtype of the rows, and groups of so many numbers; 0 for whole rows.
CASES = (
    ("ternary", "int8", 0),
    ("ternary", "int8", 256),
    ("ternary", "float32", 0),
    ("int8", "int8", 0),
    ("int4", "int8", 32),
    ("uint4", "float32", 128),
    ("uint4", "float32", 32),
    ("uint4", "bfloat16", 128),
)
#: Calls in a graph.
CALLS = 20
#: Rows, on a CPU and on a GPU.
ROWS = {"cpu": (1, 4, 64, 512), "gpu": (1, 16, 64, 4096)}


def product(name: str, dtype: str, group: int, rows: int, extent: int, make: Any) -> Any:
    """Return a function that multiplies random rows by a square matrix, and the matrix."""
    rng = np.random.default_rng(0)
    chosen = FORMATS[name]
    shape = (extent, chosen.elements(extent))
    words = rng.integers(0, 256, (extent, shape[1] * chosen.stored.itemsize), dtype=np.uint8)
    if name == "ternary":
        words = np.bitwise_and(words, ~(words << 1) | 0x55)  # no pair of bits is 3
    words = words.view(chosen.stored)
    groups = extent // group if group else 1
    scales = rng.random((extent, groups)).astype(np.float32)
    zeros = rng.integers(0, 16, scales.shape).astype(np.uint8) if chosen.has_zeros else None
    x = rng.integers(-128, 128, (rows, extent)).astype(getattr(kd, dtype))
    arrays = [None if each is None else make(each) for each in (x, words, scales, zeros)]
    out = make(np.empty((rows, extent), np.float32))

    def multiply() -> None:
        quantized.matmul(*arrays, format=name, dtype=np.float32, out=out)

    return multiply, words


def on_cpu(extent: int, turns: int) -> None:
    """Print rates of one core, and of one row the ratio to a read of the weights."""
    for name, dtype, group in CASES:
        for rows in ROWS["cpu"]:
            multiply, words = product(name, dtype, group, rows, extent, lambda array: array)
            whole = words.reshape(-1).view(np.int64)
            multiply()
            pairs = [(measure(multiply), measure(whole.max)) for _ in range(turns)]
            best = min(own for own, _ in pairs)
            line = f"{2e-9 * rows * extent**2 / best:6.1f} Gop/s, {1e6 * best:8.0f} µs"
            if rows <= 4:
                ratio = statistics.median(read / own for own, read in pairs)
                read = min(read for _, read in pairs)
                line += f"; {words.nbytes / best / 1e9:.1f} GB/s of weights, {ratio:.2f} of a read"
                line += f" ({words.nbytes / read / 1e9:.1f} GB/s)"
            show(name, dtype, group, rows, line)


def measure(run: Callable[[], object]) -> float:
    """Return the processor time of a call, in seconds."""
    start = time.process_time()
    run()
    return time.process_time() - start


def on_gpu(extent: int, turns: int) -> None:
    """Print times on the device: of a graph of calls, so that the host's speed plays no part."""
    stream = kd.Stream()
    for name, dtype, group in CASES:
        for rows in ROWS["gpu"]:
            multiply, words = product(name, dtype, group, rows, extent, kd.to_device)
            multiply()
            with stream.capture() as graph:
                for _ in range(CALLS):
                    multiply()
            samples = []
            for _ in range(turns + 1):
                begin = stream.record()
                graph.launch(stream)
                samples.append(begin.elapsed_ms(stream.record()) * 1e-3 / CALLS)
            best = min(samples)
            rate = 2e-12 * rows * extent**2 / best
            line = f"{1e6 * best:8.1f} µs, {rate:.1f} Top/s, {words.nbytes / best / 1e9:.0f} GB/s"
            show(name, dtype, group, rows, line)


def show(name: str, dtype: str, group: int, rows: int, line: str) -> None:
    """Print a case."""
    print(f"{name:8s} {dtype:9s} groups {group or 'all':>4}, {rows:4d} rows: {line}", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extent", nargs="?", type=int, default=8192)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--turns", type=int, default=7)
    given = parser.parse_args()
    with kd.use("cpu" if given.device == "cpu" else "cuda"):
        (on_cpu if given.device == "cpu" else on_gpu)(given.extent, given.turns)


if __name__ == "__main__":
    main()
