"""Compile times of a kernel of ten tile operations, against the same kernel without tiles.

    python benchmarks/tile_compile.py --json benchmarks/results/tile-compile.json

Needs no GPU: the code is made for sm_90 and for this CPU. Each sample is a kernel that nobody has
seen before, made by ``exec`` with a constant of its own, with nothing cached; the two sides take
turns. The version without tiles does the same with an element a thread and words of ``kd.block``.
"""

# ruff: noqa: E402 -- it runs from anywhere
from __future__ import annotations

import argparse
import json
import linecache
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "benchmarks")]

from machine import describe_cpu_machine

import kerneldsl as kd

#: Most that tiles may take of the time without them.
BOUND = 2.5
SIGNATURE = "float32[:,::1], float32[:,::1], float32[:,::1]"

WITH_TILES = """
def normalize_{serial}(x, y, out):
    row = kd.blockIdx.x
    v = kd.tile.load(x[row], 0, 1024)
    w = kd.tile.load(y[row], 0, 1024)
    p = v * w + kd.float32({serial})
    top = p.max()
    e = math.exp(p - top)
    q = e / e.sum()
    d = q - q.mean()
    low = d.min()
    kd.tile.store(out[row], 0, d - low)
"""
WITHOUT_TILES = """
def normalize_{serial}(x, y, out):
    row, i = kd.blockIdx.x, kd.threadIdx.x
    v = x[row, i]
    w = y[row, i]
    p = v * w + kd.float32({serial})
    top = kd.block.max(p)
    e = math.exp(p - top)
    q = e / kd.block.sum(e)
    d = q - kd.block.sum(q) / kd.float32(kd.blockDim.x)
    low = kd.block.min(d)
    out[row, i] = d - low
"""


def seconds_of(template: str, serial: int, target: str) -> float:
    """Return processor seconds from the decorator to compiled code."""
    text = template.format(serial=serial)
    filename = f"<tile compile {serial} {hash(template)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "tile_compile"}
    exec("import math\nimport kerneldsl as kd", namespace)
    started = time.process_time()
    exec(compile(text, filename, "exec"), namespace)  # the text is ours
    kernel = kd.kernel(namespace[f"normalize_{serial}"])
    kernel.artifact(SIGNATURE, target=target, block=256)
    return time.process_time() - started


def measure(target: str, count: int) -> dict[str, Any]:
    """Return medians of both sides on one target, and their ratio."""
    sides = {"with tiles": WITH_TILES, "without": WITHOUT_TILES}
    taken: dict[str, list[float]] = {side: [] for side in sides}
    for serial in range(count + 1):
        for side, template in sides.items():
            seconds = seconds_of(template, serial, target)
            if serial:  # the first pays for imports
                taken[side].append(seconds)
    medians = {side: statistics.median(samples) for side, samples in taken.items()}
    return {"seconds": medians, "ratio": medians["with tiles"] / medians["without"]}


def main() -> int:
    """Measure, print and store; the exit status is 1 where the bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=9, help="kernels of each side")
    parser.add_argument("--commit", help="what is measured, where there is no git repository")
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, {"KERNELDSL_CACHE_DIR": folder}),
    ):
        targets = {target: measure(target, options.count) for target in ("cuda", "cpu")}
    for target, found in targets.items():
        times = ", ".join(f"{side} {1e3 * s:.0f} ms" for side, s in found["seconds"].items())
        word = "kept  " if found["ratio"] <= BOUND else "BROKEN"
        print(f"{word} {target}: {found['ratio']:.2f}x, at most {BOUND:g}x ({times})")
    if options.json:
        result = {"machine": describe_cpu_machine(options.commit), "bound": BOUND, **targets}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if all(found["ratio"] <= BOUND for found in targets.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
