"""The indices of the largest and the smallest elements.

A thread holds the best element so far and its iteration, as an int32, so that a CPU's vector has as
many of them as elements. Among equal elements the first index is taken, as in NumPy. The same
kernels reduce the results of the parts, and then look up the indices of the values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from stdlib_kernels.arrays import is_on_host
from stdlib_kernels.checks import Array, Out, check_array
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.operations import larger, smaller
from stdlib_kernels.parameters import axis_or_flat, computing_dtype
from stdlib_kernels.reduce.arrangement import Kernels
from stdlib_kernels.reduce.folding import STRIP, begin, check_not_empty
from stdlib_kernels.reduce.lanes import are_lanes_faster, launch_places

__all__ = ["argmax", "argmin"]


@kd.kernel(wraparound=False)
def places_in_rows(
    x, known, best, places, chunk, *, strip, number, better, is_first, is_last
):  # fmt: skip
    """Find the best of each part of each row; `known` are the indices of an earlier pass.

    A thread loads `strip` elements before it compares the first of them. The last pass does not
    store the best elements.
    """
    t, a, b = kd.threadIdx.x, kd.blockIdx.x // places.shape[1], kd.blockIdx.x % places.shape[1]
    first = kd.blockIdx.y * chunk
    last = min(first + chunk, x.shape[2])
    rounds = (last - first) // kd.blockDim.x
    found, turn = number(x[a, b, min(first + t, last - 1)]), kd.int32(0)
    whole = rounds - rounds % strip if strip > 1 else 0
    if strip > 1:
        vs = kd.local.array(strip, number)
        for k in range(0, whole, strip):
            for j in range(strip):
                vs[j] = number(x[a, b, first + (k + j) * kd.blockDim.x + t])
            for j in range(strip):
                is_better = better(vs[j], found)
                found = vs[j] if is_better else found
                turn = kd.int32(k + j) if is_better else turn
    for k in range(whole, rounds):
        v = number(x[a, b, first + k * kd.blockDim.x + t])
        is_better = better(v, found)
        found, turn = v if is_better else found, kd.int32(k) if is_better else turn
    place = min(first + turn * kd.blockDim.x + t, last - 1)
    rest = first + rounds * kd.blockDim.x + t
    if rest < last:
        v = number(x[a, b, rest])
        if better(v, found):
            found, place = v, rest
    top = kd.block.reduce(found, lambda p, q: q if better(q, p) else p)
    place = kd.block.min(x.shape[2] if better(top, found) else place)
    if t == 0:
        if not is_last:
            best[a, b, kd.blockIdx.y] = top
        if is_first:  # and `known` are the elements
            places[a, b, kd.blockIdx.y] = place
        else:
            places[a, b, kd.blockIdx.y] = known[a, b, place]


@kd.kernel(wraparound=False)
def places_in_columns(x, known, best, places, chunk, *, number, better, is_first, is_last):
    """Find the best of each part of each column; `known` are the indices of an earlier pass."""
    strips = (x.shape[2] + kd.blockDim.x - 1) // kd.blockDim.x
    a, part = kd.blockIdx.x // strips, kd.blockIdx.y
    b = kd.blockIdx.x % strips * kd.blockDim.x + kd.threadIdx.x
    first = part * chunk
    if b < x.shape[2]:
        found, turn = number(x[a, first, b]), kd.int32(0)
        for k in range(min(chunk, x.shape[1] - first)):
            v = number(x[a, first + k, b])
            is_better = better(v, found)
            found, turn = v if is_better else found, kd.int32(k) if is_better else turn
        if not is_last:
            best[a, part, b] = found
        if is_first:
            places[a, part, b] = first + turn
        else:
            places[a, part, b] = known[a, first + turn, b]


#: Whether an element is better than the best before; the first NaN is the best.
_BETTER = {
    "argmax": lambda v, found: not (v <= found) and found == found,  # noqa: PLR0124
    "argmin": lambda v, found: not (v >= found) and found == found,  # noqa: PLR0124
}
#: Comparisons of complex numbers: by the real parts, then the imaginary parts, as in NumPy.
_BETTER_OF_COMPLEX = {
    "argmax": lambda v, found: found == found and larger(found, v) != found,  # noqa: PLR0124
    "argmin": lambda v, found: found == found and smaller(found, v) != found,  # noqa: PLR0124
}


def _place(name: str, kind: str, op: Any, example: str) -> Any:
    """Return the function that finds the index of the largest or the smallest element."""

    def place(x: Array, axis: int | None = None, out: Out = None, *, keepdims: bool = False) -> Any:
        check_array("x", x, halves=True)
        axis = axis_or_flat(axis, x.ndim)
        check_not_empty(name, x, axis)
        call = begin(x, axis, np.dtype(np.int64), out, keepdims, in_order=True)
        if not call.result.size:
            return call.deliver()
        number, cut = computing_dtype(x.dtype), call.arrangement
        better = (_BETTER_OF_COMPLEX if number.kind == "c" else _BETTER)[name]
        if are_lanes_faster(cut, call.result):
            launch_places(cut, call.result, number, op, better)
            return call.deliver()
        known: Array = cut.inputs[0]
        while True:
            is_last = cut.parts == 1
            places = call.result if is_last else cut.allocate(np.dtype(np.int64))
            best = places if is_last else cut.allocate(number)
            how: dict[str, Any] = {"number": number.type, "better": better}
            how |= {"is_first": cut is call.arrangement, "is_last": is_last}
            if cut.by_rows:
                how["strip"] = 1 if is_on_host(places) else STRIP
            kernels = Kernels(places_in_rows, places_in_columns)
            cut.of(cut.inputs[0], known).launch(kernels, best, places, cut.chunk, **how)
            if is_last:
                return call.deliver()
            cut, known = cut.of(best), places

    place.__name__ = place.__qualname__ = name
    place.__doc__ = f"""Find the index of the {kind} element, of all or along an axis.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int, optional
        The axis to reduce; by default the array is flattened in C order.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.
    keepdims : bool
        Whether the result keeps the reduced axes, with an extent of 1.

    Returns
    -------
    NumPy scalar or array, or device array
        Same kind as `x`; `out` if it is given.
        An int64. Among equal elements the first is taken. NaN is {op.__name__} than every number.

    Raises
    ------
    kerneldsl.errors.ArgumentValueError
        If the reduced axes have no elements.

    See Also
    --------
    numpy.{name}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import {name}
    >>> {name}(np.array([[3, 1, 4], [1, 5, 5]]), axis=1).tolist()
    {example}
    """
    return repeated_function(place)


argmax = _place("argmax", "largest", larger, "[2, 1]")
argmin = _place("argmin", "smallest", smaller, "[1, 0]")
