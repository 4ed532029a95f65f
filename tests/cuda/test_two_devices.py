"""Two devices in one process: copies between them, both at work, and nothing mixed up."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import DeviceMismatchError, KernelError
from kerneldsl.placement.registry import get_target
from tests.support.arrays import assert_same_bits, poisoned, random_array
from tests.support.programs import run_program
from tests.support.targets import REQUIRE_GPU, required_gpus

DEVICES = ("cuda:0", "cuda:1")
PAIRS = (DEVICES, DEVICES[::-1])


@kd.kernel
def add(x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@kd.kernel
def scale(x, factor, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] * factor


@kd.kernel
def turn(x, rounds):
    """Works for a time that grows with `rounds`, on one value."""
    i = kd.grid(1)
    value = x[i]
    for _ in range(rounds):
        value = value * np.float32(1.0000001) + np.float32(1e-7)
    x[i] = value


@pytest.fixture(autouse=True)
def _two_devices() -> None:
    count = len(kd.devices("cuda"))
    if count < 2 <= required_gpus():
        pytest.fail(f"{REQUIRE_GPU}={required_gpus()}, but {count} CUDA device is visible")
    if count < 2:
        pytest.skip(f"two CUDA devices are needed, {count} is visible")


def _in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run `work` in threads that start together; raise the first failure."""
    gate = threading.Barrier(count)
    failures: list[str] = []

    def body(number: int) -> None:
        try:
            gate.wait()
            work(number)
        except BaseException:  # noqa: BLE001 - raised by the main thread
            failures.append(traceback.format_exc())

    threads = [threading.Thread(target=body, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


# --------------------------------------------------------------------------- where a kernel runs


def test_arguments_decide_where_a_kernel_runs() -> None:
    x = np.arange(1000.0)
    for index in (1, 0, 1):
        device = f"cuda:{index}"
        with kd.use(device):
            ours = kd.to_device(x)
            out = kd.zeros_like(ours)
            add.forall(x.size)(ours, ours, out)
        assert str(out.device) == device
        assert_same_bits(out.copy_to_host(), x + x, device)


def test_arrays_of_two_devices_are_refused() -> None:
    first = kd.to_device(np.ones(4), device="cuda:0")
    second = kd.to_device(np.ones(4), device="cuda:1")
    with pytest.raises(DeviceMismatchError, match=r"cuda:0[\s\S]*cuda:1|cuda:1[\s\S]*cuda:0"):
        add.forall(4)(first, first, second)


def test_an_active_use_that_contradicts_is_refused() -> None:
    second = kd.to_device(np.ones(4), device="cuda:1")
    with pytest.raises(DeviceMismatchError, match="cuda:1"):
        add.forall(4)(second, second, second)


def test_a_stream_of_the_other_device_is_refused() -> None:
    ours = kd.to_device(np.ones(4), device="cuda:0")
    with kd.Stream("cuda:1") as foreign:
        pass
    with pytest.raises(DeviceMismatchError, match=r"cuda:0[\s\S]*cuda:1|cuda:1[\s\S]*cuda:0"):
        add.forall(4, stream=foreign)(ours, ours, ours)


def test_what_is_current_stays_current(torch: Any) -> None:
    """Work on one device leaves the thread's current device as another library set it."""
    for current in (0, 1):
        with torch.cuda.device(current):
            for device in DEVICES:
                with kd.use(device):
                    out = kd.zeros(100)
                    scale.forall(100)(out, 2.0, out)
                    out.copy_to_host()
                assert torch.cuda.current_device() == current
            assert torch.ones(3, device="cuda").device.index == current


# ---------------------------------------------------------------------------- copies between them


@pytest.mark.parametrize(("source", "destination"), PAIRS)
@pytest.mark.parametrize("size", [1, 1001, 3_000_017])
def test_a_copy_between_devices(
    source: str, destination: str, size: int, rng: np.random.Generator
) -> None:
    x = random_array(rng, size, np.int32)
    ours = kd.to_device(x, device=source)
    room = kd.to_device(poisoned(size + 2, np.int32), device=destination)
    kd.copy(room[1:-1], ours)
    expected = poisoned(size + 2, np.int32)
    expected[1:-1] = x
    assert_same_bits(room.copy_to_host(), expected, f"{source} to {destination}")
    assert_same_bits(ours.copy_to_host(), x, "the source")


@pytest.mark.parametrize(("source", "destination"), PAIRS)
def test_a_copy_follows_the_kernel_before_it(
    source: str, destination: str, rng: np.random.Generator
) -> None:
    """No synchronization by hand: what was launched on either side comes first."""
    x = random_array(rng, 1_000_003, np.float32)
    ours = kd.to_device(x, device=source)
    theirs = kd.empty(x.size, np.float32, device=destination)
    for factor in (2, 3, 5):
        with kd.use(source):
            scale.forall(x.size)(ours, np.float32(factor), ours)
        kd.copy(theirs, ours)
        with kd.use(destination):
            scale.forall(x.size)(theirs, np.float32(-1), theirs)
        x = x * np.float32(factor)
        assert_same_bits(theirs.copy_to_host(), -x, f"factor {factor}")


@pytest.mark.parametrize(("source", "destination"), PAIRS)
def test_a_copy_of_every_other_element(
    source: str, destination: str, rng: np.random.Generator
) -> None:
    x = random_array(rng, (37, 41), np.float64)
    ours = kd.to_device(x, device=source)
    room = kd.to_device(poisoned((19, 41), np.float64), device=destination)
    kd.copy(room, ours[::2])
    assert_same_bits(room.copy_to_host(), x[::2], f"{source} to {destination}")


def test_peer_access_is_reported_and_can_be_had() -> None:
    for first, second in PAIRS:
        is_possible = kd.can_access_peer(first, second)
        print(f"{first} reaches the memory of {second}: {is_possible}")
        if is_possible:
            kd.enable_peer_access(first, second)
            kd.enable_peer_access(first, second)  # as before
        else:
            with pytest.raises(KernelError):
                kd.enable_peer_access(first, second)


@pytest.mark.measures
def test_the_rate_of_a_peer_copy() -> None:
    """Printed for the log, beside the rate of a copy within one device."""
    nbytes = 1 << 28
    source = kd.zeros(nbytes, np.uint8, device="cuda:0")
    for destination in DEVICES:
        room = kd.zeros(nbytes, np.uint8, device=destination)
        elapsed = []
        for _ in range(5):
            for device in DEVICES:
                kd.synchronize(device)
            begin = time.perf_counter()
            kd.copy(room, source)
            for device in DEVICES:
                kd.synchronize(device)
            elapsed.append(time.perf_counter() - begin)
        print(f"cuda:0 to {destination}: {nbytes / min(elapsed) / 1e9:.0f} GB/s")
        assert not room.copy_to_host().any()


# ------------------------------------------------------------------------------------ both at work


@pytest.mark.measures
def test_both_devices_work_at_once() -> None:
    """One thread launches on both; together they take about as long as one of them."""
    arrays = {device: kd.zeros(1024, np.float32, device=device) for device in DEVICES}

    def elapsed_s(devices: tuple[str, ...], rounds: int) -> float:
        for device in DEVICES:
            kd.synchronize(device)
        begin = time.perf_counter()
        for device in devices:
            with kd.use(device):
                turn[1, 1024](arrays[device], rounds)
        for device in devices:
            kd.synchronize(device)
        return time.perf_counter() - begin

    rounds = 3_000_000
    for device in DEVICES:
        elapsed_s((device,), 10)
    alone = min(elapsed_s((device,), rounds) for device in DEVICES)
    together = min(elapsed_s(DEVICES, rounds) for _ in range(3))
    print(f"a kernel on one device {alone * 1e3:.1f} ms, one on each {together * 1e3:.1f} ms")
    assert together < 1.5 * alone


def test_threads_that_change_devices_never_mix_them_up() -> None:
    """Eight threads, random devices: every array, result and stream is where it belongs."""
    target = get_target("cuda")

    def work(number: int) -> None:
        rng = np.random.default_rng(number)
        kept: list[tuple[Any, np.ndarray]] = []
        for _ in range(60):
            device = DEVICES[int(rng.integers(2))]
            size = int(rng.choice([1, 31, 1000, 70_001]))
            x = random_array(rng, size, np.float32)
            factor = np.float32(rng.integers(2, 9))
            with kd.use(device):
                ours = kd.to_device(x)
                out = kd.to_device(poisoned(size, np.float32))
                scale.forall(size)(ours, factor, out)
            for array in (ours, out):
                assert str(array.device) == device
                pointer = array.__cuda_array_interface__["data"][0]
                assert str(target.device_of_pointer(pointer)) == device
            kept.append((out, x * factor))
            if len(kept) > 4:
                array, expected = kept.pop(int(rng.integers(len(kept))))
                assert_same_bits(array.copy_to_host(), expected, str(array.device))
        for array, expected in kept:
            assert_same_bits(array.copy_to_host(), expected, str(array.device))

    _in_threads(8, work)


def test_host_arrays_go_where_the_thread_says() -> None:
    def work(number: int) -> None:
        device = DEVICES[number % 2]
        rng = np.random.default_rng(number)
        with kd.use(device):
            for _ in range(20):
                x = random_array(rng, 1001, np.int64)
                out = poisoned(1001, np.int64)
                add.forall(1001)(x, x, out)
                assert_same_bits(out, x + x, device)
                assert str(kd.current_target()) == device

    _in_threads(4, work)


def test_the_statistics_of_a_device_are_its_own() -> None:
    before = {device: kd.memory_stats(device).in_use_bytes for device in DEVICES}
    held = kd.zeros(1 << 20, np.uint8, device="cuda:1")
    after = {device: kd.memory_stats(device).in_use_bytes for device in DEVICES}
    assert after["cuda:0"] == before["cuda:0"]
    assert after["cuda:1"] == before["cuda:1"] + held.nbytes


def test_each_device_loads_its_own_code() -> None:
    """A kernel that ran on one device is loaded, not only found, on the other."""
    specials = [np.float32(v) for v in (0.5, -0.0, np.nan, np.inf)]
    for device in (*DEVICES, *DEVICES):
        with kd.use(device):
            x = kd.to_device(np.array(specials, np.float32))
            out = kd.to_device(poisoned(4, np.float32))
            scale.forall(4)(x, np.float32(-1), out)
        assert_same_bits(out.copy_to_host(), np.array(specials, np.float32) * -1, device)


def test_a_fault_on_one_device_loses_the_other_too(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
import time
import numpy as np
import kerneldsl as kd

@kd.kernel(wraparound=False)
def wild(x, far):
    x[kd.grid(1) + far] = 1

@kd.kernel
def increase(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] += 1

def wait_until_it_is_told():
    until = time.monotonic() + 30
    while time.monotonic() < until:
        kd.synchronize("cuda:1")

kd.fallback("silent")
kept = kd.zeros(10, device="cuda:1")
increase.forall(10)(kept)
kd.synchronize("cuda:1")
with kd.use("cuda:0"):
    x = kd.zeros(4)
    wild[1, 1](x, 2**30)
with kd.use("cuda:1"):
    for call in (wait_until_it_is_told, kept.copy_to_host, lambda: kd.zeros(4)):
        try:
            call()
        except kd.DriverError as error:
            print(type(error).__name__, error.name, "wild with grid" in str(error))
    host = np.zeros(10)
    increase.forall(10)(host)
    print("on the host:", host.sum())
    for work in (lambda: increase.forall(10)(kept), lambda: wild[1, 1](np.zeros(4), 0)):
        try:
            work()
        except kd.DeviceLostError as error:
            print("raised:", error.device, "memory of the lost device: x" in str(error))
    print("still told:", kd.device_info().name, len(kd.devices("cuda")), kd.stats().fallbacks)
""",
    )
    assert done.returncode == 0, done.stderr
    name = kd.device_info("cuda:1").name
    assert done.stdout.splitlines() == [
        # The driver tells whoever asks first, here by way of the device that is well.
        "LaunchError CUDA_ERROR_ILLEGAL_ADDRESS True",
        "DeviceLostError CUDA_ERROR_ILLEGAL_ADDRESS True",
        "DeviceLostError CUDA_ERROR_ILLEGAL_ADDRESS True",
        "on the host: 10.0",
        "raised: cuda:1 True",
        "raised: cuda:1 False",
        f"still told: {name} {len(kd.devices('cuda'))} 1",
    ]
