"""Debug mode in code from the region IR: faults name their place, thread and block."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kerneldsl as kd


@kd.kernel(debug=True)
def read_beyond(x, out):
    i, j = kd.grid(2)
    out[i, j] = x[i, j + 1]


def test_an_element_names_its_thread_and_block() -> None:
    x = np.zeros((6, 9))
    with pytest.raises(IndexError, match="Index 9 is out of range for axis 1 of x") as caught:
        read_beyond[(3, 3), (2, 3)](x, np.zeros_like(x))
    assert caught.value.block_idx == (0, 2, 0)
    assert caught.value.thread_idx == (0, 2, 0)


@kd.kernel(debug=True)
def fail_after_barrier(x, out):
    own = kd.shared.array(64, np.int64)
    t = kd.threadIdx.y * kd.blockDim.x + kd.threadIdx.x
    own[t] = x[t]
    kd.syncthreads()
    if own[63 - t] == 11:
        raise ValueError("eleven")
    out[t] = own[63 - t]


def test_a_thread_of_a_block_names_itself() -> None:
    x = np.arange(64)
    with pytest.raises(ValueError, match="eleven") as caught:
        fail_after_barrier[2, (16, 4)](x, np.zeros_like(x))
    assert caught.value.thread_idx == (52 % 16, 52 // 16, 0)
    out = np.zeros_like(x)
    fail_after_barrier[1, (16, 4)](x + 100, out)
    assert np.array_equal(out, x[::-1] + 100)


@kd.func
def guarded_sum(a, b):
    assert a < 1000
    return a + b


@kd.kernel(debug=True)
def sum_block(x, out):
    t = kd.threadIdx.x
    out[t] = kd.block.reduce(x[t], guarded_sum)


def test_what_a_block_combines_is_not_checked() -> None:
    x, out = np.full(64, 900), np.zeros(64, np.int64)
    sum_block[1, 64](x, out)
    assert np.all(out == 64 * 900)


@kd.kernel
def of_one_thread(out):
    out[0] = kd.laneid + 5


def test_an_id_of_a_block_of_one_thread_is_a_constant() -> None:
    out = np.zeros(1, np.int64)
    of_one_thread[1, 1](out)
    assert out[0] == 5


@kd.func
def rest_of(x):
    return x[1:]


@kd.kernel(debug=True)
def read_what_calls_return(x, out, way):
    i = kd.threadIdx.x
    if way == 0:
        out[0] = rest_of(x)[i]
    elif way == 1:
        out[0] = x.reshape((3, 4))[1, i]
    elif way == 2:
        out[0] = kd.view(x, kd.float64x2)[i].x
    elif way == 4:
        out[0] = x[min(i, 8) :][i]


@pytest.mark.parametrize(
    ("way", "array", "index"),
    [
        (0, "rest_of(x)", 11),
        (1, "x.reshape((3, 4))", 4),
        (2, "kd.view(x, kd.float64x2)", 6),
        (4, "x[min(i, 8) :]", 6),
    ],
)
def test_an_index_of_what_a_call_returns_is_checked(way: int, array: str, index: int) -> None:
    x = np.arange(12.0)
    with pytest.raises(IndexError, match=re.escape(f"Index {index} is out of range")) as caught:
        read_what_calls_return[1, index + 1](x, np.zeros(1), way)
    assert f" of {array} with extent " in str(caught.value)
