"""Calls of device functions that wait at barriers, anywhere in a statement."""

from __future__ import annotations

from tests.fuzz.body import BarrierFunction, Body
from tests.fuzz.expressions import Expression
from tests.fuzz.shared_idioms import exchange
from tests.fuzz.thread_idioms import statements
from tests.fuzz.typing import FLOATS, INTEGERS, result_type

__all__ = ["call_anywhere", "call_function"]


def _call(body: Body, function: BarrierFunction, depth: int = 1) -> str:
    """A call of a function with barriers; one of its arguments may be such a call itself."""
    args = []
    for parameter in function.parameters:
        if parameter.startswith("shared:"):
            fitting = [t for t in body.shared if t.dtype == parameter.removeprefix("shared:")]
            args.append(body.expressions.choose(fitting).name)
        elif parameter == "t":
            args.append(body.thread)
        elif parameter == "uniform":
            args.append(body.expressions.choose([*body.uniform, "2", "1"]))
        elif depth > 0 and function.dtypes == (parameter,) and body.expressions.chance(5):
            args.append(_call(body, function, depth - 1))
        else:
            args.append(body.expressions.of_type(parameter, 1))
    return f"{function.name}({', '.join(args)})"


def call_anywhere(body: Body, depth: int) -> None:
    """A call with barriers in an assignment, subscript, condition, pair or operand."""
    if not body.barrier_functions:
        return exchange(body, depth)
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
            body.take(Expression(name, found))
        return
    (dtype,) = function.dtypes
    places = [_plain, _operand, _augmented, _own_slot, _condition, _pair, _pair, _subscript]
    if function.is_slot:
        places += [_target] * 6
    if body.rng.randrange(9) == 0:
        places = [_chain]
    body.expressions.choose(places)(body, function, Expression(call, dtype))


def _plain(body: Body, function: BarrierFunction, call: Expression) -> None:
    body.take(call)


def _operand(body: Body, function: BarrierFunction, call: Expression) -> None:
    """Beside another operand, which is evaluated first, or after it."""
    body.features.add("barrier function in an operand")
    own = [Expression(t.own, t.dtype) for t in body.shared]
    other = body.expressions.choose((body.expressions.expression(1), *own))
    left, right = (other, call) if body.rng.randrange(3) else (call, other)
    op = body.expressions.choose("+-*")
    dtype = result_type(op, left.dtype, right.dtype)
    if call.is_integer and body.expressions.chance(4):
        chosen = body.expressions.of_type(call.dtype, 1)
        body.take(Expression(f"min({chosen}, {call.text})", call.dtype))
        return
    body.take(Expression(f"({left.text} {op} {right.text})", dtype))


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
        for t in body.shared
        if t.dtype in FLOATS or result_type("+", t.dtype, call.dtype) in INTEGERS
    ]
    if not fitting:
        body.take(call)
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
        body.take(Expression(name, call.dtype))
    else:
        body.take(Expression(f"({value}, {call.text})[1]", call.dtype))


def _subscript(body: Body, function: BarrierFunction, call: Expression) -> None:
    arrays = [a for a in body.expressions.arrays if len(a.sizes) == 1]
    if not call.is_integer or not arrays:
        body.take(call)
        return
    body.features.add("barrier function in a subscript")
    array = body.expressions.choose(arrays)
    index = body.expressions.converted(call, "int64").text
    body.take(Expression(f"{array.name}[{index} % {array.sizes[0]}]", array.dtype))


def _target(body: Body, function: BarrierFunction, call: Expression) -> None:
    """A store at another thread's place, which nobody else writes before the next barrier."""
    body.features.add("barrier function in a target")
    shared = body.expressions.choose(body.shared)
    body.emit("kd.syncthreads()")
    body.emit(f"{shared.name}[{call.text}] = {body.expressions.of_type(shared.dtype, 1)}")
    body.emit("kd.syncthreads()")


def _chain(body: Body, function: BarrierFunction, call: Expression) -> None:
    """More than ten calls, one after the other."""
    if function.dtypes[0] not in function.parameters or body.loops:
        body.take(call)
        return
    body.features.add("more than ten calls")
    fitting = [v for v in body.variables if v.dtype == call.dtype]
    if not fitting:
        body.take(call)
        return
    variable = body.expressions.choose(fitting).text
    last = call.text
    for _ in range(body.rng.choice((3, 10, 11))):
        body.emit(f"{variable} = {last}")
        last = _call(body, function, 0)
