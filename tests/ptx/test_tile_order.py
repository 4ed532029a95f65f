"""Threads wait around operations on tiles where memory may be met again, and not elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

import kerneldsl as kd
from kerneldsl.contract import NO_PROMISES, ArrayPromises, Promises
from targets.cuda.compile.compiler import compile_kernel
from targets.cuda.compile.ptxas import assemble
from tests.ptx.helpers import compile_ptx, specialize

TWO = "float32[::1], float32[::1]"
ROWS = "float32[:,::1], float32[:,::1]"
APART = Promises((ArrayPromises(4),) * 2, is_disjoint=True)
SAME = Promises((ArrayPromises(4), ArrayPromises(4, same_as=0)), is_disjoint=True)


def shifted(x, y):
    kd.tile.store(y, 1, kd.tile.load(x, 0, 300))


def rows(x, y):
    for i in range(kd.blockIdx.x, x.shape[0], kd.gridDim.x):
        for first in range(0, x.shape[1], 1024):
            kd.tile.store(y[i], first, kd.tile.load(x[i], first, 1024))


def smeared(x, y):
    t = kd.tile.load(x, 0, 300)
    for i in range(9):
        kd.tile.store(y, i, t)


@kd.func
def scaled(v, i, a):
    return v * a[i]


def weighted(x, y):
    kd.tile.store(y, 0, kd.tile.load(x, 0, 300), scaled, x)


def scaled_itself(x, y):
    kd.tile.store(y, 0, kd.tile.zeros(300, kd.float32), scaled, y)


def with_thread_code(x, y):
    y[kd.threadIdx.x] = 1
    kd.tile.store(x, 1, kd.tile.zeros(300, kd.float32))


def published(x, y):
    kd.tile.store(y, 0, kd.tile.zeros(300, kd.float32))
    kd.threadfence()
    if kd.threadIdx.x == 0:
        kd.atomic.add(x, 0, 1)


def _barriers(function, signature, promises, **options) -> int:
    artifact = compile_ptx(
        function, signature, "sm_90", block=(128, 1, 1), promises=promises, **options
    )
    assemble(artifact.ptx, "sm_90")
    return artifact.ptx.count("bar.sync")


@pytest.mark.parametrize(
    ("function", "apart", "maybe"),
    [
        (shifted, 0, 2),
        (weighted, 0, 3),
        (scaled_itself, 1, 1),
        (with_thread_code, 0, 2),
    ],
)
def test_arguments_that_may_be_one_are_taken_for_it(function, apart: int, maybe: int) -> None:
    assert _barriers(function, TWO, APART) == apart
    assert _barriers(function, TWO, SAME) == maybe
    assert _barriers(function, TWO, NO_PROMISES) == maybe


@pytest.mark.parametrize("order", [(APART, SAME, NO_PROMISES), (NO_PROMISES, SAME, APART)])
def test_one_kernel_has_barriers_for_each_way_of_overlapping(order: tuple[Promises, ...]) -> None:
    spec = specialize(shifted, TWO, block=(128, 1, 1))
    expected = {id(APART): 0, id(SAME): 2, id(NO_PROMISES): 2}
    for promises in order:
        ptx = compile_kernel(replace(spec, promises=promises), arch="sm_90").ptx
        assert ptx.count("bar.sync") == expected[id(promises)]


def test_a_function_reads_all_before_a_store_writes() -> None:
    assert _barriers(scaled_itself, TWO, APART) == 1
    assert _barriers(weighted, TWO, SAME) > _barriers(shifted, TWO, SAME)


def test_turns_of_a_loop_wait_where_they_may_write_a_part_again() -> None:
    assert _barriers(rows, ROWS, APART) == 0
    assert _barriers(smeared, TWO, APART) >= 1


def test_what_is_published_behind_a_fence_is_written_by_all_threads() -> None:
    assert _barriers(published, TWO, APART) == 2
