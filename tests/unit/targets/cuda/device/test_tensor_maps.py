"""Launches of code that takes tensor maps, more threads and more shared memory."""

from __future__ import annotations

import ctypes
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from kerneldsl.contract import CompileOptions, LaunchConfig
from kerneldsl.contract.abi import ParameterLayout
from kerneldsl.contract.tensor_maps import TENSOR_MAP_BYTES, TensorMap
from kerneldsl.errors import DriverError, ResourceLimitError
from kerneldsl.language.signatures import parse_signature
from targets.cuda.architectures import ARCHITECTURES
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.compile.lowered import LaunchAdditions
from targets.cuda.device import device as cuda_device
from targets.cuda.device.executable import CudaExecutable
from targets.cuda.driver.driver import Driver
from tests.support.driver_bindings import FakeBindings, Status

_MAP = TensorMap(0, (1, 0), (64, 128), 128)
_CONFIG = LaunchConfig((7, 1, 1), (256, 1, 1))


class MapBindings(FakeBindings):
    """Bindings whose maps are their arguments."""

    #: Sizes of the parameters of the kernel.
    sizes: list[int]
    parameters: list[bytes]

    CUtensorMapDataType = CUtensorMapInterleave = CUtensorMapSwizzle = int
    CUtensorMapL2promotion = CUtensorMapFloatOOBfill = cuuint64_t = cuuint32_t = int

    def do_cuTensorMapEncodeTiled(self, *args: Any) -> tuple[Any, ...]:
        dtype, rank, address, extents, strides, box, ones, interleave, *rest = args
        swizzle, promotion, fill = rest
        words = (dtype, rank, address, *extents, *strides, *box, *ones, interleave, swizzle)
        room = ctypes.create_string_buffer(struct.pack(f"={len(words)}Q", *words), TENSOR_MAP_BYTES)
        assert (promotion, fill) == (3, 0)
        return (SimpleNamespace(getPtr=lambda: ctypes.addressof(room), room=room),)

    def do_cuLaunchKernel(self, *args: Any) -> tuple[Any, ...]:
        """Keep the parameters, each of which is passed by its address."""
        addresses = ctypes.cast(args[-2], ctypes.POINTER(ctypes.c_void_p))
        self.parameters = [
            ctypes.string_at(addresses[n], size) for n, size in enumerate(self.sizes)
        ]
        assert args[-1] == 0
        return ()

    def do_cuGetProcAddress(self, name: bytes, version: int, flags: int) -> tuple[Any, ...]:
        return (0x7F00 + len(name), 0)


@pytest.fixture
def made(monkeypatch):
    """An executable that takes a map of its only array, and the bindings of its driver."""

    def make(additions: LaunchAdditions) -> tuple[CudaExecutable, MapBindings]:
        api = MapBindings()
        specialization: Any = SimpleNamespace(
            unit=SimpleNamespace(name="k", linked_functions=tuple),
            options=CompileOptions(),
            layout=ParameterLayout(("a",), parse_signature("bfloat16[:, ::1]")),
        )
        artifact = CudaArtifact(
            specialization,
            "k",
            ptx=".version 8.0",
            llvm="",
            arch=ARCHITECTURES["sm_90a"],
            ptx_version=(8, 0),
            timings={},
            additions=additions,
        )
        api.sizes = [8] * 3 + [TENSOR_MAP_BYTES] * len(additions.tensor_maps)
        driver = Driver(api)
        monkeypatch.setattr(cuda_device, "get_driver", lambda: driver)
        (described, *_) = driver.devices()
        device = cuda_device.CudaDevice.from_description(described)
        return CudaExecutable(driver, artifact, device), api

    return make


def _packed(address: int, *shape: int) -> bytes:
    return struct.pack("=3q", address, *shape)


def test_maps_follow_the_arguments(made):
    executable, api = made(LaunchAdditions((_MAP, _MAP)))
    executable.launch(_CONFIG, _packed(512, 100, 64))
    *arguments, one, other = api.parameters
    assert b"".join(arguments) == _packed(512, 100, 64)
    assert struct.unpack("=11Q", one[:88]) == (9, 2, 512, 64, 100, 128, 64, 128, 1, 1, 0)
    assert one == other


def test_a_map_is_encoded_once_for_an_array(made):
    executable, api = made(LaunchAdditions((_MAP,)))
    for address in (512, 512, 1024, 512):
        executable.launch(_CONFIG, _packed(address, 100, 64))
    assert api.names().count("cuTensorMapEncodeTiled") == 2


def test_an_array_that_the_driver_refuses_is_an_error(made):
    executable, api = made(LaunchAdditions((_MAP,)))
    api.failures["cuTensorMapEncodeTiled"] = Status(1, "CUDA_ERROR_INVALID_VALUE")
    with pytest.raises(DriverError, match=r"describe an array of shape \(100, 64\)"):
        executable.launch(_CONFIG, _packed(512, 100, 64))
    assert "cuLaunchKernel" not in api.names()


def test_blocks_have_more_threads_than_a_launch_declares(made):
    executable, api = made(LaunchAdditions((_MAP,), threads=128))
    executable.launch(_CONFIG, _packed(512, 100, 64))
    launched = next(call for call in api.calls if call[0] == "cuLaunchKernel")
    assert launched[2:9] == (7, 1, 1, 384, 1, 1, 0)
    entry = executable.native_entry(_CONFIG)
    assert (entry.grid_dim, entry.block_dim) == ((7, 1, 1), (384, 1, 1))
    assert entry.encode == 0x7F00 + len("cuTensorMapEncodeTiled")


def test_a_block_is_refused_with_the_threads_that_are_added(made):
    executable, api = made(LaunchAdditions((_MAP,), threads=384))  # its functions allow 512
    with pytest.raises(ResourceLimitError, match="640 threads"):
        executable.launch(_CONFIG, _packed(512, 100, 64))
    assert "cuLaunchKernel" not in api.names()
