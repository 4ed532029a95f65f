"""A kernel in debug mode: the fault record is passed, read back and raised."""

from __future__ import annotations

import ctypes
import itertools
import struct
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kerneldsl.contract import CompileOptions, LaunchConfig, Specialization
from kerneldsl.contract.abi import EXPLICIT, ParameterLayout
from kerneldsl.errors import KernelFault, ResourceLimitError, SourceLocation
from kerneldsl.language.signatures import parse_signature
from kerneldsl.lowering.faults import FAULT_RECORD_BYTES, FaultSite, FaultTable
from kerneldsl.planner import DeviceOccupancyLimits, KernelResources, occupancy
from targets import null
from targets.cuda.architectures import ARCHITECTURES
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.device import device as cuda_device
from targets.cuda.device.carveout import Carveout
from targets.cuda.device.executable import CudaExecutable
from targets.cuda.device.streams import LEGACY_DEFAULT_STREAM
from targets.cuda.driver.driver import Driver
from tests.support.driver_bindings import FakeBindings, Status

_SITE = FaultSite(IndexError, "", SourceLocation("kernel.py", 12), "out")


class MemoryBindings(FakeBindings):
    """Bindings whose device memory is host memory, and whose kernels write a given fault record."""

    def __init__(self, record: bytes) -> None:
        super().__init__()
        self.record = record
        self.held: dict[int, Any] = {}

    def do_cuMemAlloc(self, nbytes: int) -> tuple[Any, ...]:
        block = ctypes.create_string_buffer(b"\xff" * nbytes, nbytes)
        self.held[ctypes.addressof(block)] = block
        return (ctypes.addressof(block),)

    def do_cuMemsetD8Async(self, to: int, value: int, nbytes: int, stream: int) -> tuple[Any, ...]:
        ctypes.memset(to, value, nbytes)
        return ()

    def do_cuMemcpyDtoH(self, to: int, source: int, nbytes: int) -> tuple[Any, ...]:
        ctypes.memmove(to, source, nbytes)
        return ()

    def do_cuLaunchKernel(self, *args: Any) -> tuple[Any, ...]:
        super().do_cuLaunchKernel(*args)
        (pointer,) = struct.unpack("=Q", self.launched[-8:])
        assert bytes(self.held[pointer]) == bytes(FAULT_RECORD_BYTES)  # it was cleared
        ctypes.memmove(pointer, self.record, len(self.record))
        return ()


@pytest.fixture(autouse=True)
def live_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let devices use the driver of the executable that was made last."""
    monkeypatch.setattr(cuda_device, "get_driver", lambda: _driver)


_driver: Driver | None = None


def _executable(api: FakeBindings, *, debug: bool) -> CudaExecutable:
    global _driver
    kinds = parse_signature("float32[::1], int8")
    specialization = SimpleNamespace(
        unit=SimpleNamespace(name="k", linked_functions=tuple),
        options=CompileOptions(debug=debug),
        layout=ParameterLayout(("out", "flag"), kinds, EXPLICIT, debug),
    )
    artifact = CudaArtifact(
        cast(Specialization, specialization),
        "k",
        ptx=".version 7.0",
        llvm="",
        arch=ARCHITECTURES["sm_61"],
        ptx_version=(7, 0),
        timings={},
        fault_table=FaultTable((_SITE,)),
    )
    _driver = Driver(api)
    (described, *_) = _driver.devices()
    device = cuda_device.CudaDevice.from_description(described)
    return CudaExecutable(_driver, artifact, device)


_PACKED = struct.pack("=QqB", 0, 0, 1)
_CONFIG = LaunchConfig((1, 1, 1), (32, 1, 1))


def test_a_recorded_fault_is_raised() -> None:
    record = struct.pack("=iiiiqqiiiiii", 1, 0, 0, 0, 100, 64, 4, 0, 0, 3, 0, 0)
    api = MemoryBindings(record)
    with pytest.raises(IndexError, match="Index 100 is out of range for axis 0 of out") as caught:
        _executable(api, debug=True).launch(_CONFIG, _PACKED)
    fault = caught.value
    assert isinstance(fault, KernelFault)
    assert (fault.thread_idx, fault.block_idx) == ((4, 0, 0), (3, 0, 0))
    assert len(api.launched) == 32  # the pointer is aligned to 8 bytes
    names = api.names()
    assert names.index("cuLaunchKernel") < names.index("cuStreamSynchronize")


def test_an_empty_record_raises_nothing_and_is_freed() -> None:
    api = MemoryBindings(bytes(FAULT_RECORD_BYTES))
    _executable(api, debug=True).launch(_CONFIG, _PACKED)
    assert "cuMemFree" in api.names()


def test_without_debug_mode_nothing_waits() -> None:
    api = FakeBindings()
    _executable(api, debug=False).launch(_CONFIG, _PACKED)
    assert api.launched == _PACKED
    assert "cuStreamSynchronize" not in api.names()


def test_a_block_the_kernel_cannot_have_never_reaches_the_driver() -> None:
    api = FakeBindings()  # whose functions allow 512 threads
    with pytest.raises(ResourceLimitError, match="1024 threads"):
        _executable(api, debug=False).launch(LaunchConfig((1, 1, 1), (1024, 1, 1)), _PACKED)
    assert "cuLaunchKernel" not in api.names()


@pytest.mark.parametrize(("dynamic", "opts_in"), [(47 * 1024, False), (47 * 1024 + 1, True)])
def test_shared_memory_beyond_48_kb_is_asked_for_once(dynamic: int, opts_in: bool) -> None:
    api = FakeBindings()  # whose functions have 1 KB of static shared memory
    executable = _executable(api, debug=False)
    limits = replace(executable.device.limits, max_shared_memory_per_block=100_000)
    executable.device = replace(executable.device, limits=limits)
    for _ in range(2):
        executable.launch(LaunchConfig((1, 1, 1), (32, 1, 1), shared_bytes=dynamic), _PACKED)
    asked = [call for call in api.calls if call[0] == "cuFuncSetAttribute"]
    wanted = ("cuFuncSetAttribute", 0x99, "MAX_DYNAMIC_SHARED_SIZE_BYTES", 100_000 - 1024)
    assert asked == ([wanted] if opts_in else [])


def test_shared_memory_is_asked_to_hold_the_blocks_of_a_launch() -> None:
    api = FakeBindings()  # whose functions have 40 registers, and 1 KB of static shared memory
    executable = _executable(api, debug=False)
    executable.launch(_CONFIG, _PACKED)
    assert "cuFuncSetAttribute" not in api.names()  # nothing is known of so old a card
    executable = _executable(api, debug=False)
    executable.device = null.H100
    executable._carveout = Carveout(null.H100, executable.resources)
    limits = DeviceOccupancyLimits.from_device(null.H100)
    kernel = KernelResources.from_resources(executable.resources, limits)
    wanted = []
    shapes = ((256, 8_000), (256, 0), (256, 8_000), (512, 60_000), (32, 100_000))
    for threads, dynamic in shapes:
        executable.launch(LaunchConfig((1, 1, 1), (threads, 1, 1), shared_bytes=dynamic), _PACKED)
        held = occupancy(limits, kernel, threads, dynamic)
        wanted.append(limits.carveout_percent(held.sufficient_carveout_bytes))
    assert wanted[1] < wanted[0] < wanted[3]
    asked = [
        call[-1]
        for call in api.calls
        if call[:3] == ("cuFuncSetAttribute", 0x99, "PREFERRED_SHARED_MEMORY_CARVEOUT")
    ]
    # Never less than another launch of the function wanted.
    assert asked == list(dict.fromkeys(itertools.accumulate(wanted, max)))


def test_a_driver_that_knows_no_carve_out_launches_nevertheless() -> None:
    api = FakeBindings()
    executable = _executable(api, debug=False)
    executable.device = null.H100
    executable._carveout = Carveout(null.H100, executable.resources)
    api.failures["cuFuncSetAttribute"] = Status(801, "CUDA_ERROR_NOT_SUPPORTED")
    executable.launch(LaunchConfig((1, 1, 1), (256, 1, 1)), _PACKED)
    assert "cuFuncSetAttribute" in api.names()
    assert api.launched == _PACKED


class ProcAddresses(FakeBindings):
    """Bindings that know where the driver's functions are."""

    known = 3

    def do_cuGetProcAddress(self, name: bytes, version: int, flags: int) -> tuple[Any, ...]:
        assert (version, flags) == (12000, 1)
        names = [b"cuLaunchKernel", b"cuCtxGetCurrent", b"cuCtxSetCurrent"][: self.known]
        return (0x7F00 + names.index(name) if name in names else 0, 0)


def test_native_code_is_told_where_everything_is() -> None:
    api = ProcAddresses()
    executable = _executable(api, debug=False)
    driver, function = executable._driver, executable._function
    entry = executable.native_entry(_CONFIG)
    assert entry is not None
    assert (entry.launch, entry.get_context, entry.set_context) == (0x7F00, 0x7F01, 0x7F02)
    assert (entry.context, entry.may_stay) == (driver.contexts[0][1], True)
    assert (entry.function, entry.stream) == (int(function.handle), LEGACY_DEFAULT_STREAM)
    assert (entry.grid_dim, entry.block_dim) == (_CONFIG.grid_dim, _CONFIG.block_dim)
    entry.note(entry.noted)
    executable.launch(_CONFIG, _PACKED)
    first, second = driver.watch.launches(0)
    assert first == second  # what Python notes of the same launch
    executable.native_entry(_CONFIG)
    assert api.names().count("cuGetProcAddress") == 3


def test_a_first_launch_by_native_code_may_have_much_shared_memory() -> None:
    api = ProcAddresses()
    executable = _executable(api, debug=False)
    executable._allowed_shared_bytes = -1  # as of a kernel with more than 48 KiB of its own
    before = api.names().count("cuFuncSetAttribute")
    assert executable.native_entry(_CONFIG) is not None
    assert api.names().count("cuFuncSetAttribute") > before
    assert executable._allowed_shared_bytes > 0


def test_native_code_is_told_nothing_of_a_driver_that_is_not_known() -> None:
    api = ProcAddresses()
    api.known = 2
    assert _executable(api, debug=False).native_entry(_CONFIG) is None
    assert _executable(ProcAddresses(), debug=True).native_entry(_CONFIG) is None
    lost = _executable(ProcAddresses(), debug=False)
    lost._driver.contexts.clear()
    assert lost.native_entry(_CONFIG) is None
