"""From a Python function to its normal form."""
# Kernels that are never run may hold what nobody should write.
# ruff: noqa: F841, RUF059, C416, PLC3002, UP031

from __future__ import annotations

import ast
import enum
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba import cuda, float32, njit

import kerneldsl as kd
from kerneldsl.errors import (
    KernelError,
    UndefinedAttributeError,
    UndefinedNameError,
    UnsupportedConstructError,
)
from kerneldsl.frontend.captured import ConstantArray
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.language.intrinsics.atomics import atomic
from kerneldsl.language.intrinsics.barriers import syncthreads
from kerneldsl.language.intrinsics.places import blockIdx

TILE = 16
SHAPE = (4, 5)
NUMBERS = [1.0, 2.0]
SCALE = np.float32(2.5)
BIG = 2**70
WEIGHTS = np.arange(3.0)
WEIGHTS.flags.writeable = False
WRITABLE = np.zeros(3)
CONFIG = SimpleNamespace(WIDTH=7, deep=SimpleNamespace(PAIR=(1, 2.5)))
SOMETHING = object()


class Color(enum.IntEnum):
    RED = 1


class Mode(enum.Enum):
    FAST = "fast"


class Func:
    """Stands for a ``@kd.func`` object."""

    def __init__(self, function: Any) -> None:
        self.__kerneldsl_function__ = function


class Kernel(Func):
    """Stands for a ``@kd.kernel`` object."""

    __kerneldsl_kernel__ = True


@Func
def scale(value, factor=2.0, offset=SCALE):
    """Double."""
    return value * factor + offset + TILE


@Func
def outer(x: float) -> float:
    return scale(x)


@Func
def recursive(n):
    return even(n - 1)


@Func
def even(n):
    return recursive(n - 1)


@njit
def plain_numba(x):
    values = [i for i in range(3)]
    return x + values[0] + helper_numba(x)


@njit
def helper_numba(x):
    return x * TILE


@cuda.jit(device=True)
def cuda_device(x):
    return x + cuda.threadIdx.x


@Kernel
def other_kernel(x):
    x[0] = 1


def body(function: Any) -> str:
    return ast.unparse(make_unit(function).tree.body)


def refusal(
    function: Any, at: str, kind: type[KernelError] = UnsupportedConstructError
) -> KernelError:
    """The error of a function, whose caret must stand under *at*."""
    with pytest.raises(kind) as caught:
        make_unit(function)
    error = caught.value
    assert error.where is not None
    assert error.where.filename == __file__
    shown = error.where.line[error.where.col_offset : error.where.end_col_offset]
    assert shown == at
    assert error.remedy
    return error


# What is resolved


def test_intrinsics_become_calls_of_reserved_names():
    def kernel(x):
        """A docstring."""
        i: int = kd.grid(1)
        a, b = kd.grid(ndim=2)
        if kd.laneid < kd.warpsize and blockIdx.x == 0:
            atomic.add(value=x[i], array=x, index=0)
        syncthreads()
        kd.syncwarp()

    unit = make_unit(kernel)
    assert unit.source() == (
        "def kernel(x):\n"
        "    i = kd_grid_0()\n"
        "    a, b = kd_grid_1()\n"
        "    if kd_laneid_0() < kd_warpsize_0() and kd_blockIdx_x_0() == 0:\n"
        "        kd_atomic_add_0(x, 0, x[i])\n"
        "    kd_syncthreads_0()\n"
        "    kd_syncwarp_0(4294967295)"
    )
    assert unit.uses["kd_grid_0"].static == {"ndim": 1}
    assert unit.uses["kd_grid_1"].static == {"ndim": 2}
    assert unit.parameters == ("x",)


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (np.float32, "float32"),
        (np.dtype("int16"), "int16"),
        (float32, "float32"),
        (float, "float64"),
        (int, "int64"),
        (bool, "bool"),
        ("uint8", "uint8"),
        (complex, "complex128"),
    ],
)
def test_static_arguments(dtype: Any, name: str):
    rows = 3

    def kernel(x):
        n = TILE + 1
        a = kd.shared.array((TILE, TILE + 1), dtype)
        b = kd.local.array(shape=SHAPE[1] * rows, dtype=dtype)
        c = kd.shared.array(0, dtype)
        d = kd.local.array(min(n, 4) if CONFIG.WIDTH > 3 else len(SHAPE), dtype)

    unit = make_unit(kernel)
    shapes = [use.static["shape"] for use in unit.uses.values()]
    assert shapes == [(16, 17), (15,), (0,), (4,)]
    assert {use.static["dtype"] for use in unit.uses.values()} == {name}
    assert {"TILE", "SHAPE", "rows", "dtype"} <= {c.path for c in unit.captured}


def test_numba_cuda_names_mean_ours():
    def kernel(x):
        s = cuda.shared.array(shape=(2, 2), dtype=float32)
        i = cuda.grid(1) + cuda.threadIdx.x + cuda.laneid
        cuda.atomic.add(x, i, 1)
        cuda.atomic.compare_and_swap(x, 0, val=2)
        cuda.atomic.nanmax(ary=x, idx=0, val=1)
        cuda.syncthreads()
        cuda.threadfence()
        x[0] = cuda_device(i)

    names = [use.intrinsic.name for use in make_unit(kernel).uses.values()]
    assert names == [
        "shared.array", "grid", "threadIdx.x", "laneid", "atomic.add", "atomic.cas", "atomic.max",
        "syncthreads", "threadfence",
    ]  # fmt: skip
    assert "kd_atomic_cas_0(x, 0, 0, 2)" in body(kernel)
    assert (
        make_unit(kernel).callees["cuda_device"].source().endswith("return x + kd_threadIdx_x_0()")
    )


def test_constants():
    local = 3

    def kernel(x):
        x[0] = TILE + local + CONFIG.WIDTH + CONFIG.deep.PAIR[1] + math.pi + SCALE
        x[1] = WEIGHTS[0] + WEIGHTS.shape[0] + Color.RED + np.float32(1) + CONFIG.WIDTH

    unit = make_unit(kernel)
    assert {n: c.value for n, c in unit.constants.items() if n != "WEIGHTS"} == {
        "TILE": 16,
        "local": 3,
        "CONFIG_WIDTH": 7,
        "CONFIG_deep_PAIR": (1, 2.5),
        "math_pi": math.pi,
        "SCALE": SCALE,
        "Color_RED": 1,
    }
    assert type(unit.constants["Color_RED"].value) is int
    assert unit.namespace == {"np": np}
    assert "CONFIG_deep_PAIR[1]" in unit.source()
    assert "WEIGHTS.shape[0]" in unit.source()
    assert all(c.read() is c.value for c in unit.captured)


def test_captured_values_are_read_again():
    size = 300

    def kernel(x):
        x[0] = size + CONFIG.WIDTH

    by_path = {c.path: c for c in make_unit(kernel).captured}
    size = int("300")
    assert by_path["size"].read() is by_path["size"].value  # an equal value is no change
    size = 301
    assert by_path["size"].read() == 301
    old = CONFIG.WIDTH
    try:
        CONFIG.WIDTH = 7.0
        assert type(by_path["CONFIG.WIDTH"].read()) is float
        del CONFIG.WIDTH
        with pytest.raises(NameError):
            by_path["CONFIG.WIDTH"].read()
    finally:
        CONFIG.WIDTH = old


def test_locals_hide_outer_names():
    def kernel(x, TILE):
        math = x
        x[0] = TILE + math.size

    unit = make_unit(kernel)
    assert unit.constants == {}
    assert unit.namespace == {}


def test_device_functions():
    def kernel(x):
        x[0] = scale(factor=3, value=x[1]) + scale(x[0], offset=1) + outer(1.0)

    unit = make_unit(kernel)
    assert "scale(x[1], 3, scale_offset) + scale(x[0], 2.0, 1) + outer(1.0)" in unit.source()
    assert unit.constants["scale_offset"].value is SCALE
    assert unit.callees["outer"].callees["scale"] is unit.callees["scale"]
    assert unit.callees["scale"].source() == (
        "def scale(value, factor, offset):\n    return value * factor + offset + TILE"
    )
    paths = [c.path for c in unit.captured]
    assert "scale" in paths
    assert "TILE" in paths
    assert next(u.name for u in unit.reachable()) == "kernel"


def test_numba_functions_are_left_as_they_are():
    def kernel(x):
        x[0] = plain_numba(x[1])

    callee = make_unit(kernel).callees["plain_numba"]
    assert callee.is_plain_numba
    assert "[i for i in range(3)]" in callee.source()
    assert callee.callees["helper_numba"].constants["TILE"].value == 16
    assert callee.function is plain_numba.py_func


def test_messages_become_text():
    def kernel(x, n):
        if n > 3:
            raise ValueError(f"n is {n} of {TILE}")
        if n > 2:
            raise KeyError
        assert n, "none"
        print("n", n)

    text = body(kernel)
    assert "raise ValueError('n is {n} of {TILE}')" in text
    assert "raise KeyError()" in text
    assert "assert n, 'none'" in text


def test_constant_arrays_are_captured_arrays():
    def kernel(x):
        y = kd.const.array_like(WEIGHTS)
        x[0] = y[1] + cuda.const.array_like(WEIGHTS)[2]

    unit = make_unit(kernel)
    assert "y = WEIGHTS\n" in unit.source()
    assert "WEIGHTS[2]" in unit.source()
    assert not unit.uses
    assert type(unit.constants["WEIGHTS"].value) is ConstantArray


# What is refused


def test_unsupported_constructs_name_their_place_and_a_remedy():
    def tries(x):
        try:
            x[0] = 1
        except ValueError:
            x[0] = 2

    def comprehends(x):
        x[0] = sum([v for v in (1, 2)])

    def formats(x):
        print(f"{x}")

    def nests(x):
        class Inner:
            y = 1

        x[0] = Inner.y

    def lambdas(x):
        x[0] = (lambda y: y)(1)

    def stars(x):
        a, *b = x

    def walrus(x):
        if (y := x[0]) > 1:
            x[0] = y

    def percent(x):
        print("%d" % x[0])

    def reserved(x):
        kd_i = 1
        x[kd_i] = 1

    assert "list comprehension" in refusal(comprehends, "[v for v in (1, 2)]").what
    assert "f-string" in refusal(formats, 'f"{x}"').what
    assert "lambda" in refusal(lambdas, "lambda y: y").what
    assert "*" in refusal(stars, "*b").what
    assert ":=" in refusal(walrus, "y := x[0]").what
    assert "string formatting" in refusal(percent, '"%d" % x[0]').what
    assert "kd_" in refusal(reserved, "kd_i").what
    for function, word in ((tries, "try/except"), (nests, "a class")):
        with pytest.raises(UnsupportedConstructError, match=word):
            make_unit(function)


def test_parameters_and_results():
    def default(x, n=3):
        x[0] = n

    def star(**args):
        pass

    def keyword(x, *, n):
        pass

    def returns(x):
        return x[0]

    refusal(default, "3")
    assert "*parameter" in refusal(star, "args").what
    refusal(keyword, "n")
    assert "returns a value" in refusal(returns, "return x[0]").what


def test_names_and_calls():
    def undefined(x):
        x[0] = nowhere  # noqa: F821

    def misspelled(x):
        x[0] = TILES  # noqa: F821

    def too_early(x):
        x[0] = later

    def attribute(x):
        x[0] = CONFIG.HEIGHT

    def bare_group(x):
        x[0] = kd.atomic

    def bare_foreign(x):
        x[0] = cuda.atomic

    def bare_function(x):
        f = kd.grid

    def read_called(x):
        x[0] = kd.threadIdx.x()

    def no_arguments(x):
        x[0] = kd.grid()

    def too_many(x):
        kd.syncthreads(1)

    def unknown_keyword(x):
        kd.atomic.add(x, 0, by=1)

    def host_function(x):
        x[0] = kd.to_device(x)

    def kernel_called(x):
        other_kernel(x)

    def uncalled(x):
        f = scale

    def wrong_arity(x):
        x[0] = scale()

    def is_recursive(x):
        x[0] = recursive(3)

    def matches(x):
        x[0] = cuda.shfl_sync_intrinsic(0xFFFFFFFF, 0, x[0], 0, 31)

    def const_array(x):
        y = cuda.const.array_like(x)

    def const_tuple(x):
        y = kd.const.array_like((1, 2))

    def const_part(x):
        y = kd.const.array_like(WEIGHTS[::-1])

    def const_list(x):
        y = kd.const.array_like(NUMBERS)

    error = refusal(undefined, "nowhere", UndefinedNameError)
    assert "nowhere is not defined" in error.what
    assert isinstance(error, NameError)
    assert not isinstance(error, SyntaxError)
    error = refusal(attribute, "CONFIG.HEIGHT", UndefinedAttributeError)
    assert "HEIGHT" in error.what
    assert isinstance(error, AttributeError)
    assert not isinstance(error, SyntaxError)
    assert "the closest name is TILE" in refusal(misspelled, "TILES", UndefinedNameError).remedy
    assert "no value yet" in refusal(too_early, "later", UndefinedNameError).what
    later = 1
    assert "kd.atomic.add" in str(refusal(bare_group, "kd.atomic").remedy)
    assert "kd.atomic.cas" in str(refusal(bare_foreign, "cuda.atomic").remedy)
    refusal(bare_function, "kd.grid")
    refusal(read_called, "kd.threadIdx.x()")
    refusal(no_arguments, "kd.grid()")
    assert "0 arguments" in refusal(too_many, "kd.syncthreads(1)").what
    refusal(unknown_keyword, "by=1")
    assert "for the host" in refusal(host_function, "kd.to_device").what
    assert "kernel" in refusal(kernel_called, "other_kernel(x)").what
    refusal(uncalled, "scale")
    assert "value not given" in refusal(wrong_arity, "scale()").what
    with pytest.raises(UnsupportedConstructError, match="recursive → even → recursive"):
        make_unit(is_recursive)
    assert "kd.shfl_sync" in str(refusal(matches, "cuda.shfl_sync_intrinsic").remedy)
    assert "kd.local.array" in str(refusal(const_array, "x").remedy)
    for refused, shown in (
        (const_tuple, "(1, 2)"),
        (const_part, "WEIGHTS[::-1]"),
        (const_list, "NUMBERS"),
    ):
        error = refusal(refused, shown)
        assert f"array_like was given {shown}" in error.what
        assert f"Write table = np.asarray({shown}) outside the kernel" in error.remedy


def test_captured_values_that_are_no_constants():
    def writable(x):
        x[0] = WRITABLE[0]

    def big(x):
        x[0] = BIG

    def unknown(x):
        x[0] = SOMETHING

    constant = make_unit(writable).constants["WRITABLE"].value
    assert constant is not WRITABLE
    assert not constant.flags.writeable
    assert "64-bit" in refusal(big, "BIG").what
    assert "which is of type object" in refusal(unknown, "SOMETHING").what


def test_static_arguments_must_be_constant_and_possible():
    def of_argument(x, n):
        kd.shared.array(n, np.float32)

    def negative(x):
        kd.local.array((2, -TILE), np.float32)

    def rank_four(x):
        kd.local.array((1, 1, 1, 1), np.float32)

    def bad_dtype(x):
        kd.local.array(3, "longdouble")

    def of_float(x):
        kd.local.array(2.5, np.float32)

    def four(x):
        kd.grid(4)

    def reassigned(x):
        n = 3
        n = 4
        kd.local.array(n, np.float32)

    assert "kd.shared.array(0, dtype)" in str(refusal(of_argument, "n").remedy)
    refusal(negative, "(2, -TILE)")
    assert "4 dimensions" in refusal(rank_four, "(1, 1, 1, 1)").what
    assert "float32" in str(refusal(bad_dtype, '"longdouble"').remedy)
    refusal(of_float, "2.5")
    refusal(four, "4")
    refusal(reassigned, "n")


def test_the_shuffles_of_numba_cuda_are_ours():
    """They are device functions that numba.cuda has compiled itself, not the user's."""

    def shuffles(x):
        x[0] = cuda.shfl_down_sync(mask=-1, value=x[0], delta=2)

    unit = make_unit(shuffles)
    assert [use.intrinsic.name for use in unit.uses.values()] == ["shfl_down_sync"]
    assert "kd_shfl_down_sync_0(-1, x[0], 2)" in ast.unparse(unit.tree)


def test_branches_that_constants_close_are_dropped():
    flag, dim, name = False, 2, None
    if flag:
        missing = 1  # a cell without a value

    @njit
    def inner(x):
        if flag:
            return x + missing
        return x

    def kernel(x, n):
        if flag or dim > 2:
            x[0] = missing
        elif name is None and n > 1:
            x[1] = inner(dim)
        if not flag:
            x[2] = 1
        else:
            x[3] = undefined  # noqa: F821
        if flag:
            x[4] = missing

    unit = make_unit(kernel)
    expected = "if name is None and n > 1:\n    x[1] = inner(dim)\nx[2] = 1\npass"
    assert ast.unparse(unit.tree.body) == expected
    assert {each.path for each in unit.captured} >= {"flag", "dim", "name"}

    def called(x):
        if plain_numba != None:  # noqa: E711
            x[0] = 1
        if name != None:  # noqa: E711
            x[1] = plain_numba(1)
        if inner is None:
            x[2] = 1

    assert "x[2]" not in body(called)
    assert "if plain_numba" not in body(called)

    def watched(x):
        if flag:
            x[0] = 1

    unit = make_unit(watched)
    flag = True
    assert [each.read() for each in unit.captured] == [True]


def test_branches_that_a_type_or_a_thread_decides_stay():
    scale, word = np.float32(0.1), "on"

    def kernel(x, n):
        if scale == 0.1:  # float32 and float64 for a compiler, but not for NumPy
            x[0] = 1
        if n > 1 and word == "off":
            x[1] = 1
        if n:
            x[2] = 1

    assert body(kernel).count("if ") == 3
