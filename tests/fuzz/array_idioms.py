"""What one thread does with arrays: boundaries, rings of its own, views, atomics, calls.

Each idiom writes a few lines into a :class:`~tests.fuzz.body.Body`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.fuzz.body import Body
from tests.fuzz.expressions import ArrayName, Expression, Function
from tests.fuzz.typing import FLOATS, INTEGERS, common_type, result_type

__all__ = [
    "assignment",
    "atomic",
    "call_helper",
    "edge",
    "helper",
    "iterate",
    "joined",
    "local_parts",
    "private",
    "registers",
    "stencil",
    "view",
]


def assignment(body: Body, target: str, value: str) -> str:
    """Return an assignment to an element, sometimes one that says how caches should treat it."""
    if not body.expressions.chance(8):
        return f"{target} = {value}"
    body.features.add("hint for caches")
    array, _, index = target.removesuffix("]").partition("[")
    place = f"({index})" if "," in index else index
    hint = body.expressions.choose(("", "all", "global", "streaming", "through"))
    given = f", {body.expressions.choose(('', 'cache='))}{hint!r}" if hint else ""
    return f"kd.store({array}, {place}, {value}{given})"


def edge(body: Body, depth: int = 0) -> None:
    """An element where the array has one, else a number of another type; then arithmetic."""
    arrays = [a for a in body.expressions.arrays if len(a.sizes) == 1]
    if not arrays:
        return body.assign()
    body.features.add("load at an edge")
    single = [a for a in arrays if a.dtype == "float32"]
    array = body.expressions.choose(single if single and body.expressions.chance(2) else arrays)
    here = body.expressions.choose(body.coordinates)
    name, other = body.fresh("q"), "0"
    if array.dtype in FLOATS:
        other = body.expressions.choose(("0.0", "0", "1.5"))
    dtype = common_type(array.dtype, "int64" if other == "0" else "float64")
    test = body.expressions.choose((f"{here} < {array.name}.size", f"{array.name}.size > {here}"))
    body.emit(f"{name} = {array.name}[{here}] if {test} else {other}")
    # A product of float32 is rounded, one of float64 that hold them is not: the type shows.
    body.accumulate(Expression(f"({name} * {name})", result_type("*", dtype, dtype)))
    return None


def stencil(body: Body, depth: int = 0) -> None:
    """Neighbours along an axis, with a periodic, clamped or zero boundary."""
    arrays = [a for a in body.expressions.arrays if a.sizes]
    if not arrays:
        return body.assign()
    body.features.add("stencil")
    array = body.expressions.choose(arrays)
    rest = [body.expressions.index(size) for size in array.sizes[:-1]]
    size, here = array.sizes[-1], body.expressions.choose(body.coordinates)
    kind = body.rng.randrange(3)

    def load(shift: int) -> str:
        index = f"({here} + {shift})" if shift >= 0 else f"({here} - {-shift})"
        if kind == 0:
            return f"{array.name}[{', '.join([*rest, f'{index} % {size}'])}]"
        if kind == 1:
            return f"{array.name}[{', '.join([*rest, f'min(max({index}, 0), {size} - 1)'])}]"
        place = f"{array.name}[{', '.join([*rest, index[1:-1]])}]"
        return f"({place} if 0 <= {index[1:-1]} < {size} else np.{array.dtype}(0))"

    dtype = array.dtype
    weight = "2"
    inner = result_type("*", "int64", dtype)
    total = result_type("+", result_type("+", dtype, inner), dtype)
    text = f"({load(-1)} + {weight} * {load(0)} + {load(1)})"
    fitting = [v for v in body.variables if v.dtype == total]
    if fitting:
        body.emit(f"{body.expressions.choose(fitting).text} = {text}")
        return None
    name = body.temporary()
    body.emit(f"{name} = {text}")
    variable = body.expressions.choose(body.variables)
    converted = body.expressions.converted(Expression(name, total), variable.dtype)
    body.emit(f"{variable.text} = {converted.text}")
    return None


def private(body: Body, depth: int = 0) -> None:
    """A ring of the thread's own."""
    body.features.add("local array")
    name, dtype = body.fresh("lc"), body.expressions.choose(INTEGERS + FLOATS)
    size = body.expressions.choose((2, 3, 5))
    body.emit(f"{name} = kd.local.array({size}, np.{dtype})")
    counter = body.counter()
    with body.block(f"for {counter} in range({size}):", Expression(counter, "int64")):
        body.emit(f"{name}[{counter}] = {body.expressions.of_type(dtype, 1)}")
    array = ArrayName(name, dtype, (str(size),))
    with body.block(f"for {counter} in range({body.trip_count()}):", Expression(counter, "int64")):
        body.emit(f"{name}[{counter} % {size}] += {body.expressions.of_type(dtype, 1)}")
    variable = body.expressions.choose(body.variables)
    element = body.expressions.element(array)
    found = body.temporary()
    body.emit(f"{found} = {element.text}")
    value = body.expressions.converted(Expression(found, dtype), variable.dtype)
    body.emit(f"{variable.text} = {value.text}")


def registers(body: Body, depth: int = 0) -> None:
    """A tile of the thread's own, whose indices are known once its loops are written out."""
    body.features.add("register tile")
    name, dtype = body.fresh("lc"), body.expressions.choose(INTEGERS + FLOATS)
    rows, columns = body.expressions.choose(((1, 4), (2, 3), (3, 2)))
    body.emit(f"{name} = kd.local.array(({rows}, {columns}), np.{dtype})")
    with _tile(body, rows, columns) as (row, column):
        body.emit(f"{name}[{row}, {column}] = {body.expressions.of_type(dtype, 1)}")
    turn = body.counter()
    with (
        body.block(f"for {turn} in range({body.trip_count()}):", Expression(turn, "int64")),
        _tile(body, rows, columns) as (row, column),
    ):
        here = f"{name}[{row}, {column}]"
        near = (f"({column} + 1) % {columns}", f"{columns - 1} - {column}", f"{column} - 1")
        other = f"{name}[{row}, {body.expressions.choose(near)}]"
        kind = body.rng.randrange(4)
        if kind == 0:
            body.emit(f"{here} += {body.expressions.of_type(dtype, 1)}")
        elif kind == 1:
            body.emit(f"{here} += {other}")
        elif kind == 2:
            with body.block(f"if {here} < {other}:"):
                body.emit(f"{here}, {other} = {other}, {here}")
        else:
            with body.block(f"if {column} > 0:"):
                body.emit(f"{here} = {name}[{row}, {column} - 1]")
    array = ArrayName(name, dtype, (str(rows), str(columns)))
    variable, found = body.expressions.choose(body.variables), body.temporary()
    is_known = not body.expressions.chance(4)
    place = f"{name}[{rows - 1}, -1]" if is_known else body.expressions.element(array).text
    body.emit(f"{found} = {place}")
    value = body.expressions.converted(Expression(found, dtype), variable.dtype)
    body.emit(f"{variable.text} = {value.text}")


def local_parts(body: Body, depth: int = 0) -> None:
    """Names of parts of a thread's own array, through which its elements are stored and read."""
    body.features.add("parts of a local array")
    choose, name, part = body.expressions.choose, body.fresh("lc"), body.fresh("r")
    dtype, size = choose(INTEGERS + FLOATS), choose((4, 6))
    body.emit(f"{name} = kd.local.array({size}, np.{dtype})")
    fill = body.expressions.of_type(dtype, 1)
    if body.expressions.chance(2):
        body.emit(f"{name}[:] = {body.rng.randrange(9)}")
        body.emit(f"{name}[{body.rng.randrange(size)}] = {fill}")
    else:
        counter = body.counter()
        with body.block(f"for {counter} in range({size}):", Expression(counter, "int64")):
            body.emit(f"{name}[{counter}] = {body.expressions.of_type(dtype, 1)}")
    here = body.coordinates[0]
    cut, length = choose(
        (
            ("[1:]", size - 1),
            ("[::2]", size // 2),
            ("[::-1]", size),
            (f"[abs({here}) % 2:]", size - 1),
            (f".reshape({size // 2}, 2)[{here} % {size // 2}]", 2),
            (f".reshape(2, {size // 2})[:, {here} % 2]", 2) if size == 4 else ("[1:4]", 3),
        )
    )
    body.emit(f"{part} = {name}{cut}")
    for _ in range(choose((1, 2, 3))):
        to, at = choose(((name, size), (part, length))), choose(((name, size), (part, length)))
        index, other = (body.expressions.index(str(each[1])) for each in (to, at))
        op = choose(("=", "=", "+=", "-="))
        counter = body.counter()
        if body.expressions.chance(2):
            body.emit(f"{to[0]}[{index}] {op} {at[0]}[{other}]")
            continue
        with body.block(f"for {counter} in range({length}):", Expression(counter, "int64")):
            shift = choose((counter, f"{length - 1} - {counter}", f"({counter} + 1) % {length}"))
            body.emit(f"{to[0]}[{counter}] {op} {at[0]}[{shift}]")
    found = body.temporary()
    whole = choose((name, part))
    body.emit(f"{found} = {whole}[0] - {name}[{body.rng.randrange(size)}]")
    body.take(Expression(found, result_type("-", dtype, dtype)))


@contextmanager
def _tile(body: Body, rows: int, columns: int) -> Iterator[tuple[str, str]]:
    """Open a loop over the rows and one over the columns of a tile; give their variables."""
    row = body.counter()
    with body.block(f"for {row} in range({rows}):", Expression(row, "int64")):
        column = body.counter()
        with body.block(f"for {column} in range({columns}):", Expression(column, "int64")):
            yield row, column


def view(body: Body, depth: int = 0) -> None:
    """A slice whose length varies, or a row."""
    arrays = body.expressions.arrays
    if not arrays:
        return body.assign()
    body.features.add("view")
    array, name = body.expressions.choose(arrays), body.fresh("r")
    variables = body.integers()
    if len(array.sizes) == 1:
        cut = body.expressions.index(array.sizes[0]) if body.expressions.chance(2) else ""
        start = cut if cut and not cut.startswith("-") else f"abs({body.coordinates[0]}) % 3"
        text = body.expressions.choose((f"{array.name}[{start}:]", f"{array.name}[:{start} + 1]"))
    else:
        text = f"{array.name}[{body.expressions.index(array.sizes[0])}]"
        if len(array.sizes) == 3:
            text = f"{text}[{body.expressions.index(array.sizes[1])}]"
    body.emit(f"{name} = {text}")
    view = ArrayName(name, array.dtype, (f"{name}.size",))
    if variables and body.expressions.chance(2):
        variable = body.expressions.choose(variables)
        body.emit(f"{variable.text} += {name}.size")
    variable = body.expressions.choose(body.variables)
    if body.expressions.chance(2):
        counter = body.counter()
        with body.block(f"for {counter} in range({name}.size):", Expression(counter, "int64")):
            element = Expression(body.fresh("e"), array.dtype)
            body.emit(f"{element.text} = {name}[{counter}]")
            body.accumulate(element)
        return None
    found = body.temporary()
    test = f"{name}.size > 0"
    body.emit(f"{found} = {body.expressions.element(view).text} if {test} else np.{array.dtype}(0)")
    value = body.expressions.converted(Expression(found, array.dtype), variable.dtype)
    body.emit(f"{variable.text} = {value.text}")
    return None


def iterate(body: Body, depth: int = 0) -> None:
    """A loop over the elements of an array, or of a row."""
    arrays = [a for a in body.expressions.arrays if len(a.sizes) < 3]
    if not arrays:
        return body.assign()
    body.features.add("loop over elements")
    array = body.expressions.choose(arrays)
    rows = array.name
    if len(array.sizes) == 2:
        rows = f"{array.name}[{body.expressions.index(array.sizes[0])}]"
    element = Expression(body.fresh("e"), array.dtype)
    with body.block(f"for {element.text} in {rows}:", element):
        body.accumulate(element)
    return None


def atomic(body: Body, depth: int = 0) -> None:
    """An update of a counter; its result is dropped, in a statement or out of a tuple."""
    if not body.counters:
        return body.assign()
    body.features.add("atomic")
    array = body.expressions.choose(body.counters)
    op = array.inside or "add"
    value = body.expressions.of_type(array.dtype, 1)
    call = f"kd.atomic.{op}({array.name}, {body.expressions.index(array.sizes[0])}, {value})"
    variable = body.expressions.choose(body.variables)
    if body.expressions.chance(3):
        body.features.add("atomic in an expression")
        other = body.expressions.of_type(variable.dtype, 1)
        first = body.expressions.chance(2)
        pair = f"({call}, {other})[1]" if first else f"({other}, {call})[0]"
        body.emit(f"{variable.text} = {pair}")
    else:
        body.emit(call)
    return None


def joined(body: Body, depth: int = 0) -> None:
    """A variable of two types, which is read as what they have in common."""
    body.features.add("variable of two types")
    name, expressions = body.fresh("q"), body.expressions
    if expressions.chance(2) and expressions.arrays:
        element = expressions.element(expressions.choose(expressions.arrays))
        counter = body.counter()
        body.emit(f"{name} = 0")
        with body.block(f"for {counter} in range({body.trip_count()}):"):
            test = expressions.choose(("", f" if {expressions.condition(0)} else 0"))
            body.emit(f"{name} += {element.text}{test}")
        dtype = "float64"
    else:
        first, second = expressions.expression(1), expressions.leaf()
        body.emit(f"if {expressions.condition(0)}:")
        body.emit(f"    {name} = {first.text}")
        body.emit("else:")
        body.emit(f"    {name} = {second.text}")
        dtype = common_type(first.dtype, second.dtype)
    value = body.temporary()
    body.emit(f"{value} = np.{dtype}({name})")
    variable = expressions.choose(body.variables)
    found = expressions.converted(Expression(value, dtype), variable.dtype)
    body.emit(f"{variable.text} = {found.text}")


def helper(body: Body, depth: int = 0) -> None:
    """A call of a device function without barriers."""
    if not body.expressions.functions:
        return body.assign()
    call_helper(body, body.expressions.choose(body.expressions.functions))
    return None


def call_helper(body: Body, function: Function) -> None:
    """Take up the number, or both, that a device function returns."""
    call = body.expressions.call(function)
    body.features.add("device function")
    if len(function.dtypes) == 1:
        body.accumulate(Expression(call, function.dtypes[0]))
        return
    body.features.add("tuple result")
    a, b = body.fresh("a"), body.fresh("b")
    if body.expressions.chance(3):
        body.emit(f"{a} = {call}")
        found = [Expression(f"{a}[{k}]", d) for k, d in enumerate(function.dtypes)]
    else:
        body.emit(f"{a}, {b} = {call}")
        found = [Expression(n, d) for n, d in zip((a, b), function.dtypes, strict=True)]
    for value in found:
        body.accumulate(value)
