"""Kernels that fill an array: a thread takes one counter, and stores what it gives as vectors.

Which counter a number comes of, and which part of it, depends on its place in the array alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import kerneldsl as kd
from stdlib_kernels.arrays import (
    Array,
    check_array,
    check_out,
    finish,
    is_contiguous,
    on_device,
)
from stdlib_kernels.parameters import shape_of
from stdlib_kernels.random.draws import Draw
from stdlib_kernels.random.state import State

__all__ = ["counters_of", "drawn", "fill"]


@kd.kernel(wraparound=False)
def fill_fours(out, key, counter, above, a, b, c, *, draw, number, vector):
    """Store numbers ``4 i … 4 i + 3`` of counter i: ``(out[n], …)``."""
    i = kd.grid(1)
    index = counter + np.uint64(i)
    beyond = above + np.uint64(index < counter)
    first, second, third, fourth = draw(key, index, beyond, a, b, c)
    outs = kd.view(out, vector)
    if i < outs.size:
        outs[i] = vector(number(first), number(second), number(third), number(fourth))
    else:
        _store(out, 4 * i, number(first))
        _store(out, 4 * i + 1, number(second))
        _store(out, 4 * i + 2, number(third))


@kd.kernel(wraparound=False)
def fill_pairs(out, key, counter, above, a, b, c, *, draw, number, vector):
    """Store numbers ``2 i`` and ``2 i + 1`` of counter i: ``(out[n], …)``."""
    i = kd.grid(1)
    index = counter + np.uint64(i)
    beyond = above + np.uint64(index < counter)
    first, second = draw(key, index, beyond, a, b, c)
    outs = kd.view(out, vector)
    if i < outs.size:
        outs[i] = vector(number(first), number(second))
    else:
        _store(out, 2 * i, number(first))


@kd.kernel(wraparound=False)
def fill_singly(out, key, counter, above, a, b, c, *, draw, number):
    """Store as `fill_fours` does, for dtypes that have no vectors of four."""
    i = kd.grid(1)
    index = counter + np.uint64(i)
    beyond = above + np.uint64(index < counter)
    first, second, third, fourth = draw(key, index, beyond, a, b, c)
    _store(out, 4 * i, number(first))
    _store(out, 4 * i + 1, number(second))
    _store(out, 4 * i + 2, number(third))
    _store(out, 4 * i + 3, number(fourth))


def _store(out: Any, at: Any, value: Any) -> None:
    if at < out.size:
        out[at] = value


def counters_of(size: int, draw: Draw) -> int:
    """Return how many counters some numbers take."""
    return -(-size // draw.per_counter)


def fill(out: Array, draw: Draw, state: State, a: Any, b: Any = 0, c: Any = 0) -> None:
    """Fill an array of one axis from a state on; `a`, `b` and `c` are what the draw takes."""
    low = (1 << 64) - 1
    words = (state.key, state.counter & low, state.counter >> 64)
    constants: dict[str, Any] = {"draw": draw.function, "number": out.dtype.type}
    vector = getattr(kd, f"{out.dtype.name}x{draw.per_counter}", None)
    kernel: Any = fill_singly
    if vector is not None:
        kernel = fill_fours if draw.per_counter == 4 else fill_pairs
        constants["vector"] = vector
    kernel.forall(counters_of(out.size, draw))(
        out, *(np.uint64(word) for word in words), a, b, c, **constants
    )


def drawn(
    take: Callable[[int], State],
    device: Any,
    draw: Draw,
    size: Any,
    dtype: np.dtype[Any],
    out: Array | None,
    *numbers: Any,
) -> Any:
    """Fill a new array on a device, or `out`, and return it; of no `size` a NumPy scalar."""
    if out is not None:
        check_array("out", out, dtypes=(dtype.name,))
    shape = tuple(out.shape) if out is not None and size is None else shape_of("size", size)
    if out is not None:
        check_out(out, like=out, shape=shape, dtype=dtype)
    result: Any = out
    if out is None or not is_contiguous(out) or on_device(out) is not out:
        on = out.device if isinstance(out, kd.DeviceArray) else device
        result = kd.empty(shape, dtype, device=on)
    state = take(counters_of(math.prod(shape), draw))
    if result.size:
        fill(result.reshape((-1,)), draw, state, *numbers)
    if out is not None:
        return finish(result, like=out, out=out)
    return result.copy_to_host()[()] if size is None else result
