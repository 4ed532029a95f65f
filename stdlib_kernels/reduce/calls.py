"""A call of a reduction: its axes, what it starts from, and where its result goes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kerneldsl.errors import ArgumentValueError
from kerneldsl.utilities.flags import read_flag
from stdlib_kernels.arrays import (
    Array,
    Out,
    allocate,
    check_out,
    destination,
    finish,
    is_contiguous,
    on_device,
)
from stdlib_kernels.parameters import axes_of
from stdlib_kernels.reduce.arrangement import Arrangement, arrange
from stdlib_kernels.reduce.folding import Rule, fold

__all__ = ["Axis", "Call", "begin", "check_not_empty", "fold_call"]

#: Axes as NumPy takes them; ``None`` means all.
Axis: TypeAlias = int | tuple[int, ...] | None


@dataclass(frozen=True)
class Call:
    """An array that is reduced, and the memory of the result."""

    #: The array as the caller gave it.
    x: Array
    axes: tuple[int, ...]
    #: Elements that become one.
    count: int
    arrangement: Arrangement
    #: In the form of the arrangement, with one part; of the result's dtype.
    result: Array
    #: The same memory in the shape of the call's result.
    shaped: Array
    out: Out

    def deliver(self) -> Any:
        """Return the result as the caller wants it."""
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
    """Refuse to reduce no elements where that has no result, as NumPy does."""
    axes = axes_of(axis, x.ndim)
    if not math.prod(x.shape[i] for i in axes):
        raise ArgumentValueError(
            f"{name} of an array of shape {tuple(x.shape)} over axes {axes} is of no elements",
            value=tuple(x.shape),
            limit=f"No elements have no {name}",
            remedy="Test x.size before",
        )
