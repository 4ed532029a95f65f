"""What the threads of a block do together: exchanges, votes, halo tiles, calls with barriers.

Between two idioms each thread touches its own slots of the shared arrays alone; every idiom that
reads another's waits before and after.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.body import BarrierFunction, Body
from tests.fuzz.expressions import ArrayName, Expression
from tests.fuzz.thread_idioms import statements
from tests.fuzz.typing import FLOATS, INTEGERS, result_type
from tests.support.warps import WARP_SIZE

__all__ = ["call_function", "together"]

#: What a shuffle exchanges as an int32.
NARROW_INTEGERS = ("int8", "int16", "uint8", "uint16")


def together(body: Body, count: int, depth: int) -> None:
    """Write so many idioms; `depth` bounds how deeply blocks stand in each other."""
    for _ in range(count):
        idiom = body.expressions.choose(_FLAT if depth <= 0 else _FLAT + _NESTED)
        idiom(body, depth)


def _assign(body: Body, value: Expression) -> None:
    """Put a value into a variable of its type, else into a converted one."""
    fitting = [v for v in body.variables if v.dtype == value.dtype]
    if fitting:
        body.emit(f"{body.expressions.choose(fitting).text} = {value.text}")
        return
    variable, name = body.expressions.choose(body.variables), body.temporary()
    body.emit(f"{name} = {value.text}")
    found = body.expressions.converted(Expression(name, value.dtype), variable.dtype)
    body.emit(f"{variable.text} = {found.text}")


def _slot(body: Body) -> str:
    shift = body.rng.randint(1, max(1, body.threads - 1))
    t, count = body.thread, body.threads
    return body.expressions.choose(
        (f"({t} + {shift}) % {count}", f"{count - 1} - {t}", f"{t} - {shift}", "0", f"{t} ^ 1")
        if count % 2 == 0
        else (f"({t} + {shift}) % {count}", f"{count - 1} - {t}", "-1")
    )


# -- tiles -------------------------------------------------------------------------------------
def _exchange(body: Body, depth: int) -> None:
    tile = body.expressions.choose(body.tiles)
    op = "+=" if body.expressions.chance(4) else "="
    body.emit(f"{tile.own} {op} {body.expressions.of_type(tile.dtype, 1)}")
    body.emit("kd.syncthreads()")
    _assign(body, Expression(f"{tile.name}[{_slot(body)}]", tile.dtype))
    if body.expressions.chance(3):
        array = ArrayName(tile.name, tile.dtype, (str(body.threads),))
        body.expressions.arrays.append(array)
        lvalues, body.lvalues = body.lvalues, []  # others read them now
        statements(body, 1, 1)
        body.lvalues = lvalues
        body.expressions.arrays.remove(array)
    body.emit("kd.syncthreads()")


def _view_of_tile(body: Body, depth: int) -> None:
    """A part of a tile, whose length varies between the threads, read between barriers."""
    body.features.add("view near a barrier")
    tile, name = body.expressions.choose(body.tiles), body.fresh("r")
    source = tile.name
    inputs = [a for a in body.expressions.arrays if len(a.sizes) == 1]
    if inputs and body.expressions.chance(2):
        array = body.expressions.choose(inputs)
        source, dtype = array.name, array.dtype
    else:
        dtype = tile.dtype
    cut = body.expressions.choose((f"{body.thread} % 4", body.thread, "1", "m"))
    body.emit(f"{name} = {source}[{cut}:]")
    body.emit(f"{tile.own} = {body.expressions.of_type(tile.dtype, 1)}")
    body.emit("kd.syncthreads()")
    found = body.temporary()
    body.emit(f"{found} = {name}[0] if {name}.size > 0 else np.{dtype}(1)")
    _assign(body, Expression(found, dtype))
    variables = body.integers()
    if variables:
        body.emit(f"{body.expressions.choose(variables).text} += {name}.size")
    body.emit("kd.syncthreads()")


def _halo(body: Body, depth: int) -> None:
    """A row of the block's values with a neighbour's on each side, filled by its end threads."""
    body.features.add("halo tile")
    if body.halo is None:
        return _exchange(body, depth)
    name, dtype, t, count = body.halo.name, body.halo.dtype, body.thread, body.threads
    body.emit(f"{body.halo.own} = {body.expressions.of_type(dtype, 1)}")
    body.emit("if " + body.expressions.choose((f"{t} < 2", f"{t} == 0 or {t} == 1")) + ":")
    edge = body.expressions.of_type(dtype, 1)
    body.emit(f"    {name}[0 if {t} == 0 else {count + 1}] = {edge}")
    body.emit("kd.syncthreads()")
    total = result_type("+", result_type("+", dtype, dtype), dtype)
    _assign(body, Expression(f"({name}[{t}] + {name}[{t} + 1] + {name}[{t} + 2])", total))
    body.emit("kd.syncthreads()")
    return None


def _scan(body: Body, depth: int) -> None:
    """A sum over the threads before this one."""
    body.features.add("scan")
    tile, w, e = body.expressions.choose(body.tiles), body.fresh("w"), body.fresh("e")
    body.emit(f"{tile.own} = {body.expressions.of_type(tile.dtype, 1)}")
    body.emit("kd.syncthreads()")
    body.emit(f"{w} = 1")
    with body.block(f"while {w} < {body.threads}:", uniform=(w,)):
        load = f"{tile.name}[{body.thread} - {w}]"
        body.emit(f"{e} = {load} if {body.thread} >= {w} else np.{tile.dtype}(0)")
        body.emit("kd.syncthreads()")
        body.emit(f"{tile.own} += {e}")
        body.emit("kd.syncthreads()")
        body.emit(f"{w} *= 2")
    _assign(body, Expression(tile.own, tile.dtype))


def _plane(body: Body, depth: int) -> None:
    """A value from a neighbour in a block of two dimensions, periodic, clamped or mirrored."""
    if body.plane is None:
        return _exchange(body, depth)
    body.features.add("tile of two dimensions")
    tile, (width, height) = body.plane, body.plane_dim
    body.emit(f"{tile.own} = {body.expressions.of_type(tile.dtype, 1)}")
    body.emit("kd.syncthreads()")
    rows = (f"(ty + 1) % {height}", "max(ty - 1, 0)", f"{height - 1} - ty", "ty", "-1")
    columns = (f"(tx - 1) % {width}", f"min(tx + 1, {width - 1})", f"{width - 1} - tx", "tx", "0")
    row, column = body.expressions.choose(rows), body.expressions.choose(columns)
    index = body.expressions.choose((f"[{row}, {column}]", f"[{row}][{column}]"))
    _assign(body, Expression(f"{tile.name}{index}", tile.dtype))
    body.emit("kd.syncthreads()")
    return None


def _retyped(body: Body, depth: int) -> None:
    """A variable of one type before a barrier, and of another after it."""
    body.features.add("variable of two types")
    tile, name = body.expressions.choose(body.tiles), body.fresh("q")
    first = body.expressions.expression(1)
    body.emit(f"{name} = {first.text}")
    body.emit(f"{tile.own} = {body.expressions.of_type(tile.dtype, 0)}")
    body.emit("kd.syncthreads()")
    second = Expression(f"{tile.name}[{_slot(body)}]", tile.dtype)
    dtype = result_type("+", first.dtype, second.dtype)
    body.emit(f"{name} = {name} + {second.text}")
    body.emit("kd.syncthreads()")
    _assign(body, Expression(name, dtype))


def _histogram(body: Body, depth: int) -> None:
    """Atomics on a shared array."""
    if body.bins is None:
        return _vote(body, depth)
    body.features.add("shared histogram")
    name, dtype = body.bins.name, body.bins.dtype
    body.emit(f"if {body.thread} == 0:")
    for k in range(4):
        body.emit(f"    {name}[{k}] = {k}")
    body.emit("kd.syncthreads()")
    call = f"kd.atomic.add({name}, {body.expressions.index('4')}, 1)"
    with body.block(f"if {body.expressions.condition(1)}:"):
        body.emit(call)
    body.emit("kd.syncthreads()")
    _assign(body, Expression(f"{name}[{body.thread} % 4]", dtype))
    body.emit("kd.syncthreads()")
    return None


def _vote(body: Body, depth: int) -> None:
    kind = body.expressions.choose(("count", "and", "or"))
    call = f"kd.syncthreads_{kind}({body.expressions.condition(1)})"
    body.features.add("vote")
    variables = body.integers()
    if not variables:
        return _assign(body, Expression(call, "int32"))
    variable = body.expressions.choose(variables).text
    body.emit(
        body.expressions.choose(
            (
                f"{variable} += {call}",
                f"{variable} = {body.expressions.integer(1).text} + {call}",
                f"{variable} = np.int64({call})",
                f"{variable} = {body.expressions.integer(0).text} if {call} > 1 else {variable}",
            )
        )
    )
    return None


# -- warps -------------------------------------------------------------------------------------
def _in_warp(body: Body, depth: int) -> None:
    """A value of another lane, or a vote of the warp's lanes."""
    body.features.add("warp exchange")
    is_first_alone = body.threads > WARP_SIZE and body.expressions.chance(4)
    if is_first_alone:  # a branch that is uniform in each warp, and not in the block
        with body.block(f"if {body.thread} < {WARP_SIZE}:"):
            _exchange_lanes(body, is_whole=not body.may_return)
    elif not body.may_return and body.expressions.chance(2):
        _combine_lanes(body, _live_lanes(body))
    else:
        _exchange_lanes(body, is_whole=body.threads % WARP_SIZE == 0 and not body.may_return)


def _live_lanes(body: Body) -> str:
    """The mask of this thread's warp, whose last one may have fewer lanes."""
    whole, rest = divmod(body.threads, WARP_SIZE)
    if rest == 0:
        return body.expressions.choose(("0xFFFFFFFF", "-1"))
    last = (1 << rest) - 1
    return (
        f"(0xFFFFFFFF if {body.thread} < {whole * WARP_SIZE} else {last:#x})"
        if whole
        else str(last)
    )


def _exchange_lanes(body: Body, *, is_whole: bool) -> None:
    """Exchange among lanes; of a warp that is not whole only what CUDA defines."""
    choose, mask = body.expressions.choose, body.expressions.choose(("0xFFFFFFFF", "4294967295"))
    delta = choose(("1", "2", "16", "31", "m", "n"))
    if is_whole and body.expressions.chance(3):
        return _combine_lanes(body, mask)
    shuffles = [("shfl_up_sync", delta)] if not body.may_return else []
    if is_whole:
        lanes = ("0", "5", "31", "m", f"{body.thread} * 7 + 3")
        shuffles += [("shfl_sync", choose(lanes)), ("shfl_sync", choose(lanes))]
        shuffles += [("shfl_down_sync", delta), ("shfl_xor_sync", delta)]
    if shuffles and body.rng.randrange(3):
        name, lane = choose(shuffles)
        dtype = choose((*body.variables, *body.tiles)).dtype
        value = body.expressions.of_type(dtype, 1)
        widened = "int32" if dtype in NARROW_INTEGERS else dtype
        _assign(body, Expression(f"kd.{name}({mask}, {value}, {lane})", widened))
        return None
    test = body.expressions.condition(1)
    found = choose(
        (
            Expression(f"kd.ballot_sync({mask}, {test})", "int32"),
            Expression(f"kd.popc(kd.ballot_sync({mask}, {test}))", "int32"),
            Expression(f"(1 if kd.all_sync({mask}, {test}) else 2)", "int64"),
            Expression(f"(5 if kd.any_sync({mask}, {test}) else 3)", "int64"),
            Expression(f"(4 if kd.eq_sync({mask}, {test}) else 6)", "int64"),
            Expression("kd.lanemask_lt()", "uint32"),
        )
    )
    _assign(body, found)
    if body.expressions.chance(4):
        body.emit("kd.syncwarp()")
    return None


def _combine_lanes(body: Body, mask: str) -> None:
    """A match or a reduction of the values of a whole warp, or of lanes that have the same key."""
    body.features.add("warp reduction")
    choose, found = body.expressions.choose, body.fresh("e")
    if body.expressions.chance(3):
        body.emit(f"{found} = kd.match_any_sync({mask}, {body.expressions.integer(1).text} % 3)")
        mask = found
    names = ["add", "min", "max"]
    dtype = choose((*body.variables, *body.tiles)).dtype
    if dtype in INTEGERS:
        names += ["and", "or", "xor"]
    value = body.expressions.of_type(dtype, 1)
    widened = "int32" if dtype in NARROW_INTEGERS else dtype
    if mask != found and dtype in INTEGERS and body.expressions.chance(4):
        lanes, is_one = body.fresh("e"), body.fresh("e")
        body.emit(f"{lanes}, {is_one} = kd.match_all_sync({mask}, {value})")
        _assign(body, Expression(f"({lanes} if {is_one} else np.int32(9))", "int32"))
        return
    _assign(body, Expression(f"kd.reduce_{choose(names)}_sync({mask}, {value})", widened))


def _warp_loop(body: Body, depth: int) -> None:
    """A loop that each warp runs as often as its own values say."""
    if body.may_return:
        return _exchange(body, depth)
    body.features.add("warp loop")
    mask, name, counter = _live_lanes(body), body.fresh("w"), body.fresh("w")
    body.emit(f"{name} = {body.expressions.integer(1).text} % 5")
    if body.expressions.chance(2):
        header = f"while kd.any_sync({mask}, {name} > 0):"
    else:
        body.emit(f"{counter} = kd.reduce_max_sync({mask}, {name})")
        header = f"for {body.fresh('k')} in range({counter}):"
    with body.block(header):
        body.emit(f"{name} -= 1")
        if body.expressions.chance(2):
            left = body.expressions.choose(("continue", "break"))
            body.emit(f"if kd.all_sync({mask}, {name} < {body.rng.randrange(3)}):")
            body.emit(f"    {left}")
        _combine_lanes(body, mask)
    return None


# -- groups ------------------------------------------------------------------------------------
def _group(body: Body, depth: int) -> None:
    """What the warp or the block computes together, maybe in a branch that varies in the warp."""
    body.features.add("group")
    if body.expressions.chance(5):
        with body.block(f"if {body.expressions.condition(1)}:"):
            _compute_together(body, "warp", is_whole=False)
        return
    group = body.expressions.choose(("warp", "block", "block"))
    _compute_together(body, group, is_whole=not body.may_return)


def _compute_together(body: Body, group: str, *, is_whole: bool) -> None:
    """Call a word of a group; `is_whole` says that its first thread takes part."""
    choose = body.expressions.choose
    if body.expressions.chance(4):
        word, dtype = choose((("count", "int32"), ("any", ""), ("all", "")))
        call = f"kd.{group}.{word}({body.expressions.condition(1)})"
        _assign(
            body, Expression(call, dtype) if dtype else Expression(f"(3 if {call} else 1)", "int64")
        )
        return
    dtype = choose((*body.variables, *body.tiles)).dtype
    value = body.expressions.of_type(dtype, 1)
    words = ["sum", "sum", "max", "min", "inclusive_scan", "exclusive_scan", "exchange", "sort"]
    if is_whole:
        words.append("broadcast")
    word = choose(words)
    if word in ("broadcast", "exchange"):
        sources = (
            ("0",) if word == "broadcast" else (f"{body.thread} ^ 1", "m", f"31 - {body.thread}")
        )
        value += f", {choose(sources)}"
    result = dtype
    if word in ("sum", "inclusive_scan", "exclusive_scan") and dtype in NARROW_INTEGERS:
        result = "uint32" if dtype.startswith("u") else "int32"
    _assign(body, Expression(f"kd.{group}.{word}({value})", result))


# -- calls -------------------------------------------------------------------------------------
def _call(body: Body, function: BarrierFunction, depth: int = 1) -> str:
    """A call of a function with barriers; one of its arguments may be such a call itself."""
    args = []
    for parameter in function.parameters:
        if parameter.startswith("tile:"):
            tiles = [t for t in body.tiles if t.dtype == parameter[5:]]
            args.append(body.expressions.choose(tiles).name)
        elif parameter == "t":
            args.append(body.thread)
        elif parameter == "uniform":
            args.append(body.expressions.choose([*body.uniform, "2", "1"]))
        elif depth > 0 and function.dtypes == (parameter,) and body.expressions.chance(5):
            args.append(_call(body, function, depth - 1))
        else:
            args.append(body.expressions.of_type(parameter, 1))
    return f"{function.name}({', '.join(args)})"


def _call_anywhere(body: Body, depth: int) -> None:
    """A call with barriers in an assignment, subscript, condition, pair or operand."""
    if not body.barrier_functions:
        return _exchange(body, depth)
    call_function(body, body.expressions.choose(body.barrier_functions))
    return None


def call_function(body: Body, function: BarrierFunction) -> None:
    """Call a function with barriers somewhere in a statement."""
    call = _call(body, function)
    body.features.add("barrier function")
    if len(function.dtypes) == 2:
        a, b = body.fresh("a"), body.fresh("b")
        body.emit(f"{a}, {b} = {call}")
        for name, found in zip((a, b), function.dtypes, strict=True):
            _assign(body, Expression(name, found))
        return
    (dtype,) = function.dtypes
    places = [_plain, _operand, _augmented, _own_slot, _condition, _pair, _pair, _subscript]
    if function.is_slot:
        places += [_target] * 6
    if body.rng.randrange(9) == 0:
        places = [_chain]
    body.expressions.choose(places)(body, function, Expression(call, dtype))


def _plain(body: Body, function: BarrierFunction, call: Expression) -> None:
    _assign(body, call)


def _operand(body: Body, function: BarrierFunction, call: Expression) -> None:
    """Beside another operand, which is evaluated first, or after it."""
    body.features.add("barrier function in an operand")
    own = [Expression(t.own, t.dtype) for t in body.tiles]
    other = body.expressions.choose((body.expressions.expression(1), *own))
    left, right = (other, call) if body.rng.randrange(3) else (call, other)
    op = body.expressions.choose("+-*")
    dtype = result_type(op, left.dtype, right.dtype)
    if call.is_integer and body.expressions.chance(4):
        chosen = body.expressions.of_type(call.dtype, 1)
        _assign(body, Expression(f"min({chosen}, {call.text})", call.dtype))
        return
    _assign(body, Expression(f"({left.text} {op} {right.text})", dtype))


def _augmented(body: Body, function: BarrierFunction, call: Expression) -> None:
    body.features.add("barrier function in an augmented assignment")
    fitting = [v for v in body.variables if result_type("+", v.dtype, call.dtype) == v.dtype]
    if not fitting:
        _own_slot(body, function, call)
        return
    body.emit(f"{body.expressions.choose(fitting).text} += {call.text}")


def _own_slot(body: Body, function: BarrierFunction, call: Expression) -> None:
    """``s[t] += f(…)``: the slot is read before the call."""
    body.features.add("barrier function in an augmented assignment")
    fitting = [
        t
        for t in body.tiles
        if t.dtype in FLOATS or result_type("+", t.dtype, call.dtype) in INTEGERS
    ]
    if not fitting:
        _assign(body, call)
        return
    op = body.expressions.choose(("+=", "-=", "="))
    body.emit(f"{body.expressions.choose(fitting).own} {op} {call.text}")


def _condition(body: Body, function: BarrierFunction, call: Expression) -> None:
    body.features.add("barrier function in a condition")
    test = f"{call.text} {body.expressions.choose(('<', '>', '=='))} {body.expressions.leaf().text}"
    if body.expressions.chance(3):
        variable = body.expressions.choose(body.variables)
        value = body.expressions.of_type(variable.dtype, 1)
        if body.expressions.calls(Expression(value, variable.dtype)):
            value = body.expressions.converted(body.expressions.leaf(), variable.dtype).text
        body.emit(f"{variable.text} = {value} if {test} else {variable.text}")
        return
    with body.block(f"if {test}:"):
        statements(body, 1, 0)


def _pair(body: Body, function: BarrierFunction, call: Expression) -> None:
    body.features.add("barrier function in a tuple")
    variable = body.expressions.choose(body.variables)
    value, name = body.expressions.of_type(variable.dtype, 1), body.fresh("a")
    if body.expressions.chance(2):
        body.emit(f"{variable.text}, {name} = {value}, {call.text}")
        _assign(body, Expression(name, call.dtype))
    else:
        _assign(body, Expression(f"({value}, {call.text})[1]", call.dtype))


def _subscript(body: Body, function: BarrierFunction, call: Expression) -> None:
    arrays = [a for a in body.expressions.arrays if len(a.sizes) == 1]
    if not call.is_integer or not arrays:
        _assign(body, call)
        return
    body.features.add("barrier function in a subscript")
    array = body.expressions.choose(arrays)
    index = body.expressions.converted(call, "int64").text
    _assign(body, Expression(f"{array.name}[{index} % {array.sizes[0]}]", array.dtype))


def _target(body: Body, function: BarrierFunction, call: Expression) -> None:
    """A store at another thread's place, which nobody else writes before the next barrier."""
    body.features.add("barrier function in a target")
    tile = body.expressions.choose(body.tiles)
    body.emit("kd.syncthreads()")
    body.emit(f"{tile.name}[{call.text}] = {body.expressions.of_type(tile.dtype, 1)}")
    body.emit("kd.syncthreads()")


def _chain(body: Body, function: BarrierFunction, call: Expression) -> None:
    """More than ten calls, one after the other."""
    if function.dtypes[0] not in function.parameters or body.loops:
        _assign(body, call)
        return
    body.features.add("more than ten calls")
    fitting = [v for v in body.variables if v.dtype == call.dtype]
    if not fitting:
        _assign(body, call)
        return
    variable = body.expressions.choose(fitting).text
    last = call.text
    for _ in range(body.rng.choice((3, 10, 11))):
        body.emit(f"{variable} = {last}")
        last = _call(body, function, 0)


# -- control of the whole block ----------------------------------------------------------------
def _alone(body: Body, depth: int) -> None:
    statements(body, 1, depth - 1)


def _uniform_test(body: Body) -> str:
    uniform = body.expressions.choose(["n", "m", "kd.blockIdx.x", *body.uniform])
    return body.expressions.choose(
        (f"{uniform} > 1", f"{uniform} % 2 == 0", f"{uniform} == m", f"n + {uniform} < 4")
    )


def _uniform_if(body: Body, depth: int) -> None:
    body.features.add("barrier in a branch")
    flag = bool(body.flags) and not body.expressions.chance(8)
    if flag:
        body.features.add("captured flag around a barrier")
    test = body.expressions.choose(body.flags) if flag else _uniform_test(body)
    with body.block(f"if {test}:"):
        together(body, body.rng.choice((1, 1, 2)), depth - 1)
    if body.expressions.chance(3):
        with body.block("else:"):
            together(body, 1, 0)


def _uniform_for(body: Body, depth: int) -> None:
    body.features.add("barrier in a loop")
    name = body.counter()
    count = body.expressions.choose(("2", "3", "n", "m"))
    kind = body.rng.randrange(3)
    new: tuple[str, ...] = (name,)
    if kind == 0:
        second = body.fresh("k")
        used = {v.text for v in body.expressions.values}
        if "c" not in used and "d" not in used and body.expressions.chance(2):
            name, second = "c", "d"
        new = (name, second)
        header = f"for {name}, {second} in ((1, 2), (3, 1)):"
        body.features.add("tuple target around a barrier")
    elif kind == 1:
        header = f"for {name} in (1, 2, 4):"
    else:
        header = f"for {name} in range({count}):"
    values = [Expression(k, "int64") for k in new]
    for _ in range(body.rng.choice((1, 1, 2)) if kind == 0 else 1):  # the targets are used again
        with body.block(header, *values, uniform=new):
            if body.expressions.chance(4):
                body.emit(f"if {name} == m:")
                body.emit(f"    {body.expressions.choose(('break', 'continue'))}")
            together(body, body.rng.choice((1, 1, 2)), depth - 1)


def _uniform_while(body: Body, depth: int) -> None:
    body.features.add("barrier in a loop")
    name = body.fresh("w")
    body.emit(f"{name} = {body.expressions.choose(('0', 'm', 'kd.blockIdx.x'))}")
    with body.block(f"while {name} < 3:", Expression(name, "int64"), uniform=(name,)):
        together(body, 1, depth - 1)
        body.emit(f"{name} += 1")


_Idiom = Callable[[Body, int], None]
_FLAT: list[_Idiom] = [
    *(
        _exchange,
        _exchange,
        _exchange,
        _view_of_tile,
        _view_of_tile,
        _halo,
        _halo,
        _plane,
        _scan,
        _histogram,
        _retyped,
    ),
    *(_vote, _vote),
    *(_in_warp,) * 6,
    *(_call_anywhere,) * 10,
    *(_group,) * 8,
    *(_alone, _alone),
]
_NESTED: list[_Idiom] = [
    *(_uniform_if,) * 5,
    *(_uniform_for,) * 6,
    _uniform_while,
    *(_warp_loop,) * 5,
]
