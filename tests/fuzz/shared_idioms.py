"""What the threads of a block do through shared arrays: exchanges, halos, scans, histograms, votes.

Between two idioms each thread touches its own slots of the shared arrays alone; every idiom that
reads another's waits before and after.
"""

from __future__ import annotations

from tests.fuzz.body import Body
from tests.fuzz.expressions import ArrayName, Expression
from tests.fuzz.thread_idioms import statements
from tests.fuzz.typing import result_type

__all__ = [
    "exchange",
    "halo",
    "histogram",
    "plane",
    "retyped",
    "scan",
    "view_near_barrier",
    "vote",
]


def _slot(body: Body) -> str:
    shift = body.rng.randint(1, max(1, body.threads - 1))
    t, count = body.thread, body.threads
    return body.expressions.choose(
        (f"({t} + {shift}) % {count}", f"{count - 1} - {t}", f"{t} - {shift}", "0", f"{t} ^ 1")
        if count % 2 == 0
        else (f"({t} + {shift}) % {count}", f"{count - 1} - {t}", "-1")
    )


def exchange(body: Body, depth: int) -> None:
    shared = body.expressions.choose(body.shared)
    op = "+=" if body.expressions.chance(4) else "="
    body.emit(f"{shared.own} {op} {body.expressions.of_type(shared.dtype, 1)}")
    body.emit("kd.syncthreads()")
    body.take(Expression(f"{shared.name}[{_slot(body)}]", shared.dtype))
    if body.expressions.chance(3):
        array = ArrayName(shared.name, shared.dtype, (str(body.threads),))
        body.expressions.arrays.append(array)
        lvalues, body.lvalues = body.lvalues, []  # others read them now
        statements(body, 1, 1)
        body.lvalues = lvalues
        body.expressions.arrays.remove(array)
    body.emit("kd.syncthreads()")


def view_near_barrier(body: Body, depth: int) -> None:
    """A part of a shared array, whose length varies between the threads, read between barriers."""
    body.features.add("view near a barrier")
    shared, name = body.expressions.choose(body.shared), body.fresh("r")
    source = shared.name
    inputs = [a for a in body.expressions.arrays if len(a.sizes) == 1]
    if inputs and body.expressions.chance(2):
        array = body.expressions.choose(inputs)
        source, dtype = array.name, array.dtype
    else:
        dtype = shared.dtype
    cut = body.expressions.choose((f"{body.thread} % 4", body.thread, "1", "m"))
    body.emit(f"{name} = {source}[{cut}:]")
    body.emit(f"{shared.own} = {body.expressions.of_type(shared.dtype, 1)}")
    body.emit("kd.syncthreads()")
    found = body.temporary()
    body.emit(f"{found} = {name}[0] if {name}.size > 0 else np.{dtype}(1)")
    body.take(Expression(found, dtype))
    variables = body.integers()
    if variables:
        body.emit(f"{body.expressions.choose(variables).text} += {name}.size")
    body.emit("kd.syncthreads()")


def halo(body: Body, depth: int) -> None:
    """A row of the block's values with a neighbour's on each side, filled by its end threads."""
    body.features.add("halo tile")
    if body.halo is None:
        return exchange(body, depth)
    name, dtype, t, count = body.halo.name, body.halo.dtype, body.thread, body.threads
    body.emit(f"{body.halo.own} = {body.expressions.of_type(dtype, 1)}")
    body.emit("if " + body.expressions.choose((f"{t} < 2", f"{t} == 0 or {t} == 1")) + ":")
    edge = body.expressions.of_type(dtype, 1)
    body.emit(f"    {name}[0 if {t} == 0 else {count + 1}] = {edge}")
    body.emit("kd.syncthreads()")
    total = result_type("+", result_type("+", dtype, dtype), dtype)
    body.take(Expression(f"({name}[{t}] + {name}[{t} + 1] + {name}[{t} + 2])", total))
    body.emit("kd.syncthreads()")
    return None


def scan(body: Body, depth: int) -> None:
    """A sum over the threads before this one."""
    body.features.add("scan")
    shared, w, e = body.expressions.choose(body.shared), body.fresh("w"), body.fresh("e")
    body.emit(f"{shared.own} = {body.expressions.of_type(shared.dtype, 1)}")
    body.emit("kd.syncthreads()")
    body.emit(f"{w} = 1")
    with body.block(f"while {w} < {body.threads}:", uniform=(w,)):
        load = f"{shared.name}[{body.thread} - {w}]"
        body.emit(f"{e} = {load} if {body.thread} >= {w} else np.{shared.dtype}(0)")
        body.emit("kd.syncthreads()")
        body.emit(f"{shared.own} += {e}")
        body.emit("kd.syncthreads()")
        body.emit(f"{w} *= 2")
    body.take(Expression(shared.own, shared.dtype))


def plane(body: Body, depth: int) -> None:
    """A value from a neighbour in a block of two dimensions, periodic, clamped or mirrored."""
    if body.plane is None:
        return exchange(body, depth)
    body.features.add("tile of two dimensions")
    shared, (width, height) = body.plane, body.plane_dim
    body.emit(f"{shared.own} = {body.expressions.of_type(shared.dtype, 1)}")
    body.emit("kd.syncthreads()")
    rows = (f"(ty + 1) % {height}", "max(ty - 1, 0)", f"{height - 1} - ty", "ty", "-1")
    columns = (f"(tx - 1) % {width}", f"min(tx + 1, {width - 1})", f"{width - 1} - tx", "tx", "0")
    row, column = body.expressions.choose(rows), body.expressions.choose(columns)
    index = body.expressions.choose((f"[{row}, {column}]", f"[{row}][{column}]"))
    body.take(Expression(f"{shared.name}{index}", shared.dtype))
    body.emit("kd.syncthreads()")
    return None


def retyped(body: Body, depth: int) -> None:
    """A variable of one type before a barrier, and of another after it."""
    body.features.add("variable of two types")
    shared, name = body.expressions.choose(body.shared), body.fresh("q")
    first = body.expressions.expression(1)
    body.emit(f"{name} = {first.text}")
    body.emit(f"{shared.own} = {body.expressions.of_type(shared.dtype, 0)}")
    body.emit("kd.syncthreads()")
    second = Expression(f"{shared.name}[{_slot(body)}]", shared.dtype)
    dtype = result_type("+", first.dtype, second.dtype)
    body.emit(f"{name} = {name} + {second.text}")
    body.emit("kd.syncthreads()")
    body.take(Expression(name, dtype))


def histogram(body: Body, depth: int) -> None:
    """Atomics on a shared array."""
    if body.bins is None:
        return vote(body, depth)
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
    body.take(Expression(f"{name}[{body.thread} % 4]", dtype))
    body.emit("kd.syncthreads()")
    return None


def vote(body: Body, depth: int) -> None:
    kind = body.expressions.choose(("count", "and", "or"))
    call = f"kd.syncthreads_{kind}({body.expressions.condition(1)})"
    body.features.add("vote")
    variables = body.integers()
    if not variables:
        return body.take(Expression(call, "int32"))
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
