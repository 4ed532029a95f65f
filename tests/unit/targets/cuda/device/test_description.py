"""The description of NVIDIA GPUs, against a driver and an NVML that answer what a test says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import kerneldsl as kd
from targets.cuda.device import description
from targets.cuda.device.description import abilities_of
from targets.cuda.driver import attributes, nvml
from targets.cuda.driver.attributes import describe_device

#: What an H200 answers.
H200 = {
    "MAX_THREADS_PER_BLOCK": 1024,
    "MAX_BLOCK_DIM_X": 1024,
    "MAX_BLOCK_DIM_Y": 1024,
    "MAX_BLOCK_DIM_Z": 64,
    "MAX_GRID_DIM_X": 2147483647,
    "MAX_GRID_DIM_Y": 65535,
    "MAX_GRID_DIM_Z": 65535,
    "MAX_SHARED_MEMORY_PER_BLOCK": 49152,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 233472,
    "RESERVED_SHARED_MEMORY_PER_BLOCK": 1024,
    "WARP_SIZE": 32,
    "MULTIPROCESSOR_COUNT": 132,
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "MAX_REGISTERS_PER_BLOCK": 65536,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536,
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": 32,
    "L2_CACHE_SIZE": 62914560,
    "TOTAL_CONSTANT_MEMORY": 65536,
    "CLOCK_RATE": 1980000,
    "MEMORY_CLOCK_RATE": 3201000,
    "GLOBAL_MEMORY_BUS_WIDTH": 6016,
    "ASYNC_ENGINE_COUNT": 3,
    "ECC_ENABLED": 1,
    "INTEGRATED": 0,
    "UNIFIED_ADDRESSING": 1,
    "MANAGED_MEMORY": 1,
    "MEMORY_POOLS_SUPPORTED": 1,
    "CONCURRENT_KERNELS": 1,
    "COOPERATIVE_LAUNCH": 1,
    "CLUSTER_LAUNCH": 1,
    "PCI_DOMAIN_ID": 0,
    "PCI_BUS_ID": 0,
    "PCI_DEVICE_ID": 6,
}
UUID = "47ac4606-dbd4-7c4f-5f61-e8d3c3565328"
TOTAL = 150_109_880_320


class _Names:
    def __init__(self, known: set[str]) -> None:
        self._known = known

    def __getattr__(self, name: str) -> str:
        short = name.removeprefix("CU_DEVICE_ATTRIBUTE_")
        if short not in self._known:
            raise AttributeError(name)
        return short


class FakeApi:
    """The calls of ``cuda.bindings.driver`` that a description makes."""

    def __init__(self, answers: dict[str, int], name: str = "NVIDIA H200") -> None:
        self.answers = dict(answers)
        #: Attributes that the driver, but not the bindings, has never heard of.
        self.refused: set[str] = set()
        self.name = name
        self.free = 140_000_000_000
        self.CUdevice_attribute = _Names(set(answers))

    def cuDeviceGet(self, index: int) -> tuple[int, int]:
        return 0, index

    def cuDeviceGetName(self, length: int, handle: int) -> tuple[int, bytes]:
        return 0, self.name.encode() + b"\0"

    def cuDeviceTotalMem(self, handle: int) -> tuple[int, int]:
        return 0, TOTAL

    def cuDeviceGetAttribute(self, name: str, handle: int) -> tuple[int, int]:
        return (1, -1) if name in self.refused else (0, self.answers[name])

    def cuDeviceGetUuid(self, handle: int) -> tuple[int, Any]:
        return 0, SimpleNamespace(bytes=bytes.fromhex(UUID.replace("-", "")))

    def cuMemGetInfo(self) -> tuple[int, int, int]:
        return 0, self.free, TOTAL


class FakeDriver:
    """As much of ``targets.cuda.driver.driver.Driver`` as a description uses."""

    cuda_version = (13, 0)

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.contexts: dict[int, Any] = {}
        self.opened: list[int] = []

    def call(self, function: Any, *args: Any, doing: str) -> Any:
        status, *answer = function(*args)
        assert status == 0, doing
        return answer[0] if len(answer) == 1 else tuple(answer)

    def call_on(self, index: int, function: Any, *args: Any, doing: str) -> Any:
        self.opened.append(index)
        return self.call(function, *args, doing=doing)

    def describe(self) -> kd.DeviceInfo:
        return description.describe(self, describe_device(self.api, self.call, 0))  # type: ignore[arg-type]


class _NvmlError(Exception):
    pass


class NotSupportedError(_NvmlError):
    pass


class FakeNvml:
    """As much of ``cuda.bindings.nvml`` as is called."""

    NvmlError = _NvmlError

    def __init__(self) -> None:
        self.found: list[str] = []
        self.lacking: set[str] = set()
        self.started = 0

    def init_v2(self) -> None:
        self.started += 1

    def device_get_handle_by_uuid(self, uuid: str) -> int:
        self.found.append(uuid)
        return 0x100

    def device_get_device_handle_from_mig_device_handle(self, handle: int) -> int:
        return handle + 1

    def device_get_utilization_rates(self, handle: int) -> Any:
        if handle in self.lacking or "utilization" in self.lacking:
            raise NotSupportedError("Not Supported")
        return SimpleNamespace(gpu=0, memory=7)

    def device_get_temperature_v(self, handle: int, sensor: int) -> int:
        return 36 + handle - 0x100

    def device_get_power_usage(self, handle: int) -> int:
        return 130_185

    def device_get_enforced_power_limit(self, handle: int) -> int:
        return 700_000

    def device_get_clock_info(self, handle: int, domain: int) -> int:
        return {1: 345, 2: 2619}[domain]

    def device_get_max_clock_info(self, handle: int, domain: int) -> int:
        return {1: 1980, 2: 3201}[domain]

    def device_get_memory_bus_width(self, handle: int) -> int:
        return 6016

    def device_get_memory_info_v2(self, handle: int) -> Any:
        return SimpleNamespace(free=139_000_000_000)

    def device_get_compute_running_processes_v3(self, handle: int) -> Any:
        return [
            SimpleNamespace(pid=7, used_gpu_memory=2**20),
            SimpleNamespace(pid=8, used_gpu_memory=2**64 - 1),
        ]

    def system_get_driver_version(self) -> str:
        return "580.159.04"


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNvml]:
    fake = FakeNvml()
    package = ModuleType("cuda.bindings")
    package.nvml = fake  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda.bindings", package)
    nvml._initialize.cache_clear()
    yield fake
    nvml._initialize.cache_clear()


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver(FakeApi(H200))


def test_what_the_driver_says_is_there(driver: FakeDriver, library: FakeNvml) -> None:
    info = driver.describe()
    assert (str(info), info.name, info.kind, info.arch) == (
        "cuda:0",
        "NVIDIA H200",
        "discrete",
        "sm_90",
    )
    assert info.uuid == f"GPU-{UUID}"
    assert info.pci_address == "0000:00:06.0"
    assert info.compute_capability == (9, 0)
    assert info.total_memory_bytes == TOTAL
    assert info.max_grid_dim == (2147483647, 65535, 65535)
    assert info.max_shared_memory_per_block_bytes == 49152
    assert info.max_shared_memory_per_block_optin_bytes == 232448
    assert info.is_ecc_enabled is True
    assert info.is_integrated is False
    assert info.cuda_driver_version == (13, 0)
    assert info.peak_bandwidth_bytes_per_s == pytest.approx(4.814e12, rel=1e-3)
    assert "3201000 kHz · 6016 bits" in info.why("peak_bandwidth_bytes_per_s")
    assert library.started == 0, "nothing static needs NVML"


def test_live_values_come_from_nvml_by_uuid(driver: FakeDriver, library: FakeNvml) -> None:
    info = driver.describe()
    assert info.live() == {
        "free_memory_bytes": 139_000_000_000,
        "utilization_percent": 0.0,
        "memory_utilization_percent": 7.0,
        "temperature_celsius": 36.0,
        "power_watts": 130.185,
        "power_limit_watts": 700.0,
        "current_clock_mhz": 345.0,
        "current_memory_clock_mhz": 2619.0,
        "processes": ((7, 2**20), (8, None)),
    }
    assert info.driver_version == "580.159.04"
    assert library.found == [f"GPU-{UUID}"], "one look-up serves them all"
    assert driver.opened == [], "reading live values makes no context"


def test_free_memory_is_the_contexts_where_there_is_one(
    driver: FakeDriver, library: FakeNvml
) -> None:
    driver.contexts[0] = object()
    assert driver.describe().free_memory_bytes == driver.api.free
    assert library.started == 0


@pytest.mark.parametrize(
    ("attribute", "field"),
    [
        ("L2_CACHE_SIZE", "l2_cache_bytes"),
        ("TOTAL_CONSTANT_MEMORY", "constant_memory_bytes"),
        ("MAX_BLOCKS_PER_MULTIPROCESSOR", "max_blocks_per_multiprocessor"),
        ("MAX_REGISTERS_PER_BLOCK", "max_registers_per_block"),
    ],
)
def test_a_zero_that_means_unknown_raises(
    driver: FakeDriver, library: FakeNvml, attribute: str, field: str
) -> None:
    driver.api.answers[attribute] = 0
    info = driver.describe()
    with pytest.raises(kd.AttributeUnavailableError, match=f"{attribute}: it does not know"):
        getattr(info, field)
    found = info.to_dict()
    assert found[field] is None
    assert attribute in found["unavailable"][field]


@pytest.mark.parametrize("attribute", ["ASYNC_ENGINE_COUNT", "RESERVED_SHARED_MEMORY_PER_BLOCK"])
def test_a_zero_that_means_none_is_zero(
    driver: FakeDriver, library: FakeNvml, attribute: str
) -> None:
    driver.api.answers[attribute] = 0
    found = driver.describe().to_dict(live=False)
    name = {"ASYNC_ENGINE_COUNT": "async_engine_count"}.get(
        attribute, "reserved_shared_memory_per_block_bytes"
    )
    assert found[name] == 0
    assert name not in found["unavailable"]


def test_clocks_that_the_driver_does_not_know_are_asked_of_nvml(
    driver: FakeDriver, library: FakeNvml
) -> None:
    for name in ("CLOCK_RATE", "MEMORY_CLOCK_RATE", "GLOBAL_MEMORY_BUS_WIDTH"):
        driver.api.answers[name] = 0
    info = driver.describe()
    assert (info.clock_rate_khz, info.memory_clock_rate_khz) == (1_980_000, 3_201_000)
    assert info.memory_bus_width_bits == 6016
    assert info.peak_bandwidth_bytes_per_s == pytest.approx(4.814e12, rel=1e-3)


def test_an_old_driver_or_old_bindings_make_an_attribute_unavailable(library: FakeNvml) -> None:
    answers = dict(H200)
    del answers["CLUSTER_LAUNCH"]
    driver = FakeDriver(FakeApi(answers))
    driver.api.refused = {"MEMORY_POOLS_SUPPORTED", "MAX_BLOCKS_PER_MULTIPROCESSOR"}
    info = driver.describe()
    for name in (
        "supports_cluster_launch",
        "supports_memory_pools",
        "max_blocks_per_multiprocessor",
    ):
        with pytest.raises(kd.AttributeUnavailableError, match="do not know"):
            getattr(info, name)
        assert not hasattr(info, name)


def test_what_nvml_refuses_is_told_with_its_words(driver: FakeDriver, library: FakeNvml) -> None:
    library.lacking = {"utilization"}  # type: ignore[assignment]
    info = driver.describe()
    with pytest.raises(kd.AttributeUnavailableError, match="NotSupported to device_get_util"):
        info.utilization_percent
    assert info.live()["utilization_percent"] is None
    assert info.temperature_celsius == 36.0


def test_an_instance_of_a_gpu_is_found_as_one(library: FakeNvml) -> None:
    driver = FakeDriver(FakeApi(H200, "NVIDIA H200 MIG 1g.18gb"))
    library.lacking = {0x100}  # type: ignore[assignment]
    info = driver.describe()
    assert info.uuid == f"MIG-{UUID}"
    assert info.temperature_celsius == 37.0, "the whole GPU's"
    assert library.found == [f"MIG-{UUID}"]
    with pytest.raises(kd.AttributeUnavailableError):
        info.utilization_percent


def test_without_nvml_the_reason_is_told_and_free_memory_is_the_drivers(
    driver: FakeDriver, library: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: FakeNvml) -> None:
        raise RuntimeError("no library")

    monkeypatch.setattr(FakeNvml, "init_v2", refuse)
    info = driver.describe()
    with pytest.raises(kd.AttributeUnavailableError, match=r"libnvidia-ml\.so\.1"):
        info.power_watts
    assert info.free_memory_bytes == driver.api.free
    assert driver.opened == [0]


def test_bindings_without_nvml_are_named(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", ModuleType("cuda.bindings"))
    # An earlier test may have imported it.
    monkeypatch.delitem(sys.modules, "cuda.bindings.nvml", raising=False)
    nvml._initialize.cache_clear()
    with pytest.raises(kd.AttributeUnavailableError, match="the installed cuda-bindings lack"):
        driver.describe().power_watts


@pytest.mark.parametrize(
    ("name", "integrated", "kind"),
    [
        ("NVIDIA H200", 0, "discrete"),
        ("NVIDIA A100-SXM4-80GB", 0, "discrete"),
        ("NVIDIA A100-PCIE-40GB", 0, "discrete"),
        ("GRID T4-8Q", 0, "virtual"),
        ("NVIDIA A16-4Q", 0, "virtual"),
        ("NVIDIA A100-1-5C", 0, "virtual"),
        ("NVIDIA A100-4-20CME", 0, "virtual"),
        ("Orin", 1, "integrated"),
    ],
)
def test_kinds(library: FakeNvml, name: str, integrated: int, kind: str) -> None:
    driver = FakeDriver(FakeApi({**H200, "INTEGRATED": integrated}, name))
    assert driver.describe().kind == kind


@pytest.mark.parametrize(
    ("name", "capability", "expected"),
    [
        ("GeForce GTX 1050", (6, 1), (True, False, False, False)),
        ("Tesla M40", (5, 2), (False, False, False, False)),
        ("Tesla V100", (7, 0), (True, False, False, True)),
        ("Tesla T4", (7, 5), (True, False, False, True)),
        ("NVIDIA GeForce GTX 1650", (7, 5), (True, False, False, False)),
        ("NVIDIA T1000", (7, 5), (True, False, False, False)),
        ("NVIDIA A100", (8, 0), (True, True, False, True)),
        ("NVIDIA L4", (8, 9), (True, True, True, True)),
        ("NVIDIA B200", (10, 0), (True, True, True, True)),
    ],
)
def test_numbers_and_units_by_compute_capability(
    name: str, capability: tuple[int, int], expected: tuple[bool, ...]
) -> None:
    found = abilities_of(name, capability)
    names = ("supports_fp16", "supports_bf16", "supports_fp8", "supports_tensor_cores")
    assert tuple(found[n][0] for n in names) == expected
    assert all(len(found[n][1]) > 20 for n in names)


def test_every_attribute_of_a_gpu_is_spoken_of(driver: FakeDriver, library: FakeNvml) -> None:
    found = driver.describe().to_dict()
    missing = {name for name, value in found.items() if value is None}
    assert missing <= {"runtime_version"}, "an H200 with NVML answers everything else"
    assert set(found["unavailable"]) == missing


def test_the_bindings_know_every_attribute_by_the_name_used_here() -> None:
    bindings = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    known = {a.name.removeprefix("CU_DEVICE_ATTRIBUTE_") for a in bindings.CUdevice_attribute}
    assert {a.name for a in attributes.ATTRIBUTES.values()} <= known


def _target_with(
    monkeypatch: pytest.MonkeyPatch, *capabilities: tuple[int, int], cuda: tuple[int, int] = (13, 0)
) -> Any:
    """The CUDA target over a driver that shows devices of these compute capabilities."""
    from targets.cuda import target
    from targets.cuda.device import device

    found = []
    for index, (major, minor) in enumerate(capabilities):
        answers = {**H200, "COMPUTE_CAPABILITY_MAJOR": major, "COMPUTE_CAPABILITY_MINOR": minor}
        fake = FakeDriver(FakeApi(answers, f"card {index}"))
        found.append(describe_device(fake.api, fake.call, index))
    shown = tuple(found)
    driver = SimpleNamespace(cuda_version=cuda, devices=lambda: shown)
    for module in (device, target):
        monkeypatch.setattr(module, "get_driver", lambda: driver)
    return target.CudaTarget()


def test_a_card_that_is_too_old_does_not_hide_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    target = _target_with(monkeypatch, (5, 2), (8, 6))
    assert target.unavailable_reason() is None
    old, new = target.devices()
    assert "card 0 is sm_52" in old.unusable_reason()
    assert new.unusable_reason() is None


def test_a_card_newer_than_its_driver_does_not_hide_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = _target_with(monkeypatch, (12, 0), (8, 6), cuda=(12, 2))
    assert target.unavailable_reason() is None
    new, old = target.devices()
    assert "needs CUDA 12.8 (driver 570)" in new.unusable_reason()
    assert old.unusable_reason() is None


def test_only_cards_that_are_too_old_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    target = _target_with(monkeypatch, (5, 2), (3, 7))
    assert "card 0 is sm_52" in target.unavailable_reason()
    assert target.devices() == ()
