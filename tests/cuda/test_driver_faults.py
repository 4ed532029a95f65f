"""What the driver itself answers to a fault, and what is left of the process then."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kerneldsl as kd
from kerneldsl.errors import DeviceMemoryError, DriverError, KernelImageError
from kerneldsl.placement.registry import get_target
from targets.cuda.device import memory
from targets.cuda.driver import functions
from targets.cuda.driver.codes import DRIVER_CODES
from targets.cuda.driver.driver import get_driver
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


def test_an_illegal_address_loses_the_devices_and_the_process_lives(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        _PRELUDE
        + """
x = kd.zeros(1000, np.float32)
y = kd.zeros(1000, np.float32)
tame[8, 128](y)
kd.synchronize()
wild[3, 64](x, 2**30)
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
        assert "grid (3, 1, 1) and block (64, 1, 1) on cuda:0" in suspects[0]
        assert len(suspects) <= 2  # what ran before the wait is not among them
        assert cause.startswith("Could not")
    assert said["devices"]
    assert said["cpu"] == [1.0] * 5
    assert said["counts"]["launch"] == 1
    assert said["counts"]["device"] == 6, said["entries"]
    assert said["swallowed"] == 0


def test_every_device_is_lost_with_the_process(tmp_path: Path) -> None:
    if len(kd.devices("cuda")) < 2:
        pytest.skip("there is one CUDA device")
    done = run_program(
        tmp_path,
        _PRELUDE
        + """
x = kd.zeros(1000, np.float32)
with kd.use("cuda:1"):
    y = kd.zeros(1000, np.float32)
    tame[8, 128](y)
    kd.synchronize("cuda:1")
wild[1, 1](x, 2**30)
for device in ("cuda:0", "cuda:0", "cuda:1"):
    try:
        kd.synchronize(device)
        print(device, "well")
    except kd.DriverError as error:
        print(device, type(error).__name__)
for call in (y.copy_to_host, lambda: tame[8, 128](y), lambda: kd.zeros(3, device="cuda:1")):
    try:
        call()
    except kd.DeviceLostError as error:
        print(error.device, error.may_be_due_to("wild"), error.may_be_due_to("tame"))
        print(str(error).partition(".")[0])
""",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "cuda:0 LaunchError",
        "cuda:0 DeviceLostError",
        "cuda:1 DeviceLostError",
        *(
            "cuda:1 True False",
            "cuda:1 is lost to this process, because cuda:0 failed: could not wait for cuda:0",
        )
        * 3,
    ]


#: Kernels that fail while they run, each in its own way.
_FAULTS = """
.version 7.0
.target sm_70
.address_size 64

.global .align 1 .b8 text[5] = {102, 97, 99, 116, 0};
.extern .func __assertfail
(.param .b64 message, .param .b64 file, .param .b32 line, .param .b64 function, .param .b64 size);

.visible .entry illegal_address(.param .b64 memory)
{
    .reg .b64 %a;
    mov.u64 %a, 0x7000000000000;
    st.global.u32 [%a], 1;
    ret;
}

.visible .entry misaligned_address(.param .b64 memory)
{
    .reg .b64 %a;
    ld.param.u64 %a, [memory];
    st.global.u32 [%a+1], 1;
    ret;
}

.visible .entry trap(.param .b64 memory)
{
    trap;
    ret;
}

.visible .entry assertion(.param .b64 memory)
{
    .reg .b64 %a;
    .reg .b32 %line;
    mov.u64 %a, text;
    cvta.global.u64 %a, %a;
    mov.u32 %line, 7;
    {
    .param .b64 p0;
    .param .b64 p1;
    .param .b32 p2;
    .param .b64 p3;
    .param .b64 p4;
    st.param.b64 [p0+0], %a;
    st.param.b64 [p1+0], %a;
    st.param.b32 [p2+0], %line;
    st.param.b64 [p3+0], %a;
    st.param.b64 [p4+0], 1;
    call.uni __assertfail, (p0, p1, p2, p3, p4);
    }
    ret;
}
"""

_FAULT = """
import json, struct, sys
from targets.cuda.device import memory
from targets.cuda.driver import functions
from targets.cuda.driver.driver import get_driver

driver = get_driver()
api = driver.api
other = len(driver.devices()) - 1
contexts = [driver.retain_context(index)[0] for index in (0, other)]
function = functions.load(driver, 0, {ptx!r}, {name!r})
memory_there = struct.pack("Q", memory.allocate(driver, 0, 16))
functions.launch(driver, function, (1, 1, 1), (1, 1, 1), memory_there, shared_bytes=0, stream=0)
said = []
for context in contexts:  # past the watch, which would not ask the driver again
    api.cuCtxSetCurrent(context)
    said.append([int(api.cuCtxSynchronize()[0]), int(api.cuMemAlloc(16)[0])])
print("SAID" + json.dumps(said))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[int]]]:
    """What the first and the last device answer to a wait and an allocation after each fault."""
    names = re.findall(r"\.entry (\w+)", _FAULTS)

    def ask(name: str) -> list[list[int]]:
        done = run_program(tmp_path_factory.mktemp(name), _FAULT.format(ptx=_FAULTS, name=name))
        assert done.returncode == 0, done.stderr
        found: list[list[int]] = json.loads(done.stdout.partition("SAID")[2])
        return found

    with ThreadPoolExecutor() as pool:  # each in a process of its own, all at once
        return dict(zip(names, pool.map(ask, names), strict=True))


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("illegal_address", {700}),
        ("misaligned_address", {716}),
        ("trap", {715, 719}),
        ("assertion", {710}),
    ],
)
def test_the_table_says_how_much_a_fault_takes_away(
    answers: dict[str, list[list[int]]], name: str, codes: set[int]
) -> None:
    here, there = answers[name]
    code = DRIVER_CODES[here[0]]
    assert code.code in codes
    assert code.is_fatal
    assert here == [code.code] * 2
    if len(kd.devices("cuda")) > 1:
        assert there == [code.code if code.loses_process else 0] * 2


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
