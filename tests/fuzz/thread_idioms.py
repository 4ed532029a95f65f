"""What one thread does on its own: guards, loops with divisions, ring buffers, tuples.

Each idiom writes a few lines into a :class:`~tests.fuzz.body.Body`.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.array_idioms import (
    assignment,
    atomic,
    edge,
    helper,
    iterate,
    joined,
    local_parts,
    private,
    registers,
    stencil,
    view,
)
from tests.fuzz.body import Body
from tests.fuzz.expressions import Expression
from tests.fuzz.typing import FLOATS, common_type, result_type
from tests.fuzz.view_idioms import packed_numbers, vectors

__all__ = ["statements"]


def statements(body: Body, count: int, depth: int) -> None:
    """Write so many idioms; `depth` bounds how deeply blocks stand in each other."""
    for _ in range(count):
        idioms = _STRAIGHT if body.loops > 1 else _STRAIGHT + _LOOPS
        if depth > 0:
            idioms = idioms + (_BRANCHES if body.loops > 1 else _BRANCHES + _NESTED_LOOPS)
        idiom = body.expressions.choose(idioms)
        idiom(body, depth)


def _inner(body: Body, depth: int) -> None:
    statements(body, body.rng.choice((1, 1, 2)), depth - 1)


# -- assignments -------------------------------------------------------------------------------
def _assign(body: Body, depth: int = 0) -> None:
    body.assign()


def _augment(body: Body, depth: int = 0) -> None:
    variable = body.expressions.choose(body.variables + body.lvalues)
    value = body.expressions.expression(body.depth())
    op = body.expressions.choose("+-*")
    if (
        variable not in body.lvalues
        and result_type(op, variable.dtype, value.dtype) != variable.dtype
    ):
        value = body.expressions.converted(value, variable.dtype)
        if result_type(op, variable.dtype, variable.dtype) != variable.dtype:
            body.emit(f"{variable.text} = {value.text}")
            return
    result = Expression("", result_type(op, variable.dtype, value.dtype))
    if variable.is_integer and not result.is_integer:  # int64 and uint64 make a float64
        value = body.expressions.converted(value, variable.dtype)
    body.emit(f"{variable.text} {op}= {value.text}")


def _integer_augment(body: Body, depth: int = 0) -> None:
    variables = body.integers()
    if not variables:
        return body.assign()
    op = body.expressions.choose(("//=", "%=", ">>=", "&=", "|=", "^=", "<<="))
    value = body.expressions.choose(("2", "3", "5")) if op in ("//=", "%=", ">>=", "<<=") else None
    value = value or body.expressions.integer(1).text
    body.emit(f"{body.expressions.choose(variables).text} {op} {value}")
    return None


def _swap(body: Body, depth: int = 0) -> None:
    first = body.expressions.choose(body.variables)
    second = body.expressions.choose([v for v in body.variables if v.dtype == first.dtype])
    body.features.add("tuple target")
    if first == second:
        name = body.fresh("w")
        value = body.expressions.of_type(first.dtype, 1)
        body.emit(f"{first.text}, {name} = {value}, {first.text}")
        return
    value = second.text if body.expressions.chance(2) else body.expressions.of_type(first.dtype, 1)
    body.emit(f"{first.text}, {second.text} = {value}, {first.text}")


def _own_element(body: Body, depth: int = 0) -> None:
    if not body.lvalues:
        return body.assign()
    target = body.expressions.choose(body.lvalues)
    body.emit(assignment(body, target.text, body.expressions.of_type(target.dtype, body.depth())))
    return None


# -- guards and divisions ----------------------------------------------------------------------
def _guarded_division(body: Body, depth: int = 0) -> None:
    """``if b != 0: v = a // b``, or as a conditional expression; the divisor may be a scalar."""
    expressions = body.expressions
    body.features.add("guarded division")
    if expressions.chance(3):
        floats = [v for v in expressions.values if v.dtype in FLOATS]
        if floats:
            divisor = expressions.choose(floats)
            value = expressions.of_type(divisor.dtype, 1)
            dtype = result_type("/", divisor.dtype, divisor.dtype)
            _store(body, Expression(f"({value} / {divisor.text})", dtype), f"{divisor.text} != 0.0")
            return
    op = expressions.choose(("//", "%"))
    divisor = expressions.choose(["m", "n", *body.uniform])
    value = expressions.integer(1)
    _store(body, Expression(f"({value.text} {op} {divisor})", "int64"), f"{divisor} > 0")


def _store(body: Body, value: Expression, test: str) -> None:
    """Add to or set a variable under a condition."""
    integers = [v for v in body.variables if v.dtype == value.dtype]
    if not integers:
        body.emit(f"if {test}:")
        variable = body.expressions.choose(body.variables)
        name = body.temporary()
        body.emit(f"    {name} = {value.text}")
        value = body.expressions.converted(Expression(name, value.dtype), variable.dtype)
        body.emit(f"    {variable.text} = {value.text}")
        return
    variable = body.expressions.choose(integers)
    op = body.expressions.choose(("=", "+="))
    if body.expressions.chance(2) or body.expressions.calls(value):
        body.emit(f"if {test}:")
        body.emit(f"    {variable.text} {op} {value.text}")
    else:
        body.emit(f"{variable.text} {op} {value.text} if {test} else {variable.text}")


def _if(body: Body, depth: int) -> None:
    with body.block(f"if {body.expressions.condition(1)}:"):
        _inner(body, depth)
    if body.expressions.chance(6):
        with body.block(f"elif {body.expressions.condition(1)}:"):
            _inner(body, depth)
    if body.expressions.chance(3):
        with body.block("else:"):
            _inner(body, depth)


def _captured_flag(body: Body, depth: int) -> None:
    if not body.flags:
        return _if(body, depth)
    body.features.add("captured flag")
    flag = body.expressions.choose(body.flags)
    with body.block(f"if {flag}:"):
        _inner(body, depth)
    if body.expressions.chance(3):
        with body.block("else:"):
            _inner(body, depth)
    return None


def _extreme_guard(body: Body, depth: int) -> None:
    """A coordinate compared with a scalar that may be at the end of its type."""
    body.features.add("extreme scalar")
    place = body.expressions.choose(body.coordinates)
    op = body.expressions.choose(("<", "<=", ">", ">=", "==", "!="))
    text = body.expressions.choose(
        (f"{place} {op} lim", f"lim {op} {place}", f"{place} + 1 {op} lim", f"{place} - 1 {op} lim")
    )
    with body.block(f"if {text}:"):
        _inner(body, depth)


def _return(body: Body, depth: int = 0) -> None:
    if not body.may_return:
        return body.assign()
    body.features.add("early return")
    body.emit(f"if {body.expressions.condition(1)}:")
    body.emit("    return")
    return None


# -- loops -------------------------------------------------------------------------------------
def _for(body: Body, depth: int) -> None:
    name = body.counter()
    count = body.trip_count()
    header = body.expressions.choose(
        (f"range({count})", f"range({count})", f"range(1, {count} + 1)", f"range({count}, 0, -1)")
    )
    jumps = body.expressions.chance(5)
    with body.block(f"for {name} in {header}:", Expression(name, "int64"), uniform=(name,)):
        _inner(body, depth)
        if jumps:
            body.features.add("break or continue")
            body.emit(f"if {body.expressions.condition(0)}:")
            body.emit(f"    {body.expressions.choose(('break', 'continue'))}")
            body.assign()
    if jumps and body.expressions.chance(2):
        _else_after_loop(body)


def _varying_for(body: Body, depth: int) -> None:
    name = body.counter()
    bound = body.expressions.integer(1).text
    with body.block(f"for {name} in range({bound} % 5):", Expression(name, "int64")):
        _inner(body, depth)


def _while(body: Body, depth: int) -> None:
    name = body.fresh("w")
    test = "" if body.expressions.chance(2) else f" and {body.expressions.condition(0)}"
    body.emit(f"{name} = {body.expressions.choose(('0', body.coordinates[0] + ' % 3'))}")
    with body.block(f"while {name} < 4{test}:", Expression(name, "int64")):
        body.emit(f"{name} += 1")
        _inner(body, depth)
    if body.expressions.chance(8):
        _else_after_loop(body)


def _else_after_loop(body: Body) -> None:
    body.features.add("else after a loop")
    with body.block("else:"):
        body.assign()


def _ring(body: Body, depth: int = 0) -> None:
    """Sum over a ring buffer: an index modulo a scalar, under a condition of the thread."""
    expressions = body.expressions
    arrays = [a for a in expressions.arrays if len(a.sizes) < 3 and a.is_table]
    variables = [v for v in body.variables if v.dtype in ("int64", "float64")]
    if not arrays or not variables:
        return body.assign()
    body.features.add("ring buffer")
    array, name = expressions.choose(arrays), body.counter()
    here = expressions.choose(body.coordinates)
    slot = expressions.choose(
        (f"{name} % m", f"({name} + 1) % m", f"{name} // m % m", f"{name} * 2 % m")
    )
    test = expressions.choose((expressions.condition(0), f"{here} > 0", f"{here} % 2 == 0"))
    if len(array.sizes) == 2:
        column = expressions.choose((f"{here} - 1", here))
        test = f"0 < {here} < {array.sizes[1]}"
        load = f"{array.name}[{slot}, {column}]"
    else:
        load = f"{array.name}[{slot}]"
    term = Expression(load, array.dtype)
    if expressions.chance(2):
        other = expressions.element(expressions.choose(expressions.arrays))
        term = Expression(f"{load} * {other.text}", result_type("*", array.dtype, other.dtype))
    form = expressions.rng.randrange(3)
    added = term.dtype if form == 1 else common_type(term.dtype, "int64")
    fitting = [v for v in variables if result_type("+", v.dtype, added) == v.dtype]
    if not fitting:
        return body.assign()
    variable = expressions.choose(fitting).text
    with body.block(f"for {name} in range({body.trip_count()}):", Expression(name, "int64")):
        if form == 0:
            body.emit(f"{variable} += {term.text} if {test} else 0")
        elif form == 1:
            body.emit(f"if {test}:")
            body.emit(f"    {variable} += {term.text}")
        else:
            body.emit(f"{variable} += {term.text} if {test} else {name}")
    return None


def _tuples(body: Body, depth: int = 0) -> None:
    """``for a, b in ((1, 2), (3, 4)):``, or over plain numbers."""
    body.features.add("tuple target")
    used = {v.text for v in body.expressions.values}
    a, b = body.fresh("a"), body.fresh("b")
    if "c" not in used and "d" not in used and body.expressions.chance(2):
        a, b = "c", "d"
    variables = body.integers() or body.variables
    variable = body.expressions.choose(variables)
    if body.expressions.chance(2):
        pairs = ", ".join(
            f"({body.rng.randrange(5)}, {body.rng.randrange(1, 5)})" for _ in range(2)
        )
        new = (Expression(a, "int64"), Expression(b, "int64"))
        header, value = f"for {a}, {b} in ({pairs}):", f"{a} * {b}"
    else:
        new = (Expression(a, "int64"),)
        header, value = f"for {a} in ({body.rng.randrange(5)}, 2, 5):", a
    with body.block(header, *new):
        if variable.dtype == "int64":
            body.emit(f"{variable.text} += {value}")
        body.assign()


_Idiom = Callable[[Body, int], None]
_STRAIGHT: list[_Idiom] = [
    *(_assign, _assign, _augment, _augment, _integer_augment, _own_element, _own_element),
    *(_swap, _swap, edge, helper, stencil, stencil, stencil),
    *(_guarded_division,) * 4,
    *(_return,) * 4,
    *(atomic,) * 4,
    *(vectors,) * 5,
]
_LOOPS: list[_Idiom] = [
    *(_ring,) * 5,
    *(_tuples, _tuples, _tuples, private, *(local_parts,) * 4, *(registers,) * 5, view, iterate),
    *(joined, joined, joined, packed_numbers, packed_numbers, packed_numbers),
]
_BRANCHES: list[_Idiom] = [_if, _if, _if, _captured_flag, _extreme_guard]
_NESTED_LOOPS: list[_Idiom] = [_for, _for, _for, _varying_for, _while]
