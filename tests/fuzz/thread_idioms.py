"""What one thread does on its own: loops with divisions, ring buffers, boundaries, tuples, views.

Each idiom writes a few lines into a :class:`~tests.fuzz.body.Body`.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.body import Body
from tests.fuzz.expressions import ArrayName, Expression, Function
from tests.fuzz.typing import FLOATS, INTEGERS, common_type, result_type

__all__ = ["call_helper", "edge", "statements"]


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


def _depth(body: Body) -> int:
    return body.rng.choice((1, 1, 2))


# -- assignments -------------------------------------------------------------------------------
def _assign(body: Body, depth: int = 0) -> None:
    variable = body.expressions.choose(body.variables)
    body.emit(f"{variable.text} = {body.expressions.of_type(variable.dtype, _depth(body))}")


def _augment(body: Body, depth: int = 0) -> None:
    variable = body.expressions.choose(body.variables + body.lvalues)
    value = body.expressions.expression(_depth(body))
    op = body.expressions.choose("+-*")
    if (
        variable not in body.lvalues
        and result_type(op, variable.dtype, value.dtype) != variable.dtype
    ):
        value = body.expressions.converted(value, variable.dtype)
        if result_type(op, variable.dtype, variable.dtype) != variable.dtype:
            body.emit(f"{variable.text} = {value.text}")
            return
    if variable.is_integer and not value.is_integer:
        value = body.expressions.converted(value, variable.dtype)
    body.emit(f"{variable.text} {op}= {value.text}")


def _integer_augment(body: Body, depth: int = 0) -> None:
    variables = body.integers()
    if not variables:
        return _assign(body)
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
        return _assign(body)
    target = body.expressions.choose(body.lvalues)
    body.emit(f"{target.text} = {body.expressions.of_type(target.dtype, _depth(body))}")
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
    if body.expressions.chance(2):
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
        return _assign(body)
    body.features.add("early return")
    body.emit(f"if {body.expressions.condition(1)}:")
    body.emit("    return")
    return None


# -- loops -------------------------------------------------------------------------------------
def _trip_count(body: Body) -> str:
    return body.expressions.choose(("n", "n", "m", "2", "3", "4"))


def _for(body: Body, depth: int) -> None:
    name = body.counter()
    count = _trip_count(body)
    header = body.expressions.choose(
        (f"range({count})", f"range({count})", f"range(1, {count} + 1)", f"range({count}, 0, -1)")
    )
    with body.block(f"for {name} in {header}:", Expression(name, "int64"), uniform=(name,)):
        _inner(body, depth)
        if body.expressions.chance(5):
            body.features.add("break or continue")
            body.emit(f"if {body.expressions.condition(0)}:")
            body.emit(f"    {body.expressions.choose(('break', 'continue'))}")
            _assign(body)


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


def _ring(body: Body, depth: int = 0) -> None:
    """Sum over a ring buffer: an index modulo a scalar, under a condition of the thread."""
    expressions = body.expressions
    arrays = [a for a in expressions.arrays if len(a.sizes) < 3 and a.is_table]
    variables = [v for v in body.variables if v.dtype in ("int64", "float64")]
    if not arrays or not variables:
        return _assign(body)
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
        return _assign(body)
    variable = expressions.choose(fitting).text
    with body.block(f"for {name} in range({_trip_count(body)}):", Expression(name, "int64")):
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
        _assign(body)


def edge(body: Body, depth: int = 0) -> None:
    """An element where the array has one, else a number of another type; then arithmetic."""
    arrays = [a for a in body.expressions.arrays if len(a.sizes) == 1]
    if not arrays:
        return _assign(body)
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
    op = body.expressions.choose("*+")
    _accumulate(body, Expression(f"({name} {op} {name})", result_type(op, dtype, dtype)))
    return None


# -- arrays ------------------------------------------------------------------------------------
def _stencil(body: Body, depth: int = 0) -> None:
    """Neighbours along an axis, with a periodic, clamped or zero boundary."""
    arrays = [a for a in body.expressions.arrays if a.sizes]
    if not arrays:
        return _assign(body)
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


def _private(body: Body, depth: int = 0) -> None:
    """A ring of the thread's own."""
    body.features.add("local array")
    name, dtype = body.fresh("lc"), body.expressions.choose(INTEGERS + FLOATS)
    size = body.expressions.choose((2, 3, 5))
    body.emit(f"{name} = kd.local.array({size}, np.{dtype})")
    counter = body.counter()
    with body.block(f"for {counter} in range({size}):", Expression(counter, "int64")):
        body.emit(f"{name}[{counter}] = {body.expressions.of_type(dtype, 1)}")
    array = ArrayName(name, dtype, (str(size),))
    with body.block(f"for {counter} in range({_trip_count(body)}):", Expression(counter, "int64")):
        body.emit(f"{name}[{counter} % {size}] += {body.expressions.of_type(dtype, 1)}")
    variable = body.expressions.choose(body.variables)
    element = body.expressions.element(array)
    found = body.temporary()
    body.emit(f"{found} = {element.text}")
    value = body.expressions.converted(Expression(found, dtype), variable.dtype)
    body.emit(f"{variable.text} = {value.text}")


def _view(body: Body, depth: int = 0) -> None:
    """A slice whose length varies, or a row."""
    arrays = body.expressions.arrays
    if not arrays:
        return _assign(body)
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
            _accumulate(body, element)
        return None
    found = body.temporary()
    test = f"{name}.size > 0"
    body.emit(f"{found} = {body.expressions.element(view).text} if {test} else np.{array.dtype}(0)")
    value = body.expressions.converted(Expression(found, array.dtype), variable.dtype)
    body.emit(f"{variable.text} = {value.text}")
    return None


def _accumulate(body: Body, value: Expression) -> None:
    fitting = [v for v in body.variables if result_type("+", v.dtype, value.dtype) == v.dtype]
    if fitting:
        body.emit(f"{body.expressions.choose(fitting).text} += {value.text}")
        return
    variable = body.expressions.choose(body.variables)
    body.emit(f"{variable.text} = {body.expressions.converted(value, variable.dtype).text}")


def _iterate(body: Body, depth: int = 0) -> None:
    """A loop over the elements of an array, or of a row."""
    arrays = [a for a in body.expressions.arrays if len(a.sizes) < 3]
    if not arrays:
        return _assign(body)
    body.features.add("loop over elements")
    array = body.expressions.choose(arrays)
    rows = array.name
    if len(array.sizes) == 2:
        rows = f"{array.name}[{body.expressions.index(array.sizes[0])}]"
    element = Expression(body.fresh("e"), array.dtype)
    with body.block(f"for {element.text} in {rows}:", element):
        _accumulate(body, element)
    return None


def _atomic(body: Body, depth: int = 0) -> None:
    """An update of a counter; its result is dropped, in a statement or out of a tuple."""
    if not body.counters:
        return _assign(body)
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


def _joined(body: Body, depth: int = 0) -> None:
    """A variable of two types, which is read as what they have in common."""
    body.features.add("variable of two types")
    name, expressions = body.fresh("q"), body.expressions
    if expressions.chance(2) and expressions.arrays:
        element = expressions.element(expressions.choose(expressions.arrays))
        counter = body.counter()
        body.emit(f"{name} = 0")
        with body.block(f"for {counter} in range({_trip_count(body)}):"):
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


def _helper(body: Body, depth: int = 0) -> None:
    """A call of a device function without barriers."""
    if not body.expressions.functions:
        return _assign(body)
    call_helper(body, body.expressions.choose(body.expressions.functions))
    return None


def call_helper(body: Body, function: Function) -> None:
    """Take up the number, or both, that a device function returns."""
    call = body.expressions.call(function)
    body.features.add("device function")
    if len(function.dtypes) == 1:
        _accumulate(body, Expression(call, function.dtypes[0]))
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
        _accumulate(body, value)


_Idiom = Callable[[Body, int], None]
_STRAIGHT: list[_Idiom] = [
    *(_assign, _assign, _augment, _augment, _integer_augment, _swap, _own_element, _own_element),
    *(edge, _guarded_division, _guarded_division, _return, _stencil, _atomic, _atomic, _helper),
]
_LOOPS: list[_Idiom] = [_ring, _ring, _tuples, _private, _view, _iterate, _joined]
_BRANCHES: list[_Idiom] = [_if, _if, _if, _captured_flag, _extreme_guard]
_NESTED_LOOPS: list[_Idiom] = [_for, _for, _for, _varying_for, _while]
