"""What the driver itself answers to a fault, and what is left of the process then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kerneldsl as kd
from kerneldsl.errors import DeviceMemoryError, DriverError, KernelImageError
from kerneldsl.registry import get_target
from targets.cuda import functions, memory
from targets.cuda.driver import get_driver
from tests.support.programs import run_program

_PRELUDE = """
import gc, json, sys
import numpy as np
import kerneldsl as kd

@kd.kernel
def tame(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] += 1

@kd.kernel(wraparound=False)
def wild(x, far):
    x[kd.grid(1) + far] = 1

kd.use("cuda:0")
kd.fallback("never")
"""


def test_an_illegal_address_loses_the_device_and_the_process_lives(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        _PRELUDE
        + """
x = kd.zeros(1000, np.float32)
y = kd.zeros(1000, np.float32)
tame[8, 128](y)
kd.synchronize()
wild[3, 64](x, 2**40)
tame[8, 128](y)
said = {}
try:
    kd.synchronize()
except kd.LaunchError as error:
    said["first"] = [error.name, error.is_fatal, error.device, str(error)]
said["again"] = []
for call in (
    kd.synchronize,
    lambda: tame[8, 128](y),
    y.copy_to_host,
    lambda: kd.zeros(4),
    lambda: kd.to_device(np.ones(3)),
    lambda: tame[1, 32](np.ones(5, np.float32)),
):
    try:
        call()
    except kd.DeviceLostError as error:
        said["again"].append([error.name, error.suspects, str(error.__cause__)[:40]])
del x, y
gc.collect()
said["devices"] = [str(device) for device in kd.devices("cuda")]
said["counts"] = kd.error_log.counts()
said["entries"] = [[entry.doing, entry.place, entry.count] for entry in kd.error_log]
said["swallowed"] = sum(entry.was_swallowed for entry in kd.error_log)
z = np.zeros(5, np.float32)
with kd.use("cpu"):
    tame[1, 32](z)
said["cpu"] = z.tolist()
print("SAID" + json.dumps(said))
""",
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    said = json.loads(done.stdout.partition("SAID")[2])
    name = "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert said["first"][:3] == [name, True, "cuda:0"]
    assert "wild" in said["first"][3]
    assert len(said["again"]) == 6
    for again, suspects, cause in said["again"]:
        assert again == name
        assert suspects[0].startswith("wild")
        assert "grid (3, 1, 1) and block (64, 1, 1)" in suspects[0]
        assert len(suspects) <= 2  # what ran before the wait is not among them
        assert cause.startswith("Could not")
    assert said["devices"]
    assert said["cpu"] == [1.0] * 5
    assert said["counts"]["launch"] == 1
    assert said["counts"]["device"] == 6, said["entries"]
    assert said["swallowed"] == 0


def test_another_device_goes_on(tmp_path: Path) -> None:
    if len(kd.devices("cuda")) < 2:
        pytest.skip("there is one CUDA device")
    done = run_program(
        tmp_path,
        _PRELUDE
        + """
x = kd.zeros(1000, np.float32)
with kd.use("cuda:1"):
    y = kd.zeros(1000, np.float32)
wild[1, 1](x, 2**40)
for device in ("cuda:0", "cuda:0", "cuda:1"):
    try:
        kd.synchronize(device)
        print(device, "well")
    except kd.DriverError as error:
        print(device, type(error).__name__)
tame[8, 128](y)
print(float(y.copy_to_host().sum()))
""",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:4] == [
        "cuda:0 LaunchError",
        "cuda:0 DeviceLostError",
        "cuda:1 well",
        "1000.0",
    ]


def test_errors_that_are_not_fatal_leave_the_device_well() -> None:
    driver = get_driver()
    with pytest.raises(DeviceMemoryError, match=r"CUDA_ERROR_OUT_OF_MEMORY \(2\)") as caught:
        memory.allocate(driver, 0, 2**50)
    assert caught.value.device == "cuda:0"
    with pytest.raises(KernelImageError, match="CUDA_ERROR_NOT_FOUND"):
        functions.load(driver, 0, ".version 7.0\n.target sm_70\n.address_size 64\n", "nobody")
    with pytest.raises(DriverError) as caught:
        driver.call(driver.api.cuMemFree, 0xDEAD00, doing="free memory of nobody")
    assert not caught.value.is_fatal
    assert not driver.watch.is_lost(0)
    kd.synchronize("cuda:0")
    assert get_target("cuda").unavailable_reason() is None


def test_the_driver_describes_its_codes() -> None:
    driver = get_driver()
    with pytest.raises(DriverError) as caught:
        driver.call(driver.api.cuDeviceGet, 4711, doing="find cuda:4711")
    assert caught.value.name == "CUDA_ERROR_INVALID_DEVICE"
    assert "invalid device ordinal" in str(caught.value)
