"""The kernels under most reductions: elements are lifted, and combined two by two.

A `Rule` contains the differences between the functions of the library.
`stdlib_kernels.reduce.arrangement` determines the layout of an array and the number of passes. A
`Call` is an array, its reduced axes, and the array for the result.

References
----------
Mark Harris, "Optimizing Parallel Reduction in CUDA", NVIDIA, 2007: several elements a thread, and a
second launch for what the blocks leave.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.flags import read_flag
from stdlib_kernels.arrays import (
    allocate,
    destination,
    finish,
    is_contiguous,
    is_on_host,
    on_device,
)
from stdlib_kernels.checks import Array, Ints, Out, check_out
from stdlib_kernels.operations import unchanged
from stdlib_kernels.parameters import axes_of, computing_dtype, function_of, scalar_of
from stdlib_kernels.reduce.arrangement import MAX_PARTS, Arrangement, Kernels, arrange

__all__ = [
    "STRIP",
    "Axis",
    "Call",
    "Rule",
    "begin",
    "check_not_empty",
    "fold",
    "fold_call",
    "rule_of",
]

#: Elements of a row's part at most: a GPU's last blocks are over sooner.
LARGEST_PART = 1 << 14
#: Elements that a thread of a GPU loads before it combines the first of them. Left to the compiler,
#: fewer are on their way the longer `op` is.
STRIP = 8
#: Axes as NumPy takes them; ``None`` means all.
Axis: TypeAlias = Ints | None


@kd.kernel(wraparound=False)
def fold_rows(x, y, out, chunk, parameter, *, strip, number, lift, op, identity, finish):
    """Combine each part of each row: ``x[a, b, n], y[a, b, n], out[a, b, parts]``."""
    t, a, b = kd.threadIdx.x, kd.blockIdx.x // out.shape[1], kd.blockIdx.x % out.shape[1]
    first = kd.blockIdx.y * chunk
    last = min(first + chunk, x.shape[2])
    steps = (last - first) // kd.blockDim.x
    whole = first + steps * kd.blockDim.x
    total = identity
    if strip > 1:
        vs, ws = kd.local.array(strip, number), kd.local.array(strip, number)
        rest = whole - steps % strip * kd.blockDim.x
        for at in range(first, rest, strip * kd.blockDim.x):
            for k in range(strip):
                i = at + k * kd.blockDim.x + t
                vs[k], ws[k] = number(x[a, b, i]), number(y[a, b, i])
            for k in range(strip):
                total = op(total, lift(vs[k], ws[k], parameter))
        first = rest
    for at in range(first, whole, kd.blockDim.x):
        v, w = number(x[a, b, at + t]), number(y[a, b, at + t])
        total = op(total, lift(v, w, parameter))
    if whole + t < last:
        v, w = number(x[a, b, whole + t]), number(y[a, b, whole + t])
        total = op(total, lift(v, w, parameter))
    total = kd.block.reduce(total, op)
    if t == 0:
        out[a, b, kd.blockIdx.y] = finish(total, parameter)


@kd.kernel(wraparound=False)
def fold_columns(x, y, out, chunk, parameter, *, strip, number, lift, op, identity, finish):
    """Combine each part of each column: ``x[a, n, b], y[a, n, b], out[a, parts, b]``."""
    strips = (x.shape[2] + kd.blockDim.x - 1) // kd.blockDim.x
    a, part = kd.blockIdx.x // strips, kd.blockIdx.y
    b = kd.blockIdx.x % strips * kd.blockDim.x + kd.threadIdx.x
    if b < x.shape[2]:
        total = identity
        first, last = part * chunk, min(part * chunk + chunk, x.shape[1])
        if strip > 1:
            vs, ws = kd.local.array(strip, number), kd.local.array(strip, number)
            rest = last - (last - first) % strip
            for at in range(first, rest, strip):
                for k in range(strip):
                    vs[k], ws[k] = number(x[a, at + k, b]), number(y[a, at + k, b])
                for k in range(strip):
                    total = op(total, lift(vs[k], ws[k], parameter))
            first = rest
        for k in range(first, last):
            total = op(total, lift(number(x[a, k, b]), number(y[a, k, b]), parameter))
        out[a, part, b] = finish(total, parameter)


def _element(v: Any, w: Any, parameter: Any) -> Any:
    return v


@dataclass(frozen=True)
class Rule:
    """A reduction as what becomes of the elements; the functions are device functions."""

    #: Combines two values; associative and commutative.
    op: Callable[[Any, Any], Any]
    #: Neutral element, a NumPy scalar of the dtype in which values are combined.
    identity: Any
    #: Converts elements first.
    number: Any
    #: Makes a value of an element of `x`, one of `y` and the parameter.
    lift: Callable[[Any, Any, Any], Any] = _element
    #: Makes the result of the last value and the parameter.
    finish: Callable[[Any, Any], Any] = unchanged
    #: A number that both are given.
    parameter: Any = 0.0

    def beginning_with(self, initial: Any) -> Rule:
        """Return the rule that combines its result with a number, unless that is ``None``."""
        if initial is None:
            return self
        number = np.dtype(self.number)
        return replace(self, finish=self.op, parameter=scalar_of("initial", initial, number))


def rule_of(op: Any, identity: Any, dtype: np.dtype[Any]) -> Rule:
    """Return the rule of a function of the caller's, to a dtype."""
    number = computing_dtype(dtype)
    return Rule(function_of("op", op), scalar_of("identity", identity, number), number.type)


def fold(rule: Rule, arrangement: Arrangement, result: Array) -> None:
    """Reduce by a rule, in as many passes as it takes.

    `arrangement` has one input or two, and `result` its form, with one part.
    """
    passed, arrangement = rule, replace(arrangement, largest_part=LARGEST_PART)
    while arrangement.parts > 1:
        values = arrangement.allocate(np.asarray(rule.identity).dtype)
        _launch(replace(passed, finish=unchanged), arrangement, values)
        arrangement = replace(arrangement.of(values), single_part=MAX_PARTS)
        passed = replace(rule, number=type(rule.identity), lift=_element)
    _launch(passed, arrangement, result)


def _launch(rule: Rule, arrangement: Arrangement, out: Array) -> None:
    cut = arrangement.of(arrangement.inputs[0], arrangement.inputs[-1])
    how: dict[str, Any] = {"number": rule.number, "identity": rule.identity, "op": rule.op}
    how |= {"lift": rule.lift, "finish": rule.finish}
    how["strip"] = 1 if is_on_host(out) else STRIP
    cut.launch(Kernels(fold_rows, fold_columns), out, cut.chunk, rule.parameter, **how)


@dataclass(frozen=True)
class Call:
    """An array that is reduced, and the memory of the result."""

    #: The array as the caller gave it.
    x: Array
    axes: tuple[int, ...]
    #: Elements that become one.
    count: int
    arrangement: Arrangement
    #: Result in the form of the arrangement, with one part; of the result's dtype.
    result: Array
    #: View of that memory in the shape of the call's result.
    shaped: Array
    out: Out

    def deliver(self) -> Any:
        """Return the result in the requested form."""
        return finish(self.shaped, like=self.x, out=self.out)


def begin(
    x: Array, axis: Axis, dtype: np.dtype[Any], out: Out, keepdims: bool, *, in_order: bool = False
) -> Call:
    """Check axes, `keepdims` and `out`, arrange the array and allocate a result of a dtype."""
    axes, keepdims = axes_of(axis, x.ndim), read_flag("keepdims", keepdims)
    kept = [i for i in range(x.ndim) if i not in axes]
    left = axes if keepdims else ()
    shape = tuple(1 if i in axes else x.shape[i] for i in sorted((*kept, *left)))
    check_out(out, like=x, shape=shape, dtype=dtype)
    source = on_device(x)
    arrangement, order = arrange(source, axes, in_order=in_order)
    a, b = arrangement.kept
    form = (a, b, 1) if arrangement.by_rows else (a, 1, b)
    made = destination(source, shape, dtype, out) if out is not None else None
    if made is not None and made is out and list(order) == kept and is_contiguous(made):
        shaped, result = made, made.reshape(form)
    else:
        made = allocate(source, tuple(x.shape[i] for i in order), dtype)
        result = made.reshape(form)
        shaped = made.transpose(tuple(order.index(i) for i in kept)) if kept else made
        if keepdims and x.ndim:
            shaped = shaped[tuple(None if i in axes else slice(None) for i in range(x.ndim))]
    count = math.prod(x.shape[i] for i in axes)
    return Call(x, axes, count, arrangement, result, shaped, out)


def fold_call(
    rule: Rule, x: Array, axis: Axis, dtype: np.dtype[Any], out: Out, keepdims: bool
) -> Any:
    """Reduce an array over axes by a rule, to a dtype."""
    call = begin(x, axis, dtype, out, keepdims)
    if call.result.size:
        fold(rule, call.arrangement, call.result)
    return call.deliver()


def check_not_empty(name: str, x: Array, axis: Axis) -> None:
    """Raise an error for no elements if they have no result, as in NumPy."""
    axes = axes_of(axis, x.ndim)
    if not math.prod(x.shape[i] for i in axes):
        raise ArgumentValueError(
            f"{name} over axes {axes} of an array of shape {tuple(x.shape)} has no value",
            value=tuple(x.shape),
            limit="There are no elements",
            remedy="Test x.size first" + ", or pass initial=…" * (name in ("max", "min")),
        )
