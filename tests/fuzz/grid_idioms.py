"""Barriers of the grid: what blocks hand to each other, and what they keep across one."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.fuzz.expressions import USUAL, Expression
from tests.fuzz.kernel_parts import Kernel
from tests.fuzz.program import DATA_SETS, Array

__all__ = ["crosses_grid", "pass_on"]

#: Of a program of so many one has barriers of the grid.
_RARE = 5


def crosses_grid(seed: int) -> bool:
    """Return whether the kernel of a seed has barriers of the grid."""
    return random.Random(f"grid {seed}").randrange(_RARE) == 0


def pass_on(made: Kernel, total: int, idioms: Callable[[], None]) -> None:
    """Hand values to other blocks, once or in a loop, and write idioms between the barriers."""
    body, dtype = made.body, made.rng.choice(USUAL)
    made.features.add("grid barrier")
    made.parameters.append(Array("passed", dtype, ((total,),) * DATA_SETS, "output"))
    counter = body.counter()
    test = body.expressions.choose(("n > 1", "m == 2", "n % 2 == 0"))
    header = body.expressions.choose(
        (f"for {counter} in range(m):", f"for {counter} in (1, 2):", f"if {test}:", "")
    )
    if header.startswith("for"):
        with body.block(header, Expression(counter, "int64"), uniform=(counter,)):
            _exchange(made, dtype, total, idioms)
    elif header:
        with body.block(header):
            _exchange(made, dtype, total, idioms)
    else:
        _exchange(made, dtype, total, idioms)


def _exchange(made: Kernel, dtype: str, total: int, idioms: Callable[[], None]) -> None:
    body, choose = made.body, made.expressions.choose
    body.emit(f"passed[i] = {made.expressions.of_type(dtype, 1)}")
    if made.chance(2):
        idioms()
    body.emit("kd.grid_group().sync()")
    place = choose((f"{total - 1} - i", f"(i + {made.rng.randrange(total)}) % {total}", "n - n"))
    body.take(Expression(f"passed[{place}]", dtype))
    idioms()
    body.emit("kd.grid_group().sync()")
