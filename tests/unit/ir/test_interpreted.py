"""What the interpreter of the region IR finds: wrong analyses, and readings that were wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.ir.operations import Function, Value
from kerneldsl.ir.ranges import ranges_of
from kerneldsl.language.intrinsics.intrinsic import Scope
from tests.support.regions.arrays import WrongIndexError
from tests.support.regions.reading import after_passes, as_written, specialized
from tests.support.regions.running import run
from tests.support.regions.watching import AnalysisWatch, WrongAnalysisError, watch_of
from tests.support.simt import Launch

_THREADS = 40
_HUGE = 2**63 + 5


@kd.kernel
def shifted(x, out):
    i = kd.grid(1)
    place = i - 1
    out[i] = x[place]


@kd.kernel
def negated(x, out):
    i = kd.grid(1)
    out[i] = -x[i]


@kd.kernel
def negated_constant(x, out):
    i = kd.grid(1)
    out[i] = x[i] + -np.uint64(9223372036854775813)


@kd.kernel
def quotients(x, out):
    i = kd.grid(1)
    out[i] = i // x[i]


@kd.kernel
def sums(x, out):
    i = kd.threadIdx.x
    part = kd.shared.array(40, np.int64)
    part[i] = x[i]
    kd.syncthreads()
    total = 0
    for k in range(3):
        total += part[(i + k) % 40] * k
    out[i] = total


def _value(function: Function, name: str) -> Value:
    """Return what a variable holds."""
    values = (value for each in function.body.walk() for value in each.results)
    return next(value for value in values if value.name == name)


def _run(kernel: Any, *arrays: np.ndarray, watch: Any = None) -> None:
    spec = specialized(kernel, arrays, block=(_THREADS,))
    function, intervals = after_passes(spec)
    given = watch_of(function, intervals) if watch is None else watch(function)
    run(function, Launch(1, _THREADS), arrays, given)


def _arrays(dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(_THREADS).astype(dtype), np.zeros(_THREADS, np.int64)


def test_threads_exchange_by_shared_memory() -> None:
    x, out = _arrays(np.int64)
    _run(sums, x, out)
    assert (out == [sum((i + k) % 40 * k for k in range(3)) for i in range(40)]).all()


def test_a_wrong_interval_is_found() -> None:
    def watch(function: Function) -> AnalysisWatch:
        return AnalysisWatch({_value(function, "place"): (0, 100)})

    with pytest.raises(WrongAnalysisError, match=r"is -1, not in \(0, 100\)"):
        _run(shifted, *_arrays(np.int64), watch=watch)


def test_a_value_that_is_wrongly_called_uniform_is_found() -> None:
    def watch(function: Function) -> AnalysisWatch:
        return AnalysisWatch({}, {_value(function, "place"): Scope.WARP})

    with pytest.raises(WrongAnalysisError, match="differs in one WARP"):
        _run(shifted, *_arrays(np.int64), watch=watch)


def test_a_wrong_mark_of_an_index_is_found() -> None:
    x, out = _arrays(np.int64)
    spec = specialized(shifted, (x, out), block=(_THREADS,))
    function, _ = after_passes(spec)
    run(function, Launch(1, _THREADS), (x, out))
    assert out[0] == x[-1]
    for each in function.body.walk():
        if each.name == "array.load":
            each.attributes["nonnegative"] = (True,)
    with pytest.raises(WrongIndexError, match="-1 of 40"):
        run(function, Launch(1, _THREADS), (x, out))


def test_the_interval_of_a_negated_small_number_holds_the_smallest() -> None:
    x, out = _arrays(np.int8)
    x[3] = -128
    _run(negated, x, out)
    assert out[3] == -128


def test_an_integer_constant_is_negated_in_its_type() -> None:
    x, out = _arrays(np.uint64)
    out = out.astype(np.uint64)
    _run(negated_constant, x, out)
    assert (out == x - np.uint64(_HUGE)).all()
    written = as_written(specialized(negated_constant, (x, out), block=(_THREADS,)))
    known = ranges_of(written)
    assert all(low >= 0 for value, (low, _) in known.items() if str(value.type) == "uint64")


def test_an_operand_that_changes_its_sign_has_the_interval_of_its_new_type() -> None:
    x, out = _arrays(np.uint64)
    x[...] = 2**64 - 3
    x[0] = 0
    _run(quotients, x, out)
    assert out[9] == 9 // -3


@kd.kernel
def chosen(x, out):
    i = kd.grid(1)
    number = np.uint64(7)
    both = x[i] % number if number == 4 else number | number
    out[i] = both


def test_a_called_type_is_no_constant_that_decides_a_branch() -> None:
    """A variable that may hold uint64 and signed integers is an int64, as Numba types it."""
    x, out = _arrays(np.int32)
    written = as_written(specialized(chosen, (x, out), block=(_THREADS,)))
    assert str(_value(written, "both").type) == "int64"
    _run(chosen, x, out)
    assert (out == 7).all()


@kd.kernel
def never_left(x, out):
    i = kd.grid(1)
    found = 0
    for k in range(3):
        if 7 <= 6:
            break
        found += x[i] * k
    out[i] = found


def test_a_loop_that_nothing_leaves_is_as_uniform_as_its_results() -> None:
    x, out = _arrays(np.int64)
    _run(never_left, x, out)
    assert (out == 3 * x).all()


@kd.kernel
def places_in_loops(x, out):
    i = kd.grid(1)
    total = 0
    for p in range(3):
        for n in range(2):
            for m in range(2):
                if n + m < i:
                    at = n + i % 7, m + p
                    total += x[at[0]] * 10 + x[at[1]]
    out[i] = total


@kd.kernel
def last_place(x, out):
    i = kd.grid(1)
    total = 0
    for p in range(3):
        for n in range(2):
            if n <= i:
                at = n + i % 7, p
        total += x[at[0]] * 10 + x[at[1]]
    out[i] = total + at[1]


@kd.kernel
def place_of_earlier_turn(x, out):
    i = kd.grid(1)
    total, k = 0, 0
    at = 0, 1
    while k < 4:
        for n in range(2):
            if n + k > i:
                break
            total += at[0] * 3 + at[1]
            at = at[1] + n, at[0]
        k += 1
    out[i] = total + at[0]


@pytest.mark.parametrize("kernel", [places_in_loops, last_place, place_of_earlier_turn])
def test_tuples_of_nested_loops(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = _arrays(np.int64)
    _run(kernel, x, out)
    expected = np.zeros_like(out)
    for i in range(_THREADS):
        monkeypatch.setattr(kd, "grid", lambda ndim, i=i: i)
        kernel.function(x, expected)
    assert (out == expected).all()


@kd.kernel
def unsigned(x, y, out):
    i = kd.grid(1)
    one, count = np.uint64(x[i]), np.uint64(y[i] & np.uint32(31))
    small = (one >> np.uint64(60)) + np.uint64(4)
    less = small - np.uint64(7)
    total = np.uint64(1)
    for _ in range(4):
        total = total * np.uint64(2**20 + 3) + small
        small = (small << count) ^ (one & np.uint64(255))
    rest = one % np.uint64(1000) // np.uint64(7) | count
    out[i] = total ^ less ^ (rest * small) ^ (~count >> count) ^ max(rest, np.uint64(9))


def test_intervals_of_unsigned_numbers_hold() -> None:
    x = np.array([0, 1, 2**32 - 1, 2**63, 2**64 - 1] * 8, np.uint64)
    y, out = np.arange(40).astype(np.uint32), np.zeros(40, np.uint64)
    _run(unsigned, x, y, out)
    written = as_written(specialized(unsigned, (x, y, out), block=(_THREADS,)))
    known = ranges_of(written)
    assert known[_value(written, "small")] == (4, 19)
    assert known[_value(written, "less")] == (0, 2**64 - 1)
    assert known[_value(written, "rest")] == (0, 255)
