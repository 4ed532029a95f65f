"""What is said of the device here, against torch, the driver's own tool, and cuda.core."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kerneldsl as kd


@pytest.fixture
def info() -> kd.DeviceInfo:
    return kd.device_info("cuda:0")


def test_as_torch_says(info: kd.DeviceInfo, torch: Any) -> None:
    expected = torch.cuda.get_device_properties(0)
    assert info.name == expected.name
    assert info.compute_capability == (expected.major, expected.minor)
    assert info.total_memory_bytes == expected.total_memory
    assert info.multiprocessor_count == expected.multi_processor_count
    assert info.warp_size == expected.warp_size
    assert info.is_integrated == bool(expected.is_integrated)
    assert info.max_threads_per_multiprocessor == expected.max_threads_per_multi_processor
    assert info.max_registers_per_multiprocessor == expected.regs_per_multiprocessor
    assert info.l2_cache_bytes == expected.L2_cache_size
    assert info.max_shared_memory_per_block_bytes == expected.shared_memory_per_block
    assert info.max_shared_memory_per_block_optin_bytes == expected.shared_memory_per_block_optin
    if hasattr(expected, "uuid"):
        assert info.uuid.partition("-")[2] == str(expected.uuid)


@pytest.mark.alone
def test_free_memory_follows_an_allocation(info: kd.DeviceInfo, torch: Any) -> None:
    before = info.free_memory_bytes
    assert 0 < before <= info.total_memory_bytes
    held = torch.empty(512 * 2**20, dtype=torch.uint8, device="cuda:0")
    assert before - info.free_memory_bytes >= 500 * 2**20
    del held
    torch.cuda.empty_cache()


def test_as_nvidia_smi_says(info: kd.DeviceInfo) -> None:
    if shutil.which("nvidia-smi") is None:
        pytest.skip("nvidia-smi is not installed")
    asked = "name,pci.bus_id,driver_version,clocks.max.sm,clocks.max.mem,power.limit"
    answer = subprocess.run(
        [
            "nvidia-smi",
            f"--id={info.uuid}",
            f"--query-gpu={asked}",
            "--format=csv,noheader,nounits",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    name, pci, driver, clock, memory_clock, limit = (part.strip() for part in answer.split(","))
    assert info.name == name
    assert info.pci_address == pci[-len(info.pci_address) :].lower()
    assert info.driver_version == driver
    assert info.clock_rate_khz == 1000 * int(clock)
    assert info.memory_clock_rate_khz == 1000 * int(memory_clock)
    assert info.power_limit_watts == pytest.approx(float(limit))


def test_live_values_are_of_this_world(info: kd.DeviceInfo) -> None:
    found = info.live()
    print(found)
    assert 10 < found["temperature_celsius"] < 110
    assert 5 < found["power_watts"] <= 1.3 * found["power_limit_watts"]
    assert 0 <= found["utilization_percent"] <= 100
    assert 0 <= found["memory_utilization_percent"] <= 100
    assert 100 < found["current_clock_mhz"] <= info.clock_rate_khz / 1000 + 1
    assert isinstance(found["processes"], tuple)


def test_everything_is_known_here(info: kd.DeviceInfo) -> None:
    print(info)
    found = info.to_dict()
    print(found)
    assert found["unavailable"] == {}
    assert info.peak_bandwidth_bytes_per_s > 1e11
    assert re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", info.uuid)


def test_the_attributes_are_cuda_cores(info: kd.DeviceInfo, cuda_core: Any) -> None:
    expected = cuda_core.Device(0).properties
    for ours, theirs in {
        "clock_rate_khz": "clock_rate",
        "memory_bus_width_bits": "global_memory_bus_width",
        "constant_memory_bytes": "total_constant_memory",
        "async_engine_count": "async_engine_count",
        "max_blocks_per_multiprocessor": "max_blocks_per_multiprocessor",
        "reserved_shared_memory_per_block_bytes": "reserved_shared_memory_per_block",
        "supports_cooperative_launch": "cooperative_launch",
        "supports_cluster_launch": "cluster_launch",
        "supports_memory_pools": "memory_pools_supported",
    }.items():
        assert getattr(info, ours) == getattr(expected, theirs), ours


def test_the_gpu_is_the_best_device_and_the_default(info: kd.DeviceInfo) -> None:
    best = kd.best_device()
    assert best.target == "cuda"
    assert kd.score(best).total > 1000 > kd.score("cpu").total
    kept = {k: v for k, v in os.environ.items() if k != "KERNELDSL_TARGET"}
    program = "import kerneldsl as kd; print(kd.current_target())"
    answer = subprocess.run(
        [sys.executable, "-c", program], env=kept, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == str(best)


@pytest.mark.alone
def test_measured_choice(info: kd.DeviceInfo) -> None:
    ranking = kd.rank_devices(by="benchmark")
    print(ranking)
    assert ranking.best.target == "cuda"
    measured = ranking.entries[0].measurement
    assert measured is not None
    assert 0.05 * info.peak_bandwidth_bytes_per_s < measured.copy_bytes_per_s
    assert measured.copy_bytes_per_s < 1.05 * info.peak_bandwidth_bytes_per_s


def test_an_empty_list_of_visible_devices_leaves_the_cpu() -> None:
    program = (
        "import kerneldsl as kd\n"
        "print(kd.current_target(), len(kd.devices('cuda')))\n"
        "kd.fallback('never')\n"
        "try:\n"
        "    kd.use('cuda')\n"
        "except kd.TargetUnavailableError as error:\n"
        "    print(error)\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "KERNELDSL_TARGET"}
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.startswith("cpu 0")
    assert "CUDA_VISIBLE_DEVICES is ''" in answer.stdout


def test_the_visible_device_is_named_by_its_uuid(info: kd.DeviceInfo) -> None:
    program = "import kerneldsl as kd; i = kd.device_info('cuda'); print(i.uuid, i.power_watts > 0)"
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": info.uuid},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.split() == [info.uuid, "True"]


def test_describing_makes_no_context_and_imports_no_cuda_core() -> None:
    program = (
        "import sys, kerneldsl as kd\n"
        "kd.devices(); kd.device_info('cuda').live(); kd.best_device()\n"
        "from targets.cuda.driver.driver import get_driver\n"
        "print(get_driver().contexts, 'cuda.core' in sys.modules)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "{} False"


_LOSES_ITS_DEVICE = """
import numpy as np
import kerneldsl as kd

@kd.kernel(wraparound=False)
def far(x):
    x[kd.grid(1) + (1 << 30)] = 1

x = kd.zeros(4, np.int32, device="cuda")
try:
    far[1, 1](x)
    kd.synchronize("cuda")
except kd.DriverError as error:
    print("lost", error.is_fatal)
info = kd.devices("cuda")[0]
print(info.name, info.temperature_celsius)
print(0 < info.free_memory_bytes < info.total_memory_bytes)
"""


def test_a_lost_device_is_still_described(tmp_path: Path) -> None:
    file = tmp_path / "loses.py"
    file.write_text(_LOSES_ITS_DEVICE)
    answer = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, check=False
    )
    print(answer.stdout, answer.stderr)
    lines = answer.stdout.splitlines()
    assert lines[0] == "lost True"
    assert re.fullmatch(r"NVIDIA .* \d+\.0", lines[1])
    assert lines[2] == "True", "NVML tells without the context that was lost"
