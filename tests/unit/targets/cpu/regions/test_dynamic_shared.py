"""Less dynamic shared memory than a kernel uses: an error on the CPU, and no crash later."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import KernelFault, LaunchConfigError
from tests.support.extent import full_beyond


@kd.kernel
def reverse(o, n):
    a = kd.shared.array(0, np.float32)[:n]
    t = kd.threadIdx.x
    a[t] = t + kd.blockIdx.x
    kd.syncthreads()
    o[kd.blockIdx.x, t] = a[n - 1 - t]


@kd.kernel
def two_parts(o, n):
    whole = kd.shared.array(0, np.float64)
    first, second = whole[:n], kd.shared.array(0, np.int16)[4 * n : 5 * n]
    t = kd.threadIdx.x
    first[t], second[t] = t, 2 * t
    kd.syncthreads()
    o[0, t] = first[n - 1 - t] + second[n - 1 - t]


@kd.func
def rest(n):
    return kd.shared.array(0, np.int32)[n:]


@kd.kernel
def open_ended(o, n):
    a = rest(n)
    t = kd.threadIdx.x
    a[t] = t
    kd.syncthreads()
    o[0, t] = a[n - 1 - t]


@kd.kernel
def unsliced(o, n):
    a = kd.shared.array(0, np.float64)
    t = kd.threadIdx.x
    a[t] = t
    kd.syncthreads()
    o[0, t] = a[n - 1 - t]


@pytest.fixture(autouse=True)
def on_cpu():
    with kd.use("cpu"):
        yield


#: Kernel, bytes that it uses for n threads, and those that its first slice too far ends at.
SLICED = [(reverse, 4, 4), (two_parts, 10, 10), (open_ended, 8, 4)]


@pytest.mark.parametrize(("kernel", "used", "told"), SLICED)
@pytest.mark.parametrize("n", full_beyond([1, 7, 32, 257, 1024], [7, 1024]))
@pytest.mark.parametrize("blocks", [1, 200])
def test_a_slice_beyond_the_end(kernel, used, told, n, blocks):
    if kernel is not reverse and blocks > 1:
        blocks = 3
    o = np.full((blocks, n), np.nan)
    for _ in range(4):  # also as a launch that is repeated without Python
        for given in {1, told * n - 1}:
            with pytest.raises(LaunchConfigError) as caught:
                kernel[blocks, n, 0, given](o, n)
            error = caught.value
            assert f"ends at byte {told * n}" in error.what or kernel is two_parts
            assert f"The launch gives {given} bytes" in error.limit
            assert f"kernel[grid, block, stream, {error.value}]" in error.remedy
            assert "kd.shared.array(0" in error.where.line or "whole[:n]" in error.where.line
        kernel[blocks, n, 0, used * n](o, n)  # and what is enough goes on working
    expected = np.arange(n)[::-1] * (3.0 if kernel is two_parts else 1.0)
    np.testing.assert_array_equal(o[0], expected)
    if kernel is reverse:
        np.testing.assert_array_equal(o, expected + np.arange(blocks)[:, None])


@pytest.mark.parametrize("n", [1, 8, 100, 1024])
def test_an_index_beyond_the_end(n):
    """Nothing is cut out, so what is written behind the memory tells."""
    o = np.zeros((1, n))
    for given in {1, 8 * (n // 2), 8 * n - 8} - {0}:
        for _ in range(3):
            with pytest.raises(KernelFault, match="wrote beyond its dynamic shared") as caught:
                unsliced[1, n, 0, given](o, n)
            assert isinstance(caught.value, IndexError)
            assert f"The launch gives {given} bytes" in caught.value.limit
    unsliced[1, n, 0, 8 * n](o, n)
    np.testing.assert_array_equal(o[0], np.arange(n)[::-1])


def test_odd_numbers_of_bytes_and_parts_that_end_where_the_memory_does():
    o = np.zeros((1, 4))
    for given in range(16, 40):
        reverse[1, 4, 0, given](o, 4)
        np.testing.assert_array_equal(o[0], [3, 2, 1, 0])

    @kd.kernel
    def ends(o):
        a = kd.shared.array(0, np.float32)[2:]
        b = kd.shared.array(0, np.float32)[-1:]
        c = kd.shared.array(0, np.float32)[: a.size + 2]
        o[0] = a.size + 10 * b.size + 100 * c.size
        kd.syncthreads()
        o[1] = a.size + 10 * b.size + 100 * c.size

    sizes = np.zeros(2)
    ends[1, 1, 0, 8](sizes)  # nothing is left behind the first two
    assert sizes.tolist() == [210, 210]
    with pytest.raises(LaunchConfigError, match="ends at byte 8"):
        ends[1, 1, 0, 7](sizes)


def test_debug_mode_and_waiting_blocks():
    debug = kd.kernel(debug=True)(reverse.function)
    with pytest.raises(LaunchConfigError, match=r"ends at byte 32"):
        debug[1, 8, 0, 16](np.zeros((1, 8)), 8)

    @kd.kernel
    def waiting(o, n):
        a = kd.shared.array(0, np.float32)[:n]
        t = kd.threadIdx.x
        a[t] = t
        kd.grid_group().sync()
        o[kd.blockIdx.x, t] = a[n - 1 - t]

    o = np.zeros((3, 8))
    waiting[3, 8, 0, 32](o, 8)
    np.testing.assert_array_equal(o, np.broadcast_to(np.arange(8.0)[::-1], (3, 8)))
    with pytest.raises(LaunchConfigError, match="ends at byte 32"):
        waiting[3, 8, 0, 16](o, 8)
