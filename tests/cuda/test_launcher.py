"""Native launches on a GPU: the driver is told what Python would tell it, and nothing leaks."""

from __future__ import annotations

import gc
import json
import threading

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.language.kinds import ArrayKind
from kerneldsl.launch.native import machine
from kerneldsl.launch.native.exchange import exchange_of
from tests.support.native import is_native, require_native, warm_up
from tests.support.programs import run_program


@pytest.fixture(autouse=True)
def native():
    require_native()
    for kernel in (axpy, increment, captures):
        kernel._remember_launches()


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def increment(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] += 1


A, B, C, D = 2.0, 3.0, 4, 5


@kd.kernel
def captures(out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = A * i + B + C * D


def whole(n):
    return np.random.default_rng().integers(-1000, 1000, n).astype(np.float32)


@pytest.mark.parametrize("n", [1, 1000, 1 << 20])
def test_results(n):
    x, y = whole(n), whole(n)
    on_device = [kd.to_device(each) for each in (x, y, np.full(n, np.nan, np.float32))]
    launch = axpy.forall(n)
    warm_up(launch, 2.0, *on_device)
    for a in (3.0, -7.0):
        on_device[2].fill(np.nan)
        with is_native(launch):
            axpy.forall(n)(a, *on_device)
        np.testing.assert_array_equal(on_device[2].copy_to_host(), a * x + y)
    explicit = axpy[-(-n // 128), 128]
    bound = explicit.bind(5.0, *on_device)
    on_device[2].fill(np.nan)
    with is_native(explicit):
        bound()
    np.testing.assert_array_equal(on_device[2].copy_to_host(), 5 * x + y)


def test_many_launches_run_each_once_and_hold_nothing():
    x = kd.zeros(100, np.int64)
    launch = increment.forall(100)
    warm_up(launch, x)
    kd.synchronize()
    done = int(x.copy_to_host()[0])
    gc.collect()
    for _ in range(100_000):
        launch(x)
    np.testing.assert_array_equal(x.copy_to_host(), done + 100_000)


def test_threads():
    arrays = [kd.zeros(1000, np.int64) for _ in range(8)]

    def work(array):
        for _ in range(2000):
            increment.forall(1000)(array)

    threads = [threading.Thread(target=work, args=(array,)) for array in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for array in arrays:
        np.testing.assert_array_equal(array.copy_to_host(), 2000)


def test_arrays_freed_right_after_the_launch():
    n = 1 << 20
    total = kd.zeros(n, np.float32)
    ones = kd.ones(n, np.float32)
    for i in range(300):
        part = kd.full(n, float(i), np.float32)
        axpy.forall(n)(1.0, part, total, total)
        del part
        other = kd.full(n, np.nan, np.float32)  # would be seen if it came too early
        del other
    np.testing.assert_array_equal(total.copy_to_host(), np.full(n, 299 * 300 / 2))
    assert ones.copy_to_host().min() == 1


def test_captured_globals(monkeypatch):
    out = kd.zeros(100)
    launch = captures.forall(100)
    warm_up(launch, out)
    with is_native(launch):
        launch(out)
    np.testing.assert_array_equal(out.copy_to_host(), 2.0 * np.arange(100) + 23)
    monkeypatch.setitem(globals(), "C", 10)
    launch(out)
    np.testing.assert_array_equal(out.copy_to_host(), 2.0 * np.arange(100) + 53)


def test_the_context_that_was_current_comes_back():
    from targets.cuda.driver.driver import get_driver

    api = get_driver().api
    x = kd.zeros(10, np.int64)
    launch = increment.forall(10)
    warm_up(launch, x)
    kd.synchronize()
    found = []

    def work():
        found.append(int(api.cuCtxGetCurrent()[1]))
        with is_native(launch):
            launch(x)
        found.append(int(api.cuCtxGetCurrent()[1]))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [0, get_driver().contexts[0][1]]


def test_streams_and_graphs():
    x = kd.zeros(1000, np.int64)
    launch = increment.forall(1000)
    warm_up(launch, x)
    kd.synchronize()
    before = int(x.copy_to_host()[0])
    stream = kd.Stream()
    with stream:
        launch(x)
    stream.synchronize()
    with stream.capture() as graph:
        for _ in range(3):
            launch(x)
    for _ in range(5):
        graph.launch(stream)
    stream.synchronize()
    with is_native(launch):
        launch(x)
    np.testing.assert_array_equal(x.copy_to_host(), before + 17)


def test_tensors_of_torch(torch):
    assert exchange_of(torch.Tensor, ArrayKind("float32", 1, "C")) is not None
    x, y, out = (torch.rand(1000, device="cuda") for _ in range(3))
    launch = axpy.forall(1000)
    warm_up(launch, 2.0, x, y, out)
    out.fill_(float("nan"))
    with is_native(launch):
        launch(2.0, x, y, out)
    torch.testing.assert_close(out, 2 * x + y)
    with is_native(launch):
        launch(2.0, x.detach(), y.clone(), out)
    with is_native(launch, expected=False), torch.cuda.stream(torch.cuda.Stream()):
        launch(2.0, x, y, out)
    torch.cuda.synchronize()
    with pytest.raises(kd.ArgumentValueError, match="detach"):
        launch(2.0, x.requires_grad_(), y, out)
    z = torch.randn(1000, dtype=torch.complex64, device="cuda").conj()
    with pytest.raises(kd.ArgumentValueError, match="resolve_neg"):
        launch(2.0, z.imag, y, out)


def test_counts_are_exact():
    x = kd.zeros(10, np.int64)
    kd.reset_stats()
    for _ in range(3000):
        increment.forall(10)(x)
    with machine.suspended():
        increment.forall(10)(x)
    assert kd.stats().launches == 3001


_LOST = """
import json
import numpy as np
import kerneldsl as kd

@kd.kernel(wraparound=False)
def reach(x, far):
    x[kd.grid(1) + far] = 1

x = kd.zeros(1024, np.int32)
launch = reach.forall(1024)
launch.bind(x, 0)()
kd.synchronize()
for table in launch._tables:
    table.counter.words[1] = 1000  # none of the next ones is timed
before = launch._slow_count
launch(x, 2**30)
found = {"native": launch._slow_count == before, "errors": []}
try:
    kd.synchronize()
except kd.DriverError as error:
    found["errors"].append(type(error).__name__)
for _ in range(3):
    try:
        launch(x, 0)
    except kd.DriverError as error:
        found["errors"].append(type(error).__name__)
        found["suspects"] = list(error.suspects)
print(json.dumps(found))
"""


def test_a_device_that_is_lost_by_a_native_launch(tmp_path):
    done = run_program(tmp_path, _LOST)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["native"]
    assert found["errors"][0] != "DeviceLostError"
    assert found["errors"][1:] == ["DeviceLostError"] * 3
    assert len(found["suspects"]) == 1
    assert "reach" in found["suspects"][0]


def test_arrays_of_cupy(cupy):
    x, y, out = (cupy.random.random(1000, dtype=cupy.float32) for _ in range(3))
    launch = axpy.forall(1000)
    warm_up(launch, 2.0, x, y, out)
    out[...] = cupy.nan
    with is_native(launch):
        launch(2.0, x, y, out)
    np.testing.assert_allclose(out.get(), 2 * x.get() + y.get(), rtol=1e-6)
    with is_native(launch, expected=False), cupy.cuda.Stream(non_blocking=True):
        launch(3.0, x, y, out)
        np.testing.assert_allclose(out.get(), 3 * x.get() + y.get(), rtol=1e-6)
    strided = cupy.zeros((10, 20), cupy.float32)[::2, ::2]
    flat = increment_2d.forall(5, 10)
    warm_up(flat, strided)
    strided[...] = 0
    with is_native(flat):
        flat(strided)
    assert int(strided.get().min()) == int(strided.get().max()) == 1


@kd.kernel
def increment_2d(x):
    i, j = kd.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        x[i, j] += 1
