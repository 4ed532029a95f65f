"""Device functions that are called for the elements of tiles, and those that work on tiles."""

from __future__ import annotations

import random

from tests.fuzz.expressions import USUAL, Expression, Expressions
from tests.fuzz.functions import safe_argument
from tests.fuzz.tile_expressions import Tiles
from tests.fuzz.tile_names import Shape, TileFunction, TileName
from tests.fuzz.typing import FLOATS, INTEGERS

__all__ = ["element_functions", "stored_function", "tile_functions"]


def element_functions(rng: random.Random, lines: list[str]) -> list[Expression]:
    """Write device functions of two numbers of any dtype; each with the dtype that it gives."""
    made: list[Expression] = []
    for number in range(rng.choice((0, 1, 1))):
        dtypes = (rng.choice(USUAL), rng.choice(USUAL))
        result, name = rng.choice(USUAL), f"e{number}"
        expressions = Expressions(
            rng, [Expression(n, d) for n, d in zip("ab", dtypes, strict=True)]
        )
        lines += [*rng.choice(([], ["@kd.func"])), f"def {name}(p, q):"]
        lines += [
            f"    {own} = {safe_argument(dtype, given)}"
            for own, dtype, given in zip("ab", dtypes, "pq", strict=True)
        ]
        if rng.randrange(2):
            lines += [f"    if {expressions.condition(1)}:"]
            lines += [f"        return {expressions.of_type(result, 1)}"]
        lines += [f"    return {expressions.of_type(result, 2)}", "", ""]
        made.append(Expression(name, result))
    return made


def stored_function(rng: random.Random, lines: list[str], rank: int, dtype: str) -> str:
    """Write a function of an element, its index and a whole number; return its name.

    What it gives can be stored into an array of the dtype.
    """
    result = rng.choice(INTEGERS if dtype in INTEGERS else FLOATS)
    inner = rng.choice(USUAL)
    indices = ["i", "j"][:rank]
    values = [Expression(each, "int64") for each in (*indices, "k")] + [Expression("a", inner)] * 2
    expressions = Expressions(rng, values)
    lines += ["@kd.func", f"def p{rank}(v, {', '.join(indices)}, k):"]
    lines += [f"    a = {safe_argument(inner, 'v')}"]
    lines += [f"    return {expressions.of_type(result, 2)}", "", ""]
    return f"p{rank}"


def tile_functions(
    rng: random.Random, tiles: Tiles, shape: Shape, lines: list[str]
) -> list[TileFunction]:
    """Write up to two device functions with operations on tiles of a shape."""
    made: list[TileFunction] = []
    for number in range(rng.choice((0, 1, 1, 2))):
        kind, name = rng.choice(("tile", "tile", "number", "load")), f"td{number}"
        dtype, result = rng.choice(USUAL), rng.choice(USUAL)
        arrays = [a for a in tiles.inputs + tiles.outputs if a.ndim == len(shape)]
        own = Tiles(
            rng,
            maps=tiles.maps,
            numbers=[Expression("k", "int64")],
            whole=("k",),
            features=tiles.features,
        )
        if kind == "load":
            if not arrays:
                continue
            dtype = rng.choice(arrays).dtype
            text = f"kd.tile.load(s, at, {shape[0] if len(shape) == 1 else shape})"
            body, parameters = [f"    u = {text}"], "s, at"
            own.numbers, own.whole = [], ("2",)
        else:
            body, parameters = [], "u, k"
        own.names.append(TileName("u", dtype, shape))
        if rng.randrange(3) == 0:
            found = own.of_shape(shape, 1)
            body.append(f"    v = {found.text}")
            own.names.append(TileName("v", found.dtype, shape))
        if kind == "tile" and rng.randrange(3) == 0:
            body += ["    if k > 1:", f"        return {own.of_type(shape, result, 0)}"]
        if kind == "number":
            value = own.reduced(shape, 1)
            text, result = value.text, value.dtype
        else:
            text = own.of_type(shape, result, 1)
        lines += [*rng.choice(([], ["@kd.func"])), f"def {name}({parameters}):"]
        lines += [*body, f"    return {text}", "", ""]
        made.append(TileFunction(name, kind, shape, dtype, result))
    return made
