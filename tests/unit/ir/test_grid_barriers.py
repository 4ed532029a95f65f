"""Barriers of the grid: how they are written, and refused where a thread might not reach one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import BarrierDivergenceError, UnsupportedConstructError
from tests.support.python_kernels import simulate
from tests.support.simt import DivergentBarrierError

cuda = pytest.importorskip("numba.cuda")


@kd.kernel
def under_an_index(x, n):
    if kd.blockIdx.x < n:
        kd.grid_group().sync()


@kd.kernel
def behind_a_return(x, n):
    i = kd.grid(1)
    if i >= n:
        return
    kd.grid_group().sync()


@kd.kernel
def behind_a_return_of_a_block(x, n):
    for _ in range(2):
        kd.grid_group().sync()
        if kd.blockIdx.x == n:
            return


@kd.kernel
def while_others_write(x, n):
    while x[0] < n:
        x[kd.grid(1)] += 1
        kd.grid_group().sync()


@kd.kernel
def under_shared_memory(x, n):
    s = kd.shared.array(1, np.int32)
    s[0] = x[0]
    kd.syncthreads()
    if s[0] < n:
        kd.grid_group().sync()


@kd.kernel
def under_a_sum_of_the_block(x, n):
    if kd.block.sum(x[0]) < n:
        kd.grid_group().sync()


@kd.kernel
def between_barriers_of_the_block(x, n):
    x[kd.grid(1)] = n
    kd.syncthreads()
    if x[0] < n:
        kd.grid_group().sync()


@kd.kernel
def under_a_promise_of_the_block(x, n):
    if kd.uniform(kd.blockIdx.x) < n:
        kd.grid_group().sync()


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (under_an_index, "the condition `kd.blockIdx.x < n` varies"),
        (behind_a_return, "the condition `i >= n` varies"),
        (behind_a_return_of_a_block, "the condition `kd.blockIdx.x == n` varies"),
        (while_others_write, "the condition `x[0] < n` is not known to be uniform"),
        (under_shared_memory, "the condition `s[0] < n` is not known to be uniform"),
        (under_a_sum_of_the_block, "`kd.block.sum(x[0]) < n` is not known to be uniform"),
        (between_barriers_of_the_block, "the condition `x[0] < n` is not known to be uniform"),
        (under_a_promise_of_the_block, "`kd.uniform(kd.blockIdx.x) < n`"),
    ],
    ids=lambda x: getattr(x, "name", None),
)
@pytest.mark.parametrize("target", ["cpu", "null"])
def test_refused(target: str, kernel: Any, text: str) -> None:
    with kd.use(target), pytest.raises(BarrierDivergenceError, match=re.escape(text)) as found:
        kernel[4, 32](np.zeros(128, np.int32), 3)
    shown = str(found.value)
    assert "a barrier of the grid may not be reached by every thread of the launch" in shown
    assert "^" in shown


@kd.kernel
def while_all_load_before_others_write(x, n):
    first = x[0]
    while first < n:
        kd.grid_group().sync()
        x[kd.grid(1)] += 1
        kd.grid_group().sync()
        first = x[0]


@pytest.mark.parametrize("target", ["cpu", "null"])
def test_a_barrier_after_the_load_is_the_remedy(target: str) -> None:
    remedy = re.escape("add kd.grid_group().sync() between that load and each write")
    with kd.use(target):
        for kernel in (while_others_write, between_barriers_of_the_block):
            with pytest.raises(BarrierDivergenceError, match=remedy):
                kernel[4, 32](np.zeros(128, np.int32), 3)
        x = np.zeros(128, np.int32)
        while_all_load_before_others_write[4, 32](x, 3)
    assert target == "null" or x.tolist() == [3] * 128


def test_the_oracle_sees_what_is_refused() -> None:
    for kernel in (under_an_index, behind_a_return):
        with pytest.raises(DivergentBarrierError):
            simulate(kernel, 4, 32, (np.zeros(128, np.int32), 3))


@kd.kernel
def where_arguments_overlap(x, y, n):
    while x[0] < n:
        y[kd.grid(1)] += 1
        kd.grid_group().sync()
        if kd.grid(1) == 0:
            x[0] += 1
        kd.grid_group().sync()


def test_arguments_that_overlap() -> None:
    x, y = np.zeros(64, np.int32), np.zeros(64, np.int32)
    with kd.use("cpu"):
        where_arguments_overlap[2, 32](x, y, 3)
        assert x[0] == 3
        assert (y == 3).all()
        with pytest.raises(BarrierDivergenceError, match=r"x\[0\] < n"):
            where_arguments_overlap[2, 32](x, x, 9)


def _named(x):
    grid = kd.grid_group()
    x[kd.grid(1)] += 1
    grid.sync()


def _of_numba(x):
    x[kd.grid(1)] += 1
    cuda.cg.this_grid().sync()


def _of_numba_named(x):
    g = cuda.cg.this_grid()
    x[cuda.grid(1)] += 1
    g.sync()


@pytest.mark.parametrize("function", [_named, _of_numba, _of_numba_named])
def test_spellings(function: Callable[..., None]) -> None:
    kernel = kd.kernel(function)
    x = np.zeros(21, np.int64)
    with kd.use("cpu"):
        kernel[3, 7](x)
    assert (x == 1).all()
    assert "barrier" not in kernel.typed_source("int64[::1]")
    assert "kd_grid_group_sync_0()" in kernel.typed_source("int64[::1]")


def _as_a_value(x):
    g = kd.grid_group()
    x[0] = g


def _alone(x):
    kd.grid_group()


def _another_member(x):
    kd.grid_group().size()


def _with_arguments(x):
    kd.grid_group(1).sync()


def _bound_twice(x):
    g = kd.grid_group()
    g = kd.grid_group()
    g.sync()


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (_as_a_value, "The group of a grid is used as a value"),
        (_alone, "The group of a grid is used as a value"),
        (_another_member, "The group of a grid has no 'size'"),
        (_with_arguments, "The group of a grid is given arguments"),
        (_bound_twice, "The group of a grid is used as a value"),
    ],
)
def test_it_is_no_value(function: Callable[..., None], text: str) -> None:
    with kd.use("cpu"), pytest.raises(UnsupportedConstructError, match=text) as found:
        kd.kernel(function)[1, 1](np.zeros(1))
    assert "Write kd.grid_group().sync()" in str(found.value)


def test_numbas_name_may_be_called_alone() -> None:
    @kd.kernel
    def kernel(x):
        cuda.cg.this_grid()
        x[kd.grid(1)] = 1

    x = np.zeros(4)
    with kd.use("cpu"):
        kernel[2, 2](x)
    assert (x == 1).all()


def test_outside_a_kernel() -> None:
    with pytest.raises(kd.OutsideKernelError, match=r"grid_group\.sync was used outside a kernel"):
        kd.grid_group().sync()
