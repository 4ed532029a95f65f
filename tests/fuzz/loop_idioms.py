"""Loops over ranges at the limits of their types, with strides from scalars, and of one thread.

Each choice is drawn from a generator of its own, so that other parts of a program are as before.
"""

from __future__ import annotations

import random

import numpy as np

from tests.fuzz.expressions import Expression
from tests.fuzz.kernel_parts import Kernel
from tests.fuzz.program import Array, Scalar

__all__ = ["limit_loops", "serial_loop"]

#: Of a program of so many one has each idiom.
_RARE = 6
_STRIDES = (1, 2, 3, 5, 2**60 + 1, 2**62, 2**63 - 50)


def limit_loops(made: Kernel) -> None:
    """Loops over a range or with a stride of scalars, in some programs."""
    rng = random.Random(f"limits {made.seed}")
    if rng.randrange(_RARE) == 0:
        _range_at_limits(made, rng)
    if rng.randrange(_RARE) == 0:
        _runtime_stride(made, rng)


def _range_at_limits(made: Kernel, rng: random.Random) -> None:
    dtype = rng.choice(("int32", "int64"))
    form = rng.choice(("first, last", "first, last, 4", "first, last, -3", "first, last, step"))
    given = [_bounds(rng, dtype, form) for _ in range(2)]
    for name, values in zip(("first", "last", "step"), zip(*given, strict=True), strict=True):
        if name in form:
            made.parameters.append(Scalar(name, dtype, values))
    body, counter, total = made.body, made.body.fresh("k"), made.body.fresh("w")
    made.features.add("range at limits")
    body.emit(f"{total} = 0")
    body.emit(f"for {counter} in range({form}):")
    body.emit(f"    {total} = {total} * 3 + {counter}")
    body.accumulate(Expression(total, "int64"))


def _bounds(rng: random.Random, dtype: str, form: str) -> tuple[int, int, int]:
    """Return bounds and a step of few iterations, most of them near a limit of the type."""
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    near = [(high - 9, high), (low + 9, low), (low, low + 7), (0, 7), (7, 0), (5, low)]
    if form.endswith("step"):
        bounds = rng.choice([*near, (low, high), (high, low), (3, high)])
        few = high if abs(bounds[1] - bounds[0]) > 9 else 1
        return *bounds, rng.choice((few, few // 2 + 1, -few, max(few, 4), min(-few, -2)))
    is_down = "-3" in form
    fitting = [(a, b) for a, b in near if abs(b - a) <= 9 or (a < b) is is_down]
    return *rng.choice(fitting), 1


def _runtime_stride(made: Kernel, rng: random.Random) -> None:
    made.parameters.append(Scalar("by", "int64", (rng.choice(_STRIDES), rng.choice(_STRIDES))))
    made.features.add("runtime stride")
    body, counter, total = made.body, made.body.fresh("k"), made.body.fresh("w")
    tables = [a for a in made.expressions.arrays if len(a.sizes) == 1 and a.is_table]
    integers = [a for a in tables if a.dtype == "int64"]
    table = rng.choice(integers) if integers else None
    size = table.sizes[0] if table else "m * 4"
    term = f"{table.name}[{counter}]" if table else counter
    start = f"{body.coordinates[0]} % 3"
    body.emit(f"{total} = 0")
    if rng.randrange(2):
        body.emit(f"for {counter} in range({start}, {size}, by):")
        body.emit(f"    {total} += {term}")
    else:
        body.emit(f"{counter} = {start}")
        body.emit(f"while {counter} < {size}:")
        body.emit(f"    {total} += {term}")
        body.emit(f"    {counter} += by")
    body.accumulate(Expression(total, "int64"))


def serial_loop(made: Kernel) -> None:
    """The first thread ends with a loop that stores what its next iteration reads."""
    rng = random.Random(f"serial {made.seed}")
    if rng.randrange(_RARE):
        return
    dtype = rng.choice(("int64", "int32", "float64", "float32"))
    sizes = (rng.choice((9, 17, 40)),), (rng.choice((1, 2, 33)),)
    made.parameters.append(Array("chain", dtype, sizes, "counter"))
    made.features.add("serial loop")
    body, k = made.body, made.body.fresh("k")
    header, statement = rng.choice(
        (
            ("1, chain.size", f"chain[{k}] = chain[{k} - 1] * 2"),
            ("1, chain.size", f"chain[{k}] += chain[{k} - 1]"),
            ("chain.size - 2, -1, -1", f"chain[{k}] -= chain[{k} + 1]"),
            ("m, chain.size, m", f"chain[{k}] = chain[{k} - m] + {k}"),
            ("2, chain.size", f"chain[{k}] = max(chain[{k} - 1], chain[{k} - 2])"),
        )
    )
    body.emit(f"if {' and '.join(f'{each} == 0' for each in body.coordinates)}:")
    body.emit(f"    for {k} in range({header}):")
    body.emit(f"        {statement}")
