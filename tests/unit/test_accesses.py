"""How often a kernel reads and writes each array, and what it compares."""

from __future__ import annotations

import kerneldsl as kd
from kerneldsl.analysis.accesses import ArrayAccess, array_accesses
from kerneldsl.frontend.normalize import make_unit


def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


def test_streams_are_counted_once_each() -> None:
    assert array_accesses(make_unit(axpy)) == (
        ArrayAccess(1, 1, 0),
        ArrayAccess(2, 1, 0),
        ArrayAccess(3, 0, 1),
    )


def test_equal_places_count_once_and_neighbours_each() -> None:
    def blur(x, out):
        i, j = kd.grid(2)
        out[i, j] = x[i, j] * x[i, j] + x[i - 1, j] + x[i + 1, j]

    assert array_accesses(make_unit(blur)) == (ArrayAccess(0, 3, 0), ArrayAccess(1, 0, 1))


def test_an_update_in_place_is_a_load_and_a_store() -> None:
    def update(x, bins):
        i = kd.grid(1)
        x[i] += 1
        kd.atomic.add(bins, x[i], 1)

    assert array_accesses(make_unit(update)) == (
        ArrayAccess(0, 1, 1),
        ArrayAccess(1, 1, 1, is_atomic=True),
    )


def test_loops_are_said() -> None:
    def row_sums(x, out):
        i = kd.grid(1)
        total = x[i, 0]
        for k in range(1, x.shape[1]):
            total += x[i, k]
        out[i] = total

    assert array_accesses(make_unit(row_sums)) == (
        ArrayAccess(0, 2, 0, in_loop=True),
        ArrayAccess(1, 0, 1),
    )


@kd.func
def _pick(x, i):
    return x[i]


def test_what_a_device_function_does_counts_once() -> None:
    def copy(x, out):
        i = kd.grid(1)
        out[i] = _pick(x, i)

    assert array_accesses(make_unit(copy)) == (ArrayAccess(0, 1, 0), ArrayAccess(1, 0, 1))
