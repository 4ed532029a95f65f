"""Arrays that are read as others: as vectors, and as the numbers of a few bits in their words.

Vectors are also kept in arrays of the thread and of the block.
"""

from __future__ import annotations

from kerneldsl.language.element_types import ELEMENT_TYPES, vector_names
from kerneldsl.language.packed_numbers import PACKED_NUMBERS, WORD_DTYPES
from tests.fuzz.body import Body
from tests.fuzz.expressions import ArrayName, Expression
from tests.fuzz.typing import FLOATS, result_type

__all__ = ["exchange_vectors", "packed_numbers", "vectors"]

#: Names of vectors, by the dtype of what they are made of.
_VECTORS: dict[str, list[str]] = {}
for _name in vector_names():
    _VECTORS.setdefault(ELEMENT_TYPES[_name].fields[0].dtype, []).append(_name)


def packed_numbers(body: Body, depth: int = 0) -> None:
    """Numbers of an array's words, one by one and in a loop."""
    arrays = [a for a in _whole(body) if len(a.sizes) == 1 and a.dtype in WORD_DTYPES]
    if not arrays:
        return body.assign()
    body.features.add("packed numbers")
    array, name = body.expressions.choose(arrays), body.fresh("r")
    numbers = body.expressions.choose(tuple(PACKED_NUMBERS))
    body.emit(f"{name} = kd.packed({array.name}, kd.{numbers})")
    view = ArrayName(name, PACKED_NUMBERS[numbers].dtype, (f"{name}.size",))
    if body.expressions.chance(2):
        return body.accumulate(body.expressions.element(view))
    counter = body.counter()
    with body.block(f"for {counter} in range({body.trip_count()}):", Expression(counter, "int64")):
        element = body.expressions.element(view)
        total = result_type("*", element.dtype, element.dtype)
        body.accumulate(Expression(f"({element.text} * {element.text})", total))
    return None


def vectors(body: Body, depth: int = 0) -> None:
    """Vectors of an array, what is computed of them, and their numbers."""
    body.features.add("vector")
    found = _loaded(body)
    _compute(body, found)
    if body.expressions.chance(3):
        counter = body.counter()
        header = f"for {counter} in range({body.trip_count()}):"
        with body.block(header, Expression(counter, "int64")):
            _compute(body, found)
    if body.expressions.chance(3):
        held = body.fresh("lc")
        body.emit(f"{held} = kd.local.array(2, kd.{found.dtype})")
        body.emit(f"{held}[0] = {found.text}")
        body.emit(f"{held}[1] = {found.text} {body.expressions.choose('+-*')} {held}[0]")
        body.emit(f"{found.text} = {held}[{body.expressions.choose(body.coordinates)} % 2]")
    _take_number(body, found)


def exchange_vectors(body: Body, depth: int = 0) -> None:
    """Vectors that threads of a block give each other, if all of them are there to fill it."""
    if "early return" in body.features:
        return vectors(body, depth)
    body.features.add("vectors of a block")
    found, held = _loaded(body), body.fresh("r")
    t, last = body.thread, body.threads - 1
    body.emit(f"{held} = kd.shared.array({body.threads}, kd.{found.dtype})")
    body.emit(f"{held}[{t}] = {found.text}")
    body.emit("kd.syncthreads()")
    if body.expressions.chance(2):
        _compute(body, found)
    body.emit(f"{found.text} = {body.expressions.choose(('', '-'))}{held}[{last} - {t}]")
    body.emit("kd.syncthreads()")
    return _take_number(body, found)


def _whole(body: Body) -> list[ArrayName]:
    """Arrays whose elements are side by side: parameters."""
    return [a for a in body.expressions.arrays if a.name[0] in "xy"]


def _loaded(body: Body) -> Expression:
    """A variable that holds a vector: of numbers, or of an array that is long enough."""
    choose, name = body.expressions.choose, body.fresh("vec")
    arrays = _whole(body)
    if not arrays or body.expressions.chance(3):
        dtype = choose(tuple(_VECTORS))
        vector = choose(_VECTORS[dtype])
        body.emit(f"{name} = {_made(body, vector)}")
        return Expression(name, vector)
    array, view = choose(arrays), body.fresh("r")
    vector = choose(_VECTORS[array.dtype])
    body.emit(f"{name} = {_made(body, vector)}")
    body.emit(f"{view} = kd.view({array.name}, kd.{vector})")
    with body.block(f"if {view}.size > 0:"):
        sizes = [f"{view}.shape[{axis}]" for axis in range(len(array.sizes))]
        index = ", ".join(body.expressions.index(size) for size in sizes)
        place = f"({index})" if len(sizes) > 1 else index
        hinted = f"kd.load({view}, {place}, {choose(('', 'cache='))}'streaming')"
        body.emit(f"{name} = {choose((f'{view}[{index}]', f'{view}[{index}]', hinted))}")
    return Expression(name, vector)


def _made(body: Body, vector: str) -> str:
    """A vector of numbers that its own hold."""
    fields = ELEMENT_TYPES[vector].fields
    numbers = [body.expressions.of_type(fields[0].dtype, 0) for _ in fields]
    return f"kd.{vector}({', '.join(numbers)})"


def _compute(body: Body, found: Expression) -> None:
    """Give a vector another value."""
    dtype = ELEMENT_TYPES[found.dtype].fields[0].dtype
    choose, is_real = body.expressions.choose, dtype in FLOATS
    other = choose((_made(body, found.dtype), body.expressions.of_type(dtype, 0), "3", found.text))
    op = choose(("+", "-", "*", "/") if is_real else ("+", "-", "*", "&", "|", "^"))
    kind = body.rng.randrange(4)
    if kind == 0:
        body.emit(f"{found.text} {op}= {other}")
    elif kind == 1:
        unary = choose((f"-{found.text}", f"abs({found.text})"))
        body.emit(f"{found.text} = {other} {op} {unary}")
    else:
        body.emit(f"{found.text} = {found.text} {op} {other}")


def _take_number(body: Body, found: Expression) -> None:
    """Put a number of a vector into a variable."""
    fields = ELEMENT_TYPES[found.dtype].fields
    place = body.rng.randrange(len(fields))
    at = body.expressions.choose((str(place), f"{body.coordinates[0]} % {len(fields)}"))
    text = body.expressions.choose((f"{found.text}.{fields[place].name}", f"{found.text}[{at}]"))
    body.take(Expression(text, fields[0].dtype))
