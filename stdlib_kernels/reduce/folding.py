"""The kernels under most reductions: elements are lifted, and combined two by two.

What the functions of the library differ in is a `Rule`. How an array is laid out, and how many
passes there are, is for `stdlib_kernels.reduce.arrangement` to say.

References
----------
Mark Harris, "Optimizing Parallel Reduction in CUDA", NVIDIA, 2007: several elements a thread, and a
second launch for what the blocks leave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import kerneldsl as kd
from stdlib_kernels.arrays import Array
from stdlib_kernels.reduce.arrangement import Arrangement, Kernels

__all__ = [
    "Rule",
    "abs_squared",
    "add",
    "fold",
    "larger",
    "multiply",
    "smaller",
    "unchanged",
]


@kd.kernel(wraparound=False)
def fold_rows(x, y, out, chunk, parameter, *, number, lift, op, identity, finish):
    """Combine each part of each row: ``x[a, b, n], y[a, b, n], out[a, b, parts]``."""
    t, a, b = kd.threadIdx.x, kd.blockIdx.x // out.shape[1], kd.blockIdx.x % out.shape[1]
    first = kd.blockIdx.y * chunk
    last = min(first + chunk, x.shape[2])
    whole = first + (last - first) // kd.blockDim.x * kd.blockDim.x
    total = identity
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
def fold_columns(x, y, out, chunk, parameter, *, number, lift, op, identity, finish):
    """Combine each part of each column: ``x[a, n, b], y[a, n, b], out[a, parts, b]``."""
    strips = (x.shape[2] + kd.blockDim.x - 1) // kd.blockDim.x
    a, part = kd.blockIdx.x // strips, kd.blockIdx.y
    b = kd.blockIdx.x % strips * kd.blockDim.x + kd.threadIdx.x
    if b < x.shape[2]:
        total = identity
        for k in range(part * chunk, min(part * chunk + chunk, x.shape[1])):
            total = op(total, lift(number(x[a, k, b]), number(y[a, k, b]), parameter))
        out[a, part, b] = finish(total, parameter)


def _element(v: Any, w: Any, parameter: Any) -> Any:
    return v


def unchanged(total: Any, parameter: Any) -> Any:
    """Return the value itself."""
    return total


def add(a: Any, b: Any) -> Any:
    """Return the sum."""
    return a + b


def multiply(a: Any, b: Any) -> Any:
    """Return the product."""
    return a * b


def abs_squared(v: Any) -> Any:
    """Return the square of a real or complex number's size."""
    return v.real * v.real + v.imag * v.imag


def larger(a: Any, b: Any) -> Any:
    """Return the larger number, or one that is NaN."""
    return a if a > b or a != a else b  # noqa: PLR0124 - NaN alone differs


def smaller(a: Any, b: Any) -> Any:
    """Return the smaller number, or one that is NaN."""
    return a if a < b or a != a else b  # noqa: PLR0124 - NaN alone differs


@dataclass(frozen=True)
class Rule:
    """A reduction as what becomes of the elements; the functions are device functions."""

    #: Combines two values; associative and commutative.
    op: Callable[[Any, Any], Any]
    #: What changes nothing, a NumPy scalar of the dtype in which values are combined.
    identity: Any
    #: What elements are converted to first.
    number: Any
    #: Makes a value of an element of `x`, one of `y` and the parameter.
    lift: Callable[[Any, Any, Any], Any] = _element
    #: Makes the result of the last value and the parameter.
    finish: Callable[[Any, Any], Any] = unchanged
    #: A number that both are given.
    parameter: float = 0.0


def fold(rule: Rule, arrangement: Arrangement, result: Array) -> None:
    """Reduce by a rule, in as many passes as it takes.

    `arrangement` has one input or two, and `result` its form, with one part.
    """
    passed = rule
    while arrangement.parts > 1:
        values = arrangement.allocate(np.asarray(rule.identity).dtype)
        _launch(replace(passed, finish=unchanged), arrangement, values)
        arrangement = arrangement.of(values)
        passed = replace(rule, number=type(rule.identity), lift=_element)
    _launch(passed, arrangement, result)


def _launch(rule: Rule, arrangement: Arrangement, out: Array) -> None:
    x, y = arrangement.inputs[0], arrangement.inputs[-1]
    arrangement.of(x, y).launch(
        Kernels(fold_rows, fold_columns),
        out,
        arrangement.chunk,
        rule.parameter,
        number=rule.number,
        lift=rule.lift,
        op=rule.op,
        identity=rule.identity,
        finish=rule.finish,
    )
