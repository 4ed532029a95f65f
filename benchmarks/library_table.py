"""Make the table of tuned plans that the library ships for a device.

On the machine with the device, and nothing else on it::

    python benchmarks/library_table.py                # about a minute on a GPU
    python benchmarks/library_table.py --device cpu --exponents 14,18 --budget 100ms

The library's functions are called over some sizes, each launch that leaves its plan open is tuned,
and the plans that won are written to ``stdlib_kernels/tuned/NAME-OF-THE-DEVICE.json``, which a
launch on such a device reads at its first call. Records that the cache has are not measured again;
``kerneldsl tune show --kernel stdlib_kernels`` lists them.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.tuning.records import read_records
from kerneldsl.tuning.t4 import write_documents
from stdlib_kernels import imaging, rows
from stdlib_kernels.copying import copy_elements

_ROOT = Path(__file__).resolve().parents[1]
#: Elements of an array, as powers of two.
_EXPONENTS = (14, 18, 22, 24, 26)


def calls(exponent: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Return calls of the library over arrays of 2**exponent elements."""
    size = 1 << exponent
    height = 1 << exponent // 2
    random = np.random.default_rng(exponent)
    for dtype in (np.float32, np.float64, np.float16):
        x = kd.to_device(random.random(size).astype(dtype))
        plane = x.reshape(height, size // height)
        strided = kd.empty(2 * size, dtype)[::2]
        yield f"copy {x.dtype}", lambda x=x, out=strided: copy_elements(x, out)
        turned = kd.empty(plane.shape[::-1], dtype)
        yield (
            f"copy transposed {x.dtype}",
            lambda plane=plane, turned=turned: copy_elements(plane.T, turned),
        )
    x = kd.to_device(random.random(size).astype(np.float32))
    yield "convert float32 to float64", lambda: copy_elements(x, kd.empty(size, np.float64))
    plane = x.reshape(height, size // height)
    colours = kd.to_device(random.integers(0, 256, (height, size // height, 3)).astype(np.uint8))
    yield "grey", lambda: imaging.grey(colours)
    yield "sobel", lambda: imaging.sobel(plane)
    levels = kd.to_device(random.integers(0, 256, (height, size // height)).astype(np.uint8))
    yield "equalize", lambda: imaging.equalize(levels)
    yield from _elementwise(x)
    yield from _of_rows(plane)


def _elementwise(x: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """Return calls of the fused elementwise functions, where the library has them."""
    try:
        from stdlib_kernels import elementwise
    except ImportError:
        return
    out = kd.empty(x.shape, x.dtype)
    mask = kd.to_device(np.random.default_rng(0).random(x.size) < 0.5)
    yield "where", lambda: elementwise.where(mask, x, 0.0)
    yield "clip", lambda: elementwise.clip(x, 0.25, 0.75, out=out)
    yield "astype", lambda: elementwise.astype(x, np.float64)


def _of_rows(plane: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """Return calls of functions of rows, whose blocks are chosen from a space."""
    weight, out = kd.ones(plane.shape[1], plane.dtype), kd.empty(plane.shape, plane.dtype)
    labels = kd.zeros(plane.shape[0], np.int64)
    yield "softmax", lambda: rows.softmax(plane, out=out)
    yield "log_softmax", lambda: rows.log_softmax(plane, out=out)
    yield "layer_norm", lambda: rows.layer_norm(plane, weight, weight, out=out)
    yield "rms_norm", lambda: rows.rms_norm(plane, weight, out=out)
    yield "cross_entropy", lambda: rows.cross_entropy(plane, labels)


def main() -> int:
    """Tune, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--budget", default="250ms", help="for each kind of launch")
    parser.add_argument("--seconds", type=float, default=60.0, help="after which no call begins")
    parser.add_argument("--exponents", type=_exponents, default=_EXPONENTS)
    parser.add_argument("--output", type=Path, default=_ROOT / "stdlib_kernels" / "tuned")
    arguments = parser.parse_args()
    started = time.perf_counter()
    left_out = []
    with kd.use(arguments.device), kd.fallback("never"), kd.tune(arguments.budget):
        for exponent in arguments.exponents:
            for name, call in calls(exponent):
                if time.perf_counter() - started > arguments.seconds:
                    left_out.append(f"{name} 2^{exponent}")
                    continue
                begun = time.perf_counter()
                call()
                print(f"2^{exponent} {name}: {time.perf_counter() - begun:.2f} s", flush=True)
        device = kd.device_info().name
    records = [
        each
        for each in read_records()
        if each.launch.device == device and each.launch.kernel.startswith("stdlib_kernels.")
    ]
    file = arguments.output / f"{re.sub('[^a-z0-9]+', '-', device.lower()).strip('-')}.json"
    file.parent.mkdir(exist_ok=True)
    count = write_documents(file, records, best_alone=True)
    gains = [
        each.first_ns / each.best_ns
        for each in records
        if each.first_ns is not None and each.best_ns is not None
    ]
    gain = float(np.exp(np.mean(np.log(gains)))) if gains else 1.0
    seconds = time.perf_counter() - started
    print(f"{count} launches in {file}; {gain:.3f} times as fast as the planner alone")
    print(f"{seconds:.0f} s")
    for name in left_out:
        print(f"BROKEN no time was left for {name}")
    return 1 if left_out or not count else 0


def _exponents(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
