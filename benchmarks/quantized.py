"""Measure products with quantized numbers, on one core of this CPU or on a GPU.

Run ``python -m benchmarks.quantized [--device cpu|gpu] [--only NAME] [--json FILE]``. On a CPU,
times are processor time of one thread. Products of one row are compared with a read of the packed
weights by NumPy, in turns: the ratio is the median of neighbours. On a GPU, times are by events
around a graph of calls, which take turns with copies of the weights that its cache does not hold. A
part of each result is compared with a product in float64.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np

import kerneldsl as kd
from benchmarks.machine import describe_cpu_machine, describe_gpu_machine
from stdlib_kernels import quantized
from stdlib_kernels.linalg import matmul
from stdlib_kernels.quantized.formats import FORMATS


@dataclass(frozen=True)
class Case:
    """A product, and what it must reach."""

    #: Format of the weights, or their dtype for a product without quantized numbers.
    weights: str
    #: Dtype of the rows.
    rows_of: str
    rows: int
    #: A scale is of so many numbers; 0 for those of a row.
    group: int = 0
    #: A scale is of blocks of as many rows.
    is_of_blocks: bool = False
    columns: int = 0
    inner: int = 0
    #: At most so many microseconds, at least so many 10**12 operations per second, or on a CPU
    #: 10**9, and at least such a part of the rate of a read.
    most_us: float = 0.0
    least_rate: float = 0.0
    least_read: float = 0.0

    @property
    def name(self) -> str:
        group = f" by {self.group}" if self.group else ""
        shape = f"{self.rows} x {self.columns} x {self.inner}"
        return f"{self.weights}{group}, {self.rows_of}, {shape}"

    def of(self, extent: int) -> Case:
        """Return the case with a square matrix, if it has no other."""
        shape = {"columns": self.columns or extent, "inner": self.inner or extent}
        return Case(**vars(self) | shape)


#: Bounds hold for 8192 columns and numbers of a row.
ON_CPU = tuple(
    Case(name, dtype, rows, group, least_rate=rates.get(rows, 0.0), least_read=read * (rows == 1))
    for name, dtype, group, rates, read in (
        ("ternary", "int8", 0, {64: 300.0, 512: 300.0}, 0.85),
        ("ternary", "int8", 256, {}, 0.85),
        ("ternary", "float32", 0, {}, 0.0),
        ("int8", "int8", 0, {512: 350.0}, 0.85),
        ("int4", "int8", 32, {}, 0.0),
        ("uint4", "float32", 128, {}, 0.0),
        ("uint4", "float32", 32, {}, 0.0),
        ("uint4", "bfloat16", 128, {}, 0.0),
    )
    for rows in (1, 4, 64, 512)
)
_WIDE = {"columns": 7168, "inner": 16384}
ON_GPU = (
    Case("bfloat16", "bfloat16", 1, most_us=37),
    Case("bfloat16", "bfloat16", 16),
    Case("bfloat16", "bfloat16", 64, most_us=44),
    Case("int4", "bfloat16", 1, 128, most_us=18),
    Case("int4", "bfloat16", 16, 128, most_us=20),
    Case("int4", "bfloat16", 64, 128, most_us=30),
    Case("int4", "bfloat16", 256, 128),
    Case("int4", "bfloat16", 4096, 128, least_rate=600),
    Case("int4", "float16", 4096, 128, least_rate=600),
    Case("int8", "int8", 4096, least_rate=1250, **_WIDE),
    Case("float8_e4m3fn", "float8_e4m3fn", 4096, least_rate=1250, **_WIDE),
    Case("float8_e4m3fn", "float8_e4m3fn", 4096, 128, True, least_rate=1250, **_WIDE),
    *(Case("ternary", "int8", rows) for rows in (1, 16, 64, 4096)),
    *(Case("uint4", "bfloat16", rows, 128) for rows in (1, 16, 64, 4096)),
    *(Case("ternary", "int8", rows, 256) for rows in (1, 16, 4096)),
    *(Case("int4", "int8", rows, 32) for rows in (1, 16, 4096)),
    *(Case("ternary", "float32", rows) for rows in (1, 16, 4096)),
    *(Case("uint4", "float32", rows, 128) for rows in (1, 16, 4096)),
)
#: Calls in a graph, and the bytes of weights that they read at least before the first ones again.
CALLS, COLD_BYTES = 20, 1 << 28
#: Rows and columns of a result that are compared.
COMPARED = 48


class Product:
    """A product of random numbers.

    Parameters
    ----------
    case : Case
        What is multiplied.
    make : callable
        Brings an array to the device.
    """

    def __init__(self, case: Case, make: Callable[[Any], Any]) -> None:
        rng = np.random.default_rng(0)
        self.case = case
        shape = (case.columns, case.inner)
        values = np.arange(-8, 9).astype(getattr(kd, case.rows_of))
        self._x = values[rng.integers(0, values.size, (case.rows, case.inner), np.uint8)]
        self._scales = self._zeros = None
        chosen = FORMATS.get(case.weights)
        if chosen is None or chosen.is_float:
            values = np.arange(-8, 9).astype(getattr(kd, case.weights))
            self.words = values[rng.integers(0, values.size, shape, np.uint8)]
        else:
            size = chosen.elements(case.inner) * chosen.stored.itemsize
            words = rng.integers(0, 256, (case.columns, size), dtype=np.uint8)
            if case.weights == "ternary":
                words = np.bitwise_and(words, ~(words << 1) | 0x55)  # no pair of bits is 3
            self.words = words.view(chosen.stored)
        if chosen is not None:
            rows = case.columns // 128 if case.is_of_blocks else case.columns
            groups = case.inner // case.group if case.group else 1
            self._scales = rng.random((rows, groups)).astype(np.float32)
            if chosen.has_zeros:
                self._zeros = rng.integers(0, 16, self._scales.shape).astype(np.uint8)
        own = [self._x, self._scales, self._zeros]
        arrays = [None if each is None else make(each) for each in own]
        dtype = np.float32 if case.weights in FORMATS else self._x.dtype
        self._out = make(np.full((case.rows, case.columns), np.nan, dtype))
        count = -(-COLD_BYTES // self.words.nbytes) if make is kd.to_device else 1
        self.calls = [self._call(make(self.words), *arrays) for _ in range(min(count, CALLS))]

    def _call(self, words: Any, x: Any, scales: Any, zeros: Any) -> Callable[[], None]:
        name, out = self.case.weights, self._out
        if scales is None:
            return lambda: matmul(x, words.T, out)
        return lambda: quantized.matmul(
            x, words, scales, zeros, format=name, dtype=np.float32, out=out
        )

    def check(self) -> None:
        """Compare a part of the result with a product in float64."""
        case, rng = self.case, np.random.default_rng(1)
        out = self._out if isinstance(self._out, np.ndarray) else self._out.copy_to_host()
        i, j = (
            np.sort(rng.choice(extent, min(COMPARED, extent), replace=False))
            for extent in out.shape
        )
        x, weights = self._x[i].astype(np.float64), self.words[j]
        if self._scales is not None:
            weights = quantized.unpack(weights, case.weights, case.inner).astype(np.float64)
            own, repeat = (
                j // (128 if case.is_of_blocks else 1),
                case.inner // self._scales.shape[1],
            )
            if self._zeros is not None:
                weights -= self._zeros[own].repeat(repeat, axis=1)
            weights *= self._scales[own].repeat(repeat, axis=1)
        weights = weights.astype(np.float64)
        off = np.abs(out[np.ix_(i, j)].astype(np.float64) - x @ weights.T)
        off /= np.abs(x) @ np.abs(weights).T + 1e-30
        unit = {"bfloat16": 2.0**-8, "float16": 2.0**-11}.get(case.rows_of, 2.0**-20)
        if not off.max() <= unit:
            raise AssertionError(f"{case.name} is off by {off.max():.3g} of the sum of products")


def on_cpu(product: Product, turns: int) -> dict[str, float]:
    """Return seconds of one core, and of few rows the ratio to a read of the weights."""
    (multiply,), whole = product.calls, product.words.reshape(-1).view(np.int64)
    pairs = [(processor_time(multiply), processor_time(whole.max)) for _ in range(turns)]
    found = {"seconds": min(own for own, _ in pairs)}
    if product.case.rows <= 4:
        read = min(read for _, read in pairs)
        found["of_read"] = statistics.median(read / own for own, read in pairs)
        found["read_gbps"] = product.words.nbytes / read / 1e9
    return found


def processor_time(run: Callable[[], object]) -> float:
    """Return the processor time of a call, in seconds."""
    start = time.process_time()
    run()
    return time.process_time() - start


def on_gpu(product: Product, turns: int) -> dict[str, float]:
    """Return seconds on the device: of a graph of calls, so that the host's speed plays no part."""
    stream, calls = kd.Stream(), product.calls
    with stream.capture() as graph:
        for number in range(CALLS):
            calls[number % len(calls)]()
    samples = []
    for _ in range(turns + 1):
        begin = stream.record()
        graph.launch(stream)
        samples.append(begin.elapsed_ms(stream.record()) * 1e-3 / CALLS)
    return {"seconds": statistics.median(samples[1:])}


def judged(case: Case, found: dict[str, float], unit: float) -> list[tuple[str, bool]]:
    """Return the bounds of a case, and whether each is kept."""
    us = 1e6 * found["seconds"]
    bounds = []
    if case.most_us:
        bounds.append((f"at most {case.most_us:g} µs", us <= case.most_us))
    if case.least_rate:
        bounds.append((f"at least {case.least_rate:g}", found["rate"] / unit >= case.least_rate))
    if case.least_read:
        text = f"at least {case.least_read:g} of a read"
        bounds.append((text, found["of_read"] >= case.least_read))
    return bounds


def shown(case: Case, found: dict[str, float], unit: float) -> str:
    """Return a row of the table."""
    scale = "Top/s" if unit == 1e12 else "Gop/s"
    line = f"{case.name:44s} {1e6 * found['seconds']:9.1f} µs {found['rate'] / unit:7.1f} {scale}"
    line += f", {found['weights_gbps']:.1f} GB/s of weights"
    if "of_read" in found:
        line += f", {found['of_read']:.2f} of a read ({found['read_gbps']:.1f} GB/s)"
    return line


def main() -> int:
    """Measure, print and store; return 0 where all bounds were kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("extent", nargs="?", type=int, default=8192)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    parser.add_argument("--commit", help="what is measured, where there is no git repository")
    parser.add_argument("--json", type=Path, help="file for the figures")
    given = parser.parse_args()
    is_gpu = given.device == "gpu"
    describe = describe_gpu_machine if is_gpu else describe_cpu_machine
    result: dict[str, Any] = {"machine": describe(given.commit), "rows": []}
    unit, failed = (1e12 if is_gpu else 1e9), []
    with kd.use("cuda" if is_gpu else "cpu"):
        for case in (each.of(given.extent) for each in (ON_GPU if is_gpu else ON_CPU)):
            if given.only not in case.name:
                continue
            try:
                product = Product(case, kd.to_device if is_gpu else lambda array: array)
                product.calls[0]()
                product.check()
                found = (on_gpu if is_gpu else on_cpu)(product, given.turns)
            except Exception as error:  # noqa: BLE001 - the others are measured all the same
                print(f"{case.name:44s} FAILED {type(error).__name__}: {error}", flush=True)
                failed.append(case.name)
                continue
            found["rate"] = 2 * case.rows * case.columns * case.inner / found["seconds"]
            found["weights_gbps"] = product.words.nbytes / found["seconds"] / 1e9
            bounds = judged(case, found, unit)
            marks = "".join(f"  {'kept' if kept else 'BROKEN'} {text}" for text, kept in bounds)
            print(shown(case, found, unit) + marks, flush=True)
            failed += [case.name for _, kept in bounds if not kept]
            result["rows"].append({"case": case.name, **found, "bounds": dict(bounds)})
            if given.json:  # a run that is ended early has stored what it measured
                given.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"BROKEN {', '.join(dict.fromkeys(failed))}" if failed else "kept   all bounds")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
