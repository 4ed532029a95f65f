"""Debug mode: exceptions in kernels reach the host with their place."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import KernelFault


@kd.kernel(debug=True)
def read_beyond(x, out, shift):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i + shift]  # beyond


@kd.kernel(debug=True)
def write_beyond_2d(out, row):
    x, y = kd.grid(2)
    out[y + row, x] = 1.0  # beyond


@kd.kernel(debug=True)
def assert_positive(x):
    i = kd.grid(1)
    if i < x.size:
        assert x[i] > 0, "must be positive"  # asserts


@kd.kernel(debug=True)
def refuse(x, bad):
    i = kd.grid(1)
    if i < x.size and x[i] == bad:
        raise ValueError("bad element")  # raises


def _line(kernel: kd.Kernel, comment: str) -> int:
    lines, first = inspect.getsourcelines(kernel.__wrapped__)
    return first + next(i for i, line in enumerate(lines) if f"# {comment}" in line)


def test_a_clean_launch_raises_nothing() -> None:
    x = kd.to_device(np.arange(100.0))
    out = kd.zeros(100)
    read_beyond[4, 32](x, out, 0)
    assert out.copy_to_host().tolist() == list(range(100))


def test_an_index_out_of_range() -> None:
    x, out = kd.to_device(np.arange(100.0)), kd.zeros(100)
    with pytest.raises(IndexError) as caught:
        read_beyond[4, 32](x, out, 1)
    fault = caught.value
    assert isinstance(fault, KernelFault)
    assert fault.where is not None
    assert fault.where.lineno == _line(read_beyond, "beyond")
    assert (fault.block_idx, fault.thread_idx) == ((3, 0, 0), (3, 0, 0))
    assert "100" in str(fault)  # the index, and the bound
    assert out.copy_to_host()[:99].tolist() == list(range(1, 100))


def test_an_index_out_of_range_along_one_axis() -> None:
    out = kd.zeros((8, 16))
    with pytest.raises(IndexError, match=r"Index 8 .* axis 0 of out") as caught:
        write_beyond_2d[(2, 2), (8, 4)](out, 1)
    fault = caught.value
    assert isinstance(fault, KernelFault)
    assert fault.block_idx[1] == 1
    assert fault.thread_idx[1] == 3


def test_negative_indices_count_from_the_end() -> None:
    x, out = kd.to_device(np.arange(100.0)), kd.zeros(10)
    read_beyond[1, 32](x, out, -10)
    assert out.copy_to_host().tolist() == list(range(90, 100))
    with pytest.raises(IndexError, match="Index -101 "):
        read_beyond[1, 32](x, out, -101)


def test_assert() -> None:
    values = np.ones(70)
    values[69] = -1
    with pytest.raises(AssertionError, match="must be positive") as caught:
        assert_positive[3, 32](kd.to_device(values))
    fault = caught.value
    assert isinstance(fault, KernelFault)
    assert fault.where is not None
    assert fault.where.lineno == _line(assert_positive, "asserts")
    assert (fault.block_idx, fault.thread_idx) == ((2, 0, 0), (5, 0, 0))


def test_raise() -> None:
    with pytest.raises(ValueError, match="bad element") as caught:
        refuse[2, 32](kd.to_device(np.arange(40)), 33)
    fault = caught.value
    assert isinstance(fault, KernelFault)
    assert fault.where is not None
    assert fault.where.lineno == _line(refuse, "raises")
    assert (fault.block_idx, fault.thread_idx) == ((1, 0, 0), (1, 0, 0))


def test_one_of_many_faults_is_reported_whole() -> None:
    values = -np.ones(1 << 20)
    with pytest.raises(AssertionError, match="must be positive") as caught:
        assert_positive[(1 << 20) // 256, 256](kd.to_device(values))
    fault = caught.value
    assert isinstance(fault, KernelFault)
    assert 0 <= fault.block_idx[0] < 4096
    assert 0 <= fault.thread_idx[0] < 256


def test_the_device_is_usable_after_a_fault() -> None:
    with pytest.raises(IndexError):
        read_beyond[1, 32](kd.zeros(4), kd.zeros(8), 0)
    out = kd.zeros(4)
    read_beyond[1, 32](kd.to_device(np.arange(4.0)), out, 0)
    assert out.copy_to_host().tolist() == [0, 1, 2, 3]


@kd.kernel(debug=False)
def unchecked(x):
    i = kd.grid(1)
    if i < x.size:
        assert x[i] > 0
        x[i] += 1


def test_without_debug_mode_assertions_are_compiled_out() -> None:
    x = kd.zeros(10)
    unchecked.forall(10)(x)
    assert x.copy_to_host().tolist() == [1.0] * 10
