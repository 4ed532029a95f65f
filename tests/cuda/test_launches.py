"""Launches of every form and size."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import LaunchConfigError, ResourceLimitError
from tests.support.arrays import assert_same_bits, random_array


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel(contract=False)
def axpy_exact(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def place_2d(out):
    x, y = kd.grid(2)
    if y < out.shape[0] and x < out.shape[1]:
        out[y, x] = 1000 * y + x


@kd.kernel
def place_3d(out):
    x, y, z = kd.grid(3)
    if z < out.shape[0] and y < out.shape[1] and x < out.shape[2]:
        out[z, y, x] = (100 * z + y) * 100 + x


@kd.kernel
def count_1d(out):
    i = kd.grid(1)
    out[i] += 1


@kd.kernel
def count_2d(out):
    i, j = kd.grid(2)
    out[i, j] += i - j + 1


@kd.kernel
def count_3d(out):
    i, j, k = kd.grid(3)
    out[i, j, k] += i * j - k


def _xy(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    return random_array(rng, n, "float32"), random_array(rng, n, "float32")


@pytest.mark.parametrize("n", [1, 31, 256, 1001, 1 << 20])
@pytest.mark.parametrize("block", [32, 128, 1024])
def test_explicit_launch(rng: np.random.Generator, n: int, block: int) -> None:
    x, y = _xy(rng, n)
    out = kd.full(n, np.nan, np.float32)
    axpy_exact[math.ceil(n / block), block](np.float32(1.5), kd.to_device(x), kd.to_device(y), out)
    assert_same_bits(out.copy_to_host(), np.float32(1.5) * x + y, "axpy")


@pytest.mark.parametrize("n", [1, 257, 1 << 20])
def test_forall(rng: np.random.Generator, n: int) -> None:
    x, y = _xy(rng, n)
    out = kd.full(n, np.nan, np.float32)
    axpy_exact.forall(n)(np.float32(1.5), kd.to_device(x), kd.to_device(y), out)
    assert_same_bits(out.copy_to_host(), np.float32(1.5) * x + y, "axpy")


def test_contraction_is_one_rounding(rng: np.random.Generator) -> None:
    x, y = _xy(rng, 100_000)
    out = np.full(100_000, np.nan, np.float32)
    axpy.forall(out.size)(np.float32(1.1), x, y, out)
    # The product of two float32 is exact in float64; its sum with a third is rounded once more
    # there than by a fused operation, which in these few cases differs by one unit.
    fused = (np.float64(np.float32(1.1)) * x + y).astype(np.float32)
    separate = np.float32(1.1) * x + y
    assert np.count_nonzero(out != fused) < 10
    assert np.count_nonzero(out != separate) > 1000


def test_grid_2d() -> None:
    out = kd.full((37, 53), -1, np.int64)
    place_2d[(4, 10), (16, 4)](out)
    y, x = np.indices((37, 53))
    assert_same_bits(out.copy_to_host(), 1000 * y + x, "grid(2)")


def test_grid_3d() -> None:
    out = kd.full((5, 7, 33), -1, np.int64)
    place_3d[(5, 4, 3), (8, 2, 2)](out)
    z, y, x = np.indices((5, 7, 33))
    assert_same_bits(out.copy_to_host(), (100 * z + y) * 100 + x, "grid(3)")


def test_forall_covers_each_index_once() -> None:
    for kernel, shape in (
        (count_1d, (70_001,)),
        (count_2d, (300, 257)),
        (count_2d, (200_000, 3)),
        (count_2d, (3, 200_000)),
        (count_3d, (70_000, 3, 2)),
        (count_3d, (2, 70_000, 3)),
        (count_3d, (2, 3, 70_000)),
    ):
        out = kd.zeros(shape, np.int64)
        kernel.forall(*shape)(out)
        index = np.indices(shape)
        expected = {
            1: lambda i: i[0] * 0 + 1,
            2: lambda i: i[0] - i[1] + 1,
            3: lambda i: i[0] * i[1] - i[2],
        }[len(shape)](index)
        assert_same_bits(out.copy_to_host(), expected, f"forall{shape}")


def test_outer_axes_longer_than_the_grid() -> None:
    shape = (65535 * 8 + 77, 5)  # more blocks along y than a grid has
    out = kd.zeros(shape, np.int64)
    count_2d.forall(*shape)(out)
    i, j = np.indices(shape)
    assert_same_bits(out.copy_to_host(), i - j + 1, "walked")


@kd.kernel
def mark(out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = i % 251


def test_indices_beyond_32_bits() -> None:
    n = 2**31 + 1000
    out = kd.empty(n, np.uint8)
    for launch in (mark.forall(n), mark[math.ceil(n / 256), 256]):
        out[:4096] = np.full(4096, 255, np.uint8)
        out[n - 4096 :] = np.full(4096, 255, np.uint8)
        launch(out)
        for start in (0, 2**31 - 3500, n - 4096):
            part = out[start : start + 4096].copy_to_host()
            expected = (np.arange(start, start + 4096) % 251).astype(np.uint8)
            assert_same_bits(part, expected, f"from {start}")


def test_numpy_arrays_are_staged(rng: np.random.Generator) -> None:
    x, y = _xy(rng, 5000)
    out = np.full(5000, np.nan, np.float32)
    axpy_exact.forall(out.size)(np.float32(2), x, y, out)
    assert_same_bits(out, np.float32(2) * x + y, "staged")


def test_overlapping_numpy_views_are_one_array() -> None:
    base = np.arange(10.0)
    expected = base.copy()
    expected[5:] = 2 * expected[:5] + 1
    axpy_exact.forall(5)(2.0, base[:5], np.ones(5), base[5:])
    assert_same_bits(base, expected, "views of one base")


def test_mixed_host_and_device_arrays(rng: np.random.Generator) -> None:
    x, y = _xy(rng, 777)
    out = kd.empty(777, np.float32)
    axpy_exact.forall(777)(np.float32(2), x, kd.to_device(y), out)
    assert_same_bits(out.copy_to_host(), np.float32(2) * x + y, "mixed")


@kd.kernel
def reverse_in_shared(x, out):
    buffer = kd.shared.array(0, np.float32)
    t = kd.threadIdx.x
    n = x.size
    for i in range(t, n, kd.blockDim.x):
        buffer[i] = x[i]
    kd.syncthreads()
    for i in range(t, n, kd.blockDim.x):
        out[i] = buffer[n - 1 - i]


@pytest.mark.parametrize("kilobytes", [16, 48, 49, 64, 96])
def test_dynamic_shared_memory(rng: np.random.Generator, kilobytes: int) -> None:
    limit = kd.devices("cuda")[0].limits.max_shared_memory_per_block
    if kilobytes * 1024 > limit:
        kilobytes = limit // 1024
    n = kilobytes * 256
    x = random_array(rng, n, "float32")
    out = kd.full(n, np.nan, np.float32)
    reverse_in_shared[1, 256, None, 4 * n](kd.to_device(x), out)
    assert_same_bits(out.copy_to_host(), x[::-1], f"{kilobytes} KB")


def test_all_shared_memory_of_a_block(rng: np.random.Generator) -> None:
    n = kd.devices("cuda")[0].limits.max_shared_memory_per_block // 4
    x = random_array(rng, n, "float32")
    out = kd.full(n, np.nan, np.float32)
    reverse_in_shared[1, 1024, None, 4 * n](kd.to_device(x), out)
    assert_same_bits(out.copy_to_host(), x[::-1], f"{4 * n} bytes")


def test_too_much_shared_memory_is_refused() -> None:
    limit = kd.devices("cuda")[0].limits.max_shared_memory_per_block
    x = kd.zeros(8, np.float32)
    with pytest.raises(LaunchConfigError, match=f"{limit + 4} bytes.*{limit}"):
        reverse_in_shared[1, 32, None, limit + 4](x, x)


@kd.kernel(launch_bounds=(128,))
def bounded(out):
    out[kd.grid(1)] = 1


def test_a_block_beyond_the_compiled_kernel_is_refused() -> None:
    out = kd.zeros(256, np.int32)
    with pytest.raises(ResourceLimitError, match="256 threads") as caught:
        bounded[1, 256](out)
    assert caught.value.value == (256, 1, 1)
    assert out.copy_to_host().sum() == 0
    bounded[2, 128](out)
    assert out.copy_to_host().sum() == 256


@numba.njit
def collatz_steps(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@kd.kernel
def count_steps(out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = collatz_steps(i + 1)


def test_a_plain_numba_function_compiles_for_the_device() -> None:
    out = np.zeros(1000, np.int64)
    count_steps.forall(1000)(out)
    assert out.tolist() == [collatz_steps(i + 1) for i in range(1000)]


def test_a_torch_stream_orders_its_work(torch: Any) -> None:
    stream = torch.cuda.Stream()
    n = 1 << 22
    other = torch.zeros(n, device="cuda")
    axpy[n // 256, 256](np.float32(3), other, other, other)  # compiled before anything waits
    with torch.cuda.stream(stream):
        x = torch.zeros(n, device="cuda")
        torch.cuda._sleep(50_000_000)  # some milliseconds, so that a lost order would show
        x += 1
        axpy[n // 256, 256](np.float32(3), x, x, x)  # torch's current stream is taken
        x *= 2
        total = x.sum()
    stream.synchronize()
    assert float(total) == 8.0 * n


def test_a_stream_is_taken_by_object_and_by_handle(torch: Any) -> None:
    n = 1 << 22
    ours = kd.zeros(n, np.float32)
    ones = kd.ones(n, np.float32)
    axpy_exact[n // 256, 256](np.float32(0), ones, ours, ours)  # compiled before anything waits
    kd.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
    for given in (stream, stream.cuda_stream):
        axpy_exact[n // 256, 256, given](np.float32(1), ours, ones, ours)
    assert not stream.query()  # both launches wait behind the sleep
    assert ours.copy_to_host(stream=stream).min() == 2.0


def test_a_cupy_stream(cupy: Any) -> None:
    n = 1 << 20
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.ones(n, np.float32)
        axpy[n // 256, 256](np.float32(2), x, x, x)
        x += 1
    stream.synchronize()
    assert float(x.sum()) == 4.0 * n


def test_another_librarys_device_stays_current(torch: Any) -> None:
    before = torch.cuda.current_device()
    last = kd.devices("cuda")[-1]
    with kd.use(last):
        out = kd.zeros(100, np.int64)
        count_1d.forall(100)(out)
        assert out.copy_to_host().tolist() == [1] * 100
    assert torch.cuda.current_device() == before
