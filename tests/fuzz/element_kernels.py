"""Kernels of independent elements, launched by ``forall`` or over a grid with a guard."""

from __future__ import annotations

import random

from tests.fuzz.array_idioms import edge
from tests.fuzz.expressions import Expression
from tests.fuzz.functions import helpers
from tests.fuzz.kernel_parts import Kernel, sizes_of
from tests.fuzz.loop_idioms import limit_loops, serial_loop
from tests.fuzz.program import DATA_SETS, Program
from tests.fuzz.thread_idioms import statements

__all__ = ["element_program"]

#: Places that are the same for all blocks that cover an extent.
_PLACES = {
    1: ("kd.grid(1)",),
    2: ("kd.grid(2)[0]", "kd.grid(2)[1]"),
    3: ("kd.grid(3)[0]", "kd.grid(3)[2]"),
}


def element_program(seed: int) -> Program:
    """A kernel of independent elements, launched by ``forall`` or over a grid with a guard."""
    made = Kernel(seed)
    rng, body = made.rng, made.body
    is_forall = rng.random() < 0.6
    ndim = rng.choice((1, 1, 1, 2, 2, 3))
    sizes = {1: (1, 5, 15, 16, 17, 33, 64, 70), 2: (1, 3, 4, 7, 17), 3: (1, 2, 3, 5)}[ndim]
    extents = tuple(tuple(rng.choice(sizes) for _ in range(ndim)) for _ in range(DATA_SETS))
    names = ("i", "j", "k")[:ndim]
    body.coordinates = names
    index = ", ".join(names)
    made.scalars()
    made.constants()
    made.expressions.values += [Expression(n, "int64") for n in names] * 2
    made.tables()
    guard = _choose_guard(rng, ndim, is_forall=is_forall)
    made.inputs(extents, index, is_inside=guard != "late" and rng.random() < 0.8)
    made.output(extents)
    made.counters()
    body.expressions.functions += helpers(rng, made.lines, _PLACES[ndim])
    body.uniform += ["n", "m", "out0.size"]
    _place(made, names, is_forall)
    _guard(made, names, guard)
    body.may_return = guard in ("early", "none") and rng.random() < 0.5
    made.variables()
    if guard != "late" and rng.random() < 0.3:
        body.lvalues += [Expression(f"out0[{index}]", made_dtype(made, "out0"))]
        body.emit(f"out0[{index}] = {made.expressions.of_type(made_dtype(made, 'out0'), 1)}")
    statements(body, rng.choice((1, 1, 1, 2)), rng.choice((0, 1, 1, 1)))
    limit_loops(made)
    made.call_the_rest()
    if guard == "late":
        edge(body)
        _guard(made, names, "nested")
    made.store(index)
    serial_loop(made)
    text, parameters = made.finish()
    made.features |= {"element kernel", f"{ndim}-d", "forall" if is_forall else "grid"}
    if is_forall:
        return Program(seed, text, parameters, extents=extents, features=frozenset(made.features))
    block = {1: (16,), 2: (8, 4), 3: (4, 2, 2)}[ndim]
    grid = _covering(extents, block)
    # Threads beyond the extent, of which other blocks have others, may have updated a counter.
    is_same = guard != "late" or "atomic" not in made.features
    known = extents if is_same else None
    return Program(seed, text, parameters, grid, block, known, features=frozenset(made.features))


def _covering(extents: tuple[tuple[int, ...], ...], block: tuple[int, ...]) -> tuple[int, ...]:
    """Blocks that cover the largest extent, whose last axis is x."""
    largest = [max(sizes) for sizes in zip(*extents, strict=True)][::-1]
    return tuple(-(-n // b) for n, b in zip(largest, block, strict=True))


def _place(made: Kernel, names: tuple[str, ...], is_forall: bool) -> None:
    """Ask for the thread's place; ``grid`` counts x first in a grid, last under ``forall``."""
    order = names if is_forall else names[::-1]
    body, ndim = made.body, len(names)
    if ndim > 1 and made.chance(6):
        body.emit(f"place = kd.grid({ndim})")
        for position, name in enumerate(order):
            body.emit(f"{name} = place[{position}]")
    elif is_forall or made.chance(2):
        body.emit(f"{', '.join(order)} = kd.grid({ndim})")
    else:
        for axis, name in zip("xyz", order, strict=False):
            body.emit(f"{name} = kd.blockIdx.{axis} * kd.blockDim.{axis} + kd.threadIdx.{axis}")


def _choose_guard(rng: random.Random, ndim: int, *, is_forall: bool) -> str:
    """Where the threads beyond the output are left out; under forall there are none."""
    kinds = ["early", "early", "nested", "nested", "nested"]
    if is_forall:
        return rng.choice(kinds + ["none"] * 5)
    return rng.choice([*kinds, "late", "late", "late", "stride" if ndim < 3 else "nested"])


def _guard(made: Kernel, names: tuple[str, ...], kind: str) -> None:
    """Leave out the threads beyond the output, before or around what follows."""
    body, rng = made.body, made.rng
    sizes = sizes_of("out0", len(names))
    if kind == "early":
        tests = [
            rng.choice((f"{n} >= {s}", f"{s} <= {n}")) for n, s in zip(names, sizes, strict=True)
        ]
        body.emit(f"if {' or '.join(tests)}:")
        body.emit("    return")
    elif kind == "nested":
        tests = [
            rng.choice((f"{n} < {s}", f"{s} > {n}")) for n, s in zip(names, sizes, strict=True)
        ]
        extra = rng.choice(([], [], ["m > 0"], [f"{names[0]} <= lim"], [f"{names[-1]} != lim"]))
        if any("lim" in e for e in extra):
            made.features.add("extreme scalar")
        if extra and rng.random() < 0.5:
            body.emit(f"if {extra[0]}:")
            body.level += 1
            extra = []
        body.emit(f"if {' and '.join([*tests, *extra])}:")
        body.level += 1
    elif kind == "stride":
        made.features.add("grid-stride loop")
        for axis, (name, size) in enumerate(zip(names, sizes, strict=True)):
            step = "kd.gridsize(1)" if len(names) == 1 else f"kd.gridsize(2)[{1 - axis}]"
            if len(names) == 2 and rng.randrange(2):
                step = f"kd.gridDim.{'yx'[axis]} * kd.blockDim.{'yx'[axis]}"
            first = name
            if axis == 1:  # it is another one in each iteration of the outer loop
                first = rng.choice(
                    ("kd.grid(2)[0]", "kd.blockIdx.x * kd.blockDim.x + kd.threadIdx.x")
                )
            body.emit(f"for {name} in range({first}, {size}, {step}):")
            body.level += 1
            body.loops += 1


def made_dtype(made: Kernel, name: str) -> str:
    """The dtype of a parameter."""
    return next(p.dtype for p in made.parameters if p.name == name)
