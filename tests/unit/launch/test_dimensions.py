"""Grid, block, extent, shared memory and streams: read, checked, refused."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.fake_target import FakeTarget, installed


@pytest.fixture(autouse=True)
def fake():
    with installed(FakeTarget()) as target, kd.use("fake"):
        yield target


@kd.kernel
def element(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] = i


@kd.kernel
def anywhere(x):
    """Has an index of no number of axes, so that any extent is one for it."""
    x[0] = 1


@kd.kernel
def block(x):
    tile = kd.shared.array(64, kd.float64)
    t = kd.threadIdx.x
    tile[t] = x[t]
    kd.syncthreads()
    x[t] = tile[63 - t]


X = np.zeros(64)


@pytest.mark.parametrize(
    ("grid", "threads", "expected"),
    [
        (2, 32, ((2, 1, 1), (32, 1, 1))),
        ((2, 3), (4, 5, 6), ((2, 3, 1), (4, 5, 6))),
        (np.int32(2), (np.uint8(8),), ((2, 1, 1), (8, 1, 1))),
        ([2, 2], [8], ((2, 2, 1), (8, 1, 1))),
    ],
)
def test_explicit_configurations(fake, grid, threads, expected):
    element[grid, threads](X)
    config = fake.launches[-1][1]
    assert (config.grid_dim, config.block_dim) == expected
    assert config.extent is None


def test_stream_and_shared_bytes_reach_the_target(fake):
    stream = object()
    element[1, 32, stream, 128](X)
    config = fake.launches[-1][1]
    assert config.stream.foreign is stream
    assert config.shared_bytes == 128
    element.forall(64, stream=5, shared_bytes=16)(X)
    config = fake.launches[-1][1]
    assert (config.stream.handle, config.shared_bytes, config.extent) == (5, 16, (64,))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: element[4], "kernel.forall"),
        (lambda: element[4,], "kernel.forall"),
        (lambda: element[1, 2, 3, 4, 5], "kernel.forall"),
        (lambda: element[True, 1], "grid_dim True is a bool"),
        (lambda: element[1.0, 1], "grid_dim 1.0 is a float"),
        (lambda: element[1, np.float64(2)], "block_dim .* is a float64"),
        (lambda: element[1, np.bool_(True)], "block_dim .* is a bool"),
        (lambda: element[-1, 1], "grid_dim -1 contains -1"),
        (lambda: element[0, 1], "at least 1"),
        (lambda: element[1, (32, 0)], "block_dim .* contains 0"),
        (lambda: element[(1, 1, 1, 1), 1], "has 4 axes"),
        (lambda: element[(), 1], "has 0 axes"),
        (lambda: element["2", 1], "is a str"),
        (lambda: element[None, 1], "is a NoneType"),
        (lambda: element[1, 1, None, -1], "shared_bytes is -1"),
        (lambda: element[1, 1, None, 1.5], "shared_bytes is 1.5"),
        (lambda: element[1, 1, 3.0], "stream is 3.0"),
        (lambda: element.forall(), "has 0 axes"),
        (lambda: element.forall(-1), "extent .* contains -1"),
        (lambda: element.forall(2.0), "extent .* contains a float"),
        (lambda: element.forall(1, 1, 1, 1), "has 4 axes"),
        (lambda: element.forall(2**63), "too large"),
        (lambda: element.forall(4, block=0), "block_dim 0"),
        (lambda: element(X), "element.forall"),
    ],
)
def test_impossible_configurations_are_refused_before_anything_runs(fake, make, words):
    with pytest.raises(kd.LaunchConfigError, match=words):
        make()
    assert fake.launches == []


@pytest.mark.parametrize(
    ("grid", "threads", "shared", "limit", "value"),
    [
        (1, (64, 32), 0, "MAX_THREADS_PER_BLOCK", 2048),
        (1, (1, 1, 65), 0, "MAX_BLOCK_DIM_Z", 65),
        ((1, 65536), 1, 0, "MAX_GRID_DIM_Y", 65536),
        ((1, 1, 65536), 1, 0, "MAX_GRID_DIM_Z", 65536),
        (2**31, 1, 0, "MAX_GRID_DIM_X", 2**31),
        (1, 64, 49153, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", 49153),
    ],
)
def test_limits_of_the_device(fake, grid, threads, shared, limit, value):
    with pytest.raises(kd.LaunchConfigError, match=limit) as caught:
        element[grid, threads, None, shared](X)
    assert caught.value.value == value
    assert str(value) in str(caught.value)
    assert "fake:0 allows" in str(caught.value)
    assert caught.value.remedy
    assert fake.launches == []
    assert fake.compiled == []


def test_declared_shared_memory_counts(fake):
    with pytest.raises(kd.LaunchConfigError, match="512 declared in it, 49000 from the launch"):
        block[1, 64, None, 49000](X)


def test_block_kernels_need_a_block_under_forall(fake):
    with pytest.raises(kd.LaunchConfigError, match="block=256"):
        block.forall(64)(X)
    block.forall(64, block=64)(X)
    config = fake.launches[-1][1]
    assert (config.grid_dim, config.block_dim, config.extent) == ((1, 1, 1), (64, 1, 1), (64,))


def test_the_decorators_block_serves_forall(fake):
    kernel = kd.kernel(block=(16, 2))(anywhere.function)
    kernel.forall(64, 4)(X)
    assert fake.launches[-1][1].block_dim == (16, 2, 1)
    kernel.forall(64, block=8)(X)
    assert fake.launches[-1][1].block_dim == (8, 1, 1)


@pytest.mark.parametrize("extent", [(0,), (0, 5), (5, 0, 5), ((0, 3),)])
def test_an_empty_extent_checks_and_launches_nothing(fake, extent):
    anywhere.forall(*extent)(X)
    assert fake.launches == []
    assert fake.compiled == []
    with pytest.raises(kd.ArgumentTypeError):
        anywhere.forall(*extent)("no")
    with pytest.raises(kd.LaunchConfigError):
        anywhere.forall(*extent, block=4096)(X)


def test_the_extent_is_passed_in_the_users_order(fake):
    anywhere.forall((7, 5, 3))(X)
    values = fake.launches[-1][2]
    assert [values[f"kd_extent[{i}]"] for i in range(3)] == [7, 5, 3]


def test_streams_of_other_libraries_are_joined():
    with installed(FakeTarget("cuda")) as cuda:
        array = kd.zeros(8, device="cuda")

        def foreign(stream):
            interface = {**array.__cuda_array_interface__, "stream": stream}
            return type("Other", (), {"__cuda_array_interface__": interface})()

        @kd.kernel
        def copy(x, y):
            y[0] = x[0]

        with kd.use("cuda"):
            copy[1, 1](foreign(41), array)
            assert cuda.launches[-1][1].stream == 41
            copy[1, 1](foreign(41), foreign(42))
            assert cuda.launches[-1][1].stream == 41
            assert cuda.waits == [(41, 42)]
            copy[1, 1, 50](foreign(41), foreign(41))
            assert cuda.launches[-1][1].stream.handle == 50
            assert [(later.handle, sooner) for later, sooner in cuda.waits[1:]] == [(50, 41)]
