"""Random kernels of products: loads, products, maps, folds, nested loops, loops over tiles.

All numbers are small integers, so that sums are exact in any order.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["write_program"]

_HEAD = """import numpy as np
import kerneldsl as kd

def clamped(v, low):
    return v if v > low else kd.{wide}(low)

def shifted(v, i, j, m):
    return v + kd.{wide}((i + 2 * j + m) % 3)

@kd.kernel
def program(a, b, c, d):
"""


def write_program(seed: int, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Write a module with a kernel ``program(a, b, c, d)``; return its file and its extents."""
    rng = random.Random(seed)
    dtype = rng.choice(("float16", "bfloat16", "float32", "int8"))
    wide = "int32" if dtype == "int8" else "float32"
    rows, columns = rng.choice((8, 16, 24, 40)), rng.choice((8, 16, 32))
    depth = rng.choice((16, 32, 48))
    lines = list(_body(rng, dtype, wide, (rows, columns, depth)))
    file = folder / f"product_program_{seed}.py"
    file.write_text(_HEAD.format(wide=wide) + "\n".join(f"    {line}" for line in lines) + "\n")
    extents = [rng.choice((1, 7, 8, 30, 65)) for _ in range(2)]
    facts = {"dtype": dtype, "wide": wide, "m": extents[0], "n": extents[1]}
    facts |= {"k": rng.choice((0, 5, 32, 70)), "grid": rng.choice((1, 2, 5))}
    return file, facts


def _body(rng: random.Random, dtype: str, wide: str, shape: tuple[int, int, int]) -> Iterator[str]:
    rows, columns, depth = shape
    yield f"for m, n in kd.tiles(c.shape, ({rows}, {columns})):"
    if rng.random() < 0.2:
        yield f"    if m == {rows} and n == 0:"
        yield "        continue"
    has_start = rng.random() < 0.5
    if has_start:
        yield f"    acc = kd.tile.load(d, (m, n), ({rows}, {columns}))"
    else:
        yield f"    acc = kd.tile.zeros(({rows}, {columns}), kd.{wide})"
    yield f"    top = kd.tile.zeros(({rows}, 1), kd.{wide})"
    stages = rng.choice(("", ", stages=2", ", stages=4"))
    yield f"    for k in kd.pipelined(range(0, a.shape[1], {depth}){stages}):"
    inside = "        "
    if rng.random() < 0.3:
        yield f"{inside}if k == {depth} and m > 0:"
        yield f"{inside}    continue"
    yield f"{inside}x = kd.tile.load(a, (m, k), ({rows}, {depth}))"
    if rng.random() < 0.4:
        yield f"{inside}x = x.map(clamped, -2).astype(kd.{dtype})"
    yield f"{inside}y = kd.tile.load(b, (n, k), ({columns}, {depth}))"
    second = rng.choice(("y.T", f"(y * kd.{dtype}(2)).astype(kd.{dtype}).T"))
    choice = rng.randrange(4)
    if choice == 0:
        yield f"{inside}acc = kd.mma(x, {second}, acc)"
    elif choice == 1:
        yield f"{inside}acc = (acc + kd.mma(x, {second})).astype(kd.{wide})"
    elif choice == 2:
        yield f"{inside}s = kd.mma(y, x.T)"
        yield f"{inside}acc = (acc + s.T).astype(kd.{wide})"
    else:
        yield f"{inside}s = kd.mma(x, {second}).map(clamped, 0)"
        yield f"{inside}top = max(top, s.max(axis=1))"
        yield f"{inside}acc = (acc + s).astype(kd.{wide})"
    if rng.random() < 0.3:
        yield f"{inside}for h in kd.pipelined(range(0, 16, 16)):"
        yield f"{inside}    z = kd.tile.load(b, (h, k), (16, {depth}))"
        yield f"{inside}    top = max(top, kd.mma(x, z.T).max(axis=1))"
    result = rng.choice(("acc", "acc + top", "acc - top"))
    store = rng.choice(("", ", shifted, m"))
    yield f"    kd.tile.store(c, (m, n), {result}{store})"
