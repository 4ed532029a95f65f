"""What a launch, or a kernel's text, gets wrong, and what printing gets right."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import (
    ArgumentTypeError,
    KernelTypingError,
    LaunchConfigError,
    UnsupportedConstructError,
)


@kd.kernel
def scale(a, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i]


@kd.kernel
def reverses_block(x):
    s = kd.shared.array(0, kd.float64)
    t = kd.threadIdx.x
    s[t] = x[t]
    kd.syncthreads()
    x[t] = s[kd.blockDim.x - 1 - t]


@kd.kernel
def adds_arrays(x, out):
    y = x + x
    out[0] = y[0]


@kd.kernel
def ands_floats(out):
    kd.atomic.and_(out, 0, 1)


@kd.kernel
def indexes_by_float(out):
    kd.atomic.add(out, 0.5, 1.0)


@kd.kernel
def draws(out):
    out[kd.grid(1)] = random.random()


@pytest.fixture(autouse=True)
def on_the_cpu():
    with kd.use("cpu"):
        yield


def test_arguments_by_name():
    x, out = np.arange(8.0), np.full(8, np.nan)
    scale.forall(8)(2.0, out=out, x=x)
    np.testing.assert_array_equal(out, 2 * x)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"x": 1, "y": 2}, "'y' that it does not have"),
        ({"a": 1, "x": 1, "out": 1}, "'a' twice"),
        ({"x": 1}, "missing"),
    ],
)
def test_wrong_names(named, message):
    with pytest.raises(ArgumentTypeError, match=message):
        scale.forall(8)(2.0, **named)


def test_dynamic_shared_memory_needs_its_bytes():
    x = np.arange(32.0)
    with pytest.raises(LaunchConfigError, match="shared_bytes 0") as info:
        reverses_block[1, 32](x)
    assert "kernel[grid, block, stream, shared_bytes]" in str(info.value)
    np.testing.assert_array_equal(x, np.arange(32.0))
    reverses_block[1, 32, None, 32 * 8](x)
    np.testing.assert_array_equal(x, np.arange(32.0)[::-1])


def test_an_array_that_needs_memory_is_shown():
    with pytest.raises(KernelTypingError, match="cannot allocate, in `") as info:
        adds_arrays[1, 1](np.ones(3), np.ones(3))
    assert "y = x + x" in str(info.value)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (
            ands_floats,
            "kd.atomic.and_: the dtype must be one of int8, int16, int32, int64, uint8, uint16, "
            "uint32, uint64, and is float64",
        ),
        (
            indexes_by_float,
            "kd.atomic.add: the index must be an integer or a tuple of integers, and is float64",
        ),
    ],
)
def test_a_wrong_atomic_names_itself_and_its_line(kernel, message):
    with pytest.raises(KernelTypingError) as info:
        kernel[1, 1](np.zeros(3))
    assert message in str(info.value)
    assert "kd.atomic." in info.value.where.line


def test_random_numbers_are_refused():
    with pytest.raises(UnsupportedConstructError, match=r"kd\.random\."):
        draws[1, 1](np.zeros(3))


def test_print(tmp_path):
    script = tmp_path / "prints.py"
    script.write_text(
        textwrap.dedent(
            """
            import numpy as np
            import kerneldsl as kd

            NAME = "captured"

            @kd.func
            def tell(value):
                print("in a function", value)
                return value

            @kd.kernel
            def tells(x):
                s = kd.shared.array(2, kd.float64)
                t = kd.threadIdx.x
                s[t] = tell(x[t])
                kd.syncthreads()
                print("100%", t, s[1 - t], t < 1, NAME, -7)

            with kd.use("cpu"):
                tells[1, 2](np.array([1.5, -0.0]))
            """
        )
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.splitlines() == [
        "in a function 1.5",
        "in a function -0.0",
        "100% 0 -0.0 True captured -7",
        "100% 1 1.5 False captured -7",
    ]


SECOND = 1


@kd.kernel
def takes_the_second(pair, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = pair[SECOND]


def test_a_tuple_of_two_types_is_indexed_by_a_captured_constant():
    out = np.full(3, np.nan)
    takes_the_second.forall(3)((1, 2.5), out)
    np.testing.assert_array_equal(out, 2.5)
    text = takes_the_second.ptx("(int64, float64), float64[::1]", arch="sm_90")
    assert "st.global.b64" in text


@kd.kernel
def add_one_to_all(out):
    i, j = kd.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] += 1


def test_an_extent_of_too_many_blocks_is_said_as_it_was_given():
    with kd.use("cpu"), pytest.raises(kd.LaunchConfigError) as caught:
        add_one_to_all.forall(2**40, 2**40)(np.zeros((2, 2)))
    assert "forall over (1099511627776, 1099511627776) takes" in str(caught.value)
    assert "parts of the extent" in str(caught.value)
    assert "grid_dim" not in str(caught.value)
