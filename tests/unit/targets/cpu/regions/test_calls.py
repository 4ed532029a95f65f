"""Arguments, local arrays, atomics, printing and exchanges in code from the region IR."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import KernelFault, LaunchConfigError, UnsupportedConstructError

BLOCK = 96


@kd.kernel
def gather_arguments(z, pair, point, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = pair[1][i] * z + point.x + pair[0]


def test_complex_numbers_tuples_and_records_are_arguments() -> None:
    point = np.zeros(1, np.dtype([("x", np.float32), ("y", np.int32)]))[0]
    point["x"] = 2.5
    x, out = np.arange(5.0), np.zeros(5, np.complex128)
    gather_arguments.forall(5)(1 + 2j, (np.int8(3), x), point, out)
    assert np.array_equal(out, x * (1 + 2j) + 5.5)


@kd.kernel
def reverse_each(x, out):
    t = kd.threadIdx.x
    own = kd.local.array(4, np.float32)
    for k in range(4):
        own[k] = x[t, k]
    kd.syncthreads()
    for k in range(4):
        out[t, k] = own[3 - k]


def test_local_arrays_outlive_barriers() -> None:
    x = np.arange(4 * BLOCK, dtype=np.float32).reshape(BLOCK, 4)
    out = np.zeros_like(x)
    reverse_each[1, BLOCK](x, out)
    assert np.array_equal(out, x[:, ::-1])


@kd.kernel
def sort_three(x, out):
    i = kd.grid(1)
    if i < out.size:
        own = kd.local.array(3, np.int64)
        for k in range(3):
            own[k] = x[i + k]
        for k in range(2):
            for j in range(2 - k):
                if own[j] > own[j + 1]:
                    own[j], own[j + 1] = own[j + 1], own[j]
        kd.atomic.add(own, 0, 100)
        out[i] = own[1] * 1000 + own[0]


def test_elements_use_one_local_array_one_after_the_other() -> None:
    x = np.random.default_rng(1).integers(0, 9, 1002)
    out = np.zeros(1000, np.int64)
    sort_three.forall(1000)(x, out)
    wanted = np.sort(np.stack([x[:-2], x[1:-1], x[2:]]), axis=0)
    assert np.array_equal(out, wanted[1] * 1000 + wanted[0] + 100)


@kd.kernel
def show(x):
    i = kd.grid(1)
    if i < x.size:
        print("x", i, x[i], "100%")


def test_threads_print(capfd: pytest.CaptureFixture[str]) -> None:
    show.forall(2)(np.array([0.5, np.inf], np.float32))
    assert capfd.readouterr().out == "x 0 0.5 100%\nx 1 inf 100%\n"


@kd.kernel
def count_values(x, counts):
    i = kd.grid(1)
    own = kd.shared.array(8, np.int32)
    if kd.threadIdx.x < 8:
        own[kd.threadIdx.x] = 0
    kd.syncthreads()
    if i < x.size:
        kd.atomic.add(own, x[i], 1)
    kd.syncthreads()
    if kd.threadIdx.x < 8:
        kd.atomic.add(counts, kd.threadIdx.x, own[kd.threadIdx.x])


def test_atomics_on_shared_and_global_memory() -> None:
    x = np.random.default_rng(2).integers(0, 8, 10_000)
    counts = np.zeros(8, np.int32)
    count_values[-(-x.size // BLOCK), BLOCK](x, counts)
    assert np.array_equal(counts, np.bincount(x, minlength=8))


@kd.kernel
def vote(x, out):
    t = kd.threadIdx.x
    count = kd.syncthreads_count(x[t] > 3)
    each = kd.syncthreads_and(x[t] >= 0)
    some = kd.block.any(x[t] > 8)
    out[t, 0], out[t, 1], out[t, 2] = count, each, some
    out[t, 3] = kd.ballot_sync(0xFFFFFFFF, x[t] > 3)
    if t % 2:
        out[t, 4] = kd.activemask()
        out[t, 5] = kd.reduce_add_sync(0xAAAAAAAA, x[t])
    out[t, 6] = kd.match_any_sync(0xFFFFFFFF, x[t])
    out[t, 7] = kd.shfl_sync(0xFFFFFFFF, x[t], 5)


def test_votes_and_exchanges_of_lanes() -> None:
    x = np.random.default_rng(3).integers(0, 9, BLOCK).astype(np.int32)
    out = np.zeros((BLOCK, 8), np.uint32)
    vote[1, BLOCK](x, out)
    warps = x.reshape(-1, 32)
    bits = 1 << np.arange(32, dtype=np.uint32)
    assert np.all(out[:, 0] == np.sum(x > 3))
    assert np.all(out[:, 1] == 1)
    assert np.all(out[:, 2] == 0)
    assert np.array_equal(out[::32, 3], np.sum(bits * (warps > 3), axis=1))
    assert np.all(out[1::2, 4] == 0xAAAAAAAA)
    assert np.array_equal(out[1::32, 5], np.sum(warps[:, 1::2], axis=1))
    same = np.sum(bits * (warps[:, :, None] == warps[:, None, :]), axis=2).ravel()
    assert np.array_equal(out[:, 6], same)
    assert np.array_equal(out[::32, 7], warps[:, 5])


@kd.func
def larger(a, b):
    return a if a > b else b


@kd.kernel
def combine(x, out):
    t = kd.threadIdx.x
    if t >= x.size:
        return
    total = kd.block.sum(x[t])
    out[t, 0] = total
    out[t, 1] = kd.block.reduce(x[t], larger)
    out[t, 2] = kd.block.exclusive_scan(x[t], larger, -5)
    out[t, 3] = kd.warp.inclusive_scan(x[t])
    out[t, 4], out[t, 5] = kd.block.sort(x[t], t)
    out[t, 6] = kd.block.broadcast(x[t], 7)


@pytest.mark.parametrize("n", [BLOCK, 70, 1])
def test_groups_leave_out_the_threads_that_have_left(n: int) -> None:
    x = np.random.default_rng(4).integers(-100, 100, max(n, 8))[:n]
    out = np.zeros((BLOCK, 7), np.int64)
    combine[1, BLOCK](x, out)
    found = out[:n]
    assert np.all(found[:, 0] == x.sum())
    assert np.all(found[:, 1] == x.max())
    before = np.maximum.accumulate(np.concatenate([[-5], x]))[:-1]
    assert np.array_equal(found[:, 2], before)
    scans = [np.cumsum(x[start : start + 32]) for start in range(0, n, 32)]
    assert np.array_equal(found[:, 3], np.concatenate(scans))
    order = np.argsort(x, kind="stable")
    assert np.array_equal(found[:, 4:6], np.stack([x[order], order], axis=1))
    if n > 7:
        assert np.all(found[:, 6] == x[7])


@kd.kernel
def scan_parts(x, state, out):
    part = kd.chain.next(state)
    total = kd.block.sum(x[part * BLOCK + kd.threadIdx.x])
    before = kd.chain.before(state, part, total)
    own = kd.block.inclusive_scan(x[part * BLOCK + kd.threadIdx.x])
    out[part * BLOCK + kd.threadIdx.x] = before + own


def test_blocks_find_what_is_before_them_in_a_chain() -> None:
    x = np.random.default_rng(5).integers(-9, 9, 50 * BLOCK)
    state, out = np.zeros(3 * 50, np.int64), np.zeros_like(x)
    scan_parts[50, BLOCK](x, state, out)
    assert np.array_equal(out, np.cumsum(x))


@kd.kernel
def round_up(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = kd.libdevice.fadd_ru(x[i], x[i])


def test_what_a_processor_does_not_have_is_refused_with_its_place() -> None:
    x: Any = np.ones(3, np.float32)
    with pytest.raises(UnsupportedConstructError, match="fadd_ru is not available") as caught:
        round_up.forall(3)(x, x.copy())
    assert "fadd_ru(x[i], x[i])" in str(caught.value)


@kd.kernel
def reverse_in_dynamic(out, n):
    own = kd.shared.array(0, np.float32)[:n]
    t = kd.threadIdx.x
    own[t] = t
    kd.syncthreads()
    out[t] = own[n - 1 - t]


def test_a_slice_beyond_dynamic_shared_memory_is_named() -> None:
    out = np.zeros(BLOCK)
    reverse_in_dynamic[1, BLOCK, 0, 4 * BLOCK](out, BLOCK)
    assert np.array_equal(out, np.arange(BLOCK)[::-1])
    with pytest.raises(LaunchConfigError, match=f"ends at byte {4 * BLOCK}"):
        reverse_in_dynamic[1, BLOCK, 0, 4 * BLOCK - 4](out, BLOCK)


@kd.kernel
def count_steps(x, out):
    i = kd.grid(1)
    first, second = x
    for k in range(0, 9, i - 3):
        out[i] += k + first + second


@pytest.mark.parametrize(("n", "text"), [(2, "must not be zero"), (3, "the length 2")])
def test_what_python_raises_ends_a_launch(n: int, text: str) -> None:
    with pytest.raises(KernelFault, match=text) as caught:
        count_steps.forall(6)(np.ones(n, np.int64), np.zeros(6, np.int64))
    assert isinstance(caught.value, ValueError)


_FRESH = """
import linecache
import numpy as np
import kerneldsl as kd
text = "def total(x, out):\\n    kd.syncthreads()\\n    out[0] = x[0] + x[1]\\n"
linecache.cache["<total>"] = (len(text), None, text.splitlines(True), "<total>")
exec(compile(text, "<total>", "exec"))
out = np.zeros(1, np.float32)
with kd.use("cpu"):
    kd.kernel(total)[1, 1](np.ones(2, kd.bfloat16), out)
print(out[0])
"""


def test_the_first_kernel_of_a_process_knows_narrow_floats() -> None:
    found = subprocess.run(
        [sys.executable, "-c", _FRESH], capture_output=True, text=True, check=False
    )
    assert found.stdout == "2.0\n", found.stderr
