"""Axes in another order."""

from __future__ import annotations

import math
from typing import Any

from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.values import safe_repr
from stdlib_kernels.arrays import (
    Array,
    check_array,
    check_out,
    destination,
    finish,
    is_contiguous,
    on_device,
)
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.movement.tiles import copy_permuted
from stdlib_kernels.parameters import axis_of

__all__ = ["permute", "permuted"]


@repeated_function
def permute(x: Array, axes: tuple[int, ...] | None = None, *, out: Array | None = None) -> Any:
    """Bring the axes of an array into another order, in new memory.

    {parameters: array}
    axes : tuple of int, optional
        For each axis of the result the one of `x` that it is; by default they are reversed.
    {out}
    {returns: array}
        Of `x`'s kind and dtype, contiguous in C order; `out`, where it is given.
    {raises and see: numpy.transpose : gives a view instead.}
    {examples}
    >>> permute(np.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    check_array("x", x, halves=True)
    order = tuple(reversed(range(x.ndim)))
    if axes is not None:
        given = axes if isinstance(axes, tuple | list) else (axes,)
        order = tuple(axis_of(each, x.ndim) for each in given)
    if sorted(order) != list(range(x.ndim)):
        raise ArgumentValueError(
            f"axes are {safe_repr(axes)}", value=axes, limit=f"Each of the {x.ndim} is named once"
        )
    return permuted(x, order, out)


def permuted(x: Array, order: tuple[int, ...], out: Array | None) -> Any:
    """Return an array whose axes are in another order, or `out`, as `permute` does."""
    shape = tuple(x.shape[k] for k in order)
    check_out(out, like=x, shape=shape, dtype=x.dtype)
    source = on_device(x)
    result = destination(source, shape, x.dtype, out)
    if is_contiguous(source) and is_contiguous(result) and x.size:
        # Axes that stay side by side are one.
        groups: list[list[int]] = []
        for k in order:
            if groups and groups[-1][-1] == k - 1:
                groups[-1].append(k)
            else:
                groups.append([k])
        whole = {g[0]: math.prod(x.shape[k] for k in g) for g in groups}
        firsts = sorted(whole)
        merged = source.reshape(tuple(whole[k] for k in firsts))
        moved = merged.transpose(tuple(firsts.index(g[0]) for g in groups))
        copy_permuted(moved, result.reshape(tuple(moved.shape)))
    else:
        copy_permuted(source.transpose(order), result)
    return finish(result, like=x, out=out)
