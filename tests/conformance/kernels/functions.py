"""Device functions, plain Numba functions and captured constants."""

from __future__ import annotations

import enum
import math
from typing import NamedTuple

import numba
import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned, random_array
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("functions")
CASES = _list.cases

FACTOR = 3
OFFSETS = (1, -2, 5)
SCALE = np.float32(0.5)
TABLE = np.array([2, 3, 5, 7, 11, 13], np.int64)
TABLE.setflags(write=False)


class Settings:
    """Constants behind attributes."""

    WIDTH = 6
    SHIFT = 2


def _ints(rng):
    return rng.integers(-50, 50, 101), poisoned(101, np.int64)


@kd.func
def square(x):
    return x * x


@kd.func
def polynomial(x, a, b):
    return a * square(x) + b


@kd.func
def clamp(x, low, high):
    if x < low:
        return low
    if x > high:
        return high
    return x


@kd.func
def divide(x, y):
    return x // y, x % y


@kd.func
def store(array, i, value):
    array[i] = value


@kd.func
def place():
    return kd.blockIdx.x * kd.blockDim.x + kd.threadIdx.x


@kd.func
def bump(counter, k):
    return kd.atomic.add(counter, k, 1)


@kd.kernel
def device_functions(x, out):
    i = kd.grid(1)
    q, r = divide(x[i], 7)
    store(out, i, polynomial(x[i], q, r) + clamp(x[i], -10, 10))


_list.add("device_functions", device_functions, _ints, extent=(101,))


@kd.kernel
def one_function_two_types(x, out):
    i = kd.grid(1)
    out[i] = np.int64(square(np.float64(x[i])) + square(x[i]) + square(np.int8(2)))


_list.add("one_function_two_types", one_function_two_types, _ints, extent=(101,))


@kd.kernel
def intrinsics_in_functions(x, out, counter):
    i = place()
    if i < x.size:
        bump(counter, i % 3)
        out[i] = x[i]


def _counter(rng):
    return *_ints(rng), np.zeros(3, np.int32)


_list.add("intrinsics_in_functions", intrinsics_in_functions, _counter, grid=(4,), block=(32,))


@numba.njit
def greatest_common_divisor(a, b):
    while b:
        a, b = b, a % b
    return a


@numba.njit
def norm(a, b):
    return math.sqrt(a * a + b * b)


@kd.kernel
def plain_numba_callees(x, out):
    i = kd.grid(1)
    n = norm(3.0 * x[i], 4.0 * x[i])
    out[i] = greatest_common_divisor(abs(x[i]), 36) + np.int64(n)


_list.add("plain_numba_callees", plain_numba_callees, _ints, extent=(101,))


@kd.kernel
def captured_constants(x, out):
    i = kd.grid(1)
    out[i] = x[i] * FACTOR + OFFSETS[1] + Settings.WIDTH * i + len(OFFSETS)


_list.add("captured_constants", captured_constants, _ints, extent=(101,))


class Mode(enum.IntEnum):
    """Members that are integers."""

    SLOW = 2
    FAST = 5


class Option(enum.IntFlag):
    """Flags that are integers."""

    SIGN = 1
    SHIFT = 4


class Unit(enum.Enum):
    """Members that have a value."""

    METRE = 7


class Limits(NamedTuple):
    """Constants by name."""

    low: int
    high: int


MODE, OPTIONS, LIMITS = Mode.FAST, Option.SIGN | Option.SHIFT, Limits(-20, 30)


@kd.kernel
def captured_enums(x, out):
    i = kd.grid(1)
    value = min(max(x[i], LIMITS.low), LIMITS[1])
    if MODE == Mode.FAST:
        value *= Mode.SLOW
    if OPTIONS & Option.SIGN:
        value = -value
    out[i] = (value << (Option.SHIFT | Option.SIGN)) + Unit.METRE.value


_list.add("captured_enums", captured_enums, _ints, extent=(101,))


@kd.kernel
def captured_in_tuple_loop(x, out):
    i = kd.grid(1)
    total = 0
    for k in range(3):
        total += OFFSETS[k] * x[i]
    out[i] = total


_list.add("captured_in_tuple_loop", captured_in_tuple_loop, _ints, extent=(101,))


@kd.kernel
def captured_scalar(x, out):
    i = kd.grid(1)
    out[i] = x[i] * SCALE


_list.add(
    "captured_scalar",
    captured_scalar,
    lambda rng: (random_array(rng, 101, np.float32), poisoned(101, np.float32)),
    extent=(101,),
)


@kd.kernel
def captured_table(x, out):
    i = kd.grid(1)
    out[i] = TABLE[i % 6] + TABLE[x[i] % 6] * TABLE.size


_list.add("captured_table", captured_table, _ints, extent=(101,))


@kd.kernel
def captured_shape(x, out):
    s = kd.shared.array((Settings.WIDTH, FACTOR), np.int64)
    t = kd.threadIdx.x
    i = kd.grid(1)
    s[t // FACTOR, t % FACTOR] = x[i]
    kd.syncthreads()
    r = kd.blockDim.x - 1 - t
    out[i] = s[r // FACTOR, r % FACTOR]


def _eighteen(rng):
    return rng.integers(-50, 50, 36), poisoned(36, np.int64)


_list.add("captured_shape", captured_shape, _eighteen, grid=(2,), block=(18,))


def _closure(offset, function):
    @kd.kernel
    def with_closure(x, out):
        i = kd.grid(1)
        out[i] = function(x[i]) + offset

    return with_closure


_list.add("closure_square", _closure(5, square), _ints, extent=(101,))


@kd.func
def negate(x):
    return -x


_list.add("closure_negate", _closure(7, negate), _ints, extent=(101,))


@kd.func
def steps_to_one(n, most):
    """Return out of a loop that each thread leaves after rounds of its own."""
    for step in range(most):
        if n <= 1:
            return step
        n = n // 2 if n % 2 == 0 else 3 * n + 1
    return most


@kd.func
def place_of_nearest(value, values):
    """Go through what all threads go through."""
    best, least = -1, math.inf
    for k in range(values.size):
        apart = abs(values[k] - value)
        if apart < least:
            best, least = k, apart
    return best


@kd.kernel
def loops_in_functions(x, out):
    i = kd.grid(1)
    n = abs(x[i]) + 1
    near = place_of_nearest(steps_to_one(n, 60), x)
    out[i] = near * 1000 + steps_to_one(near + i, n)


_list.add("loops_in_functions", loops_in_functions, _ints, extent=(101,))


@kd.kernel("int64[::1], int64[::1]")
def explicit_signature(x, out):
    i = kd.grid(1)
    out[i] = x[i] + 1


_list.add("explicit_signature", explicit_signature, _ints, extent=(101,))


@kd.kernel
def values_in_place_of_a_tuple(x, out):
    i = kd.grid(1)
    if i < x.size:
        both = divide(x[i], 7)
        more = (*both, 3, *OFFSETS)
        z = complex(*both)
        out[i] = max(*both) + min(*both, 2) + more[1] * len(more) + np.int64(z.imag)


_list.add("values_in_place_of_a_tuple", values_in_place_of_a_tuple, _ints, extent=(101,))


@kd.kernel
def three_indices_in_a_tuple(out):
    thread, block = kd.threadIdx, kd.blockIdx
    x, y, z = kd.blockDim
    i = thread.x + x * (thread[1] + y * thread.z) + block.x * x * y * z
    out[i] = thread.x + 10 * thread.y + 100 * thread.z + 1000 * len(kd.gridDim)


def _three_indices(out):
    t = np.arange(24)
    found = t % 4 + 10 * (t // 4 % 3) + 100 * (t // 12) + 3000
    return {0: np.concatenate([found, found])}


_list.add(
    "three_indices_in_a_tuple",
    three_indices_in_a_tuple,
    lambda rng: (poisoned(48, np.int64),),
    grid=(2,),
    block=(4, 3, 2),
    expected=_three_indices,
)


@kd.kernel
def values_of_several_types(x, out):
    i = kd.grid(1)
    if i >= x.size:
        return
    total = 0
    for number, each in enumerate((x[i], np.float32(1.5), np.int8(-2), x[i] > 0, 2.5)):
        if number == 3:
            continue
        if number == 4 and x[i] < -40:
            break
        total += np.int64(each)
    for each in (np.int16(7), 2.0):
        total += np.int64(each * each)
    out[i] += total


_list.add(
    "values_of_several_types",
    values_of_several_types,
    lambda rng: (rng.integers(-50, 50, 101), np.zeros(101, np.int64)),
    extent=(101,),
)
