"""Two tiny targets whose kernels are Python callables, to test the neutral half of a launch."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from kerneldsl.contract import (
    Artifact,
    Compiler,
    Device,
    DeviceLimits,
    Executable,
    LaunchConfig,
    MemoryType,
    PoolBackend,
    Resources,
    Specialization,
    Target,
)
from kerneldsl.contract.abi import ParameterLayout
from kerneldsl.placement import devices as placement
from kerneldsl.placement import registry
from kerneldsl.placement.registry import built_in_targets

__all__ = ["FakeDevice", "FakeTarget", "installed"]

LIMITS = DeviceLimits(1024, (1024, 1024, 64), (2**31 - 1, 65535, 65535), 49152, 32, 4)


class _Artifact(Artifact):
    def __init__(self, specialization: Specialization) -> None:
        self.specialization = specialization
        self.entry_name = specialization.unit.name
        self.timings: dict[str, float] = {}

    def text(self, form: str) -> str:
        if form != "source":
            raise ValueError(f"no form {form!r}; forms are source")
        return self.specialization.unit.source()

    def resources(self) -> Resources:
        return Resources(None, None, None, 0, 1024)


class _Executable(Executable):
    def __init__(self, target: FakeTarget, artifact: Artifact, device: Device) -> None:
        self.target = target
        self.artifact = artifact
        self.device = device

    def launch(self, config: LaunchConfig, parameters: bytes) -> None:
        made = self.artifact.specialization
        layout = ParameterLayout(made.unit.parameters, made.kinds, made.mode)
        values = layout.packer.unpack(parameters)
        named = {p.name: v for p, v in zip(layout.parameters, values, strict=True)}
        self.target.launches.append((self.device, config, named))
        if self.target.body is not None:
            self.target.body(config, named)


class _Pool(PoolBackend):
    def __init__(self, target: FakeTarget, device: Device) -> None:
        self.device = device
        self._target = target
        self._memory: dict[int, np.ndarray[Any, Any]] = {}

    def acquire(self, nbytes: int, stream: Any) -> tuple[int, bool]:
        memory = np.zeros(nbytes + 256, np.uint8)
        pointer = -(-memory.ctypes.data // 256) * 256
        self._memory[pointer] = memory
        self._target.buffers.append(nbytes)
        return pointer, True

    def release(self, pointer: int, nbytes: int, stream: Any, used_on: Sequence[Any]) -> None:
        del self._memory[pointer]

    def reserved_bytes(self) -> int:
        return sum(memory.nbytes - 256 for memory in self._memory.values())

    def trim(self, keep_bytes: int) -> None:
        pass

    def close(self) -> None:
        pass


class FakeDevice(Device):
    """Memory of its own (or the host's); what is asked of it, its target may override."""

    def __init__(self, description: Device, owner: FakeTarget) -> None:
        super().__init__(**vars(description))
        vars(self)["owner"] = owner

    @property
    def is_host(self) -> bool:  # type: ignore[override]
        return self.owner.is_host

    @property
    def shares_host_memory(self) -> bool:  # type: ignore[override]
        return self.owner.is_host

    @property
    def is_synchronous(self) -> bool:  # type: ignore[override]
        return self.owner.is_host

    @property
    def memory_type(self) -> MemoryType | None:  # type: ignore[override]
        if self.is_host:
            return MemoryType.CPU
        known = built_in_targets().get(self.target)
        return known.memory[0] if known is not None and known.memory else None

    @property
    def compiler(self) -> FakeTarget:
        return self.owner

    def load(self, artifact: Artifact) -> Executable:
        return self.owner.executable(self.owner, artifact, self)

    def create_pool(self) -> PoolBackend:
        return _Pool(self.owner, self)

    def copy_on_device(
        self, destination: int, source: int, nbytes: int, stream: Any = None
    ) -> None:
        ctypes.memmove(destination, source, nbytes)

    def copy_from_host(
        self,
        destination: int,
        source: int,
        nbytes: int,
        stream: Any = None,
        *,
        blocking: bool = True,
    ) -> None:
        ctypes.memmove(destination, source, nbytes)

    copy_to_host = copy_from_host

    def synchronize(self) -> None:
        pass

    def wait_stream(self, stream: Any, earlier: Any) -> None:
        self.owner.waits.append((stream, earlier))


class FakeTarget(Target, Compiler):
    """Devices with memory of their own (or the host's), and kernels that are callables."""

    #: What its devices and its loaded code are.
    device: type[FakeDevice] = FakeDevice
    executable: type[_Executable] = _Executable

    def __init__(self, name: str = "fake", *, is_host: bool = False, devices: int = 2) -> None:
        self.name = name
        self.compiler = self
        self.is_host = is_host
        self.describe_devices(
            *(Device(name, i, f"fake {i}", "sm_fake", LIMITS) for i in range(devices))
        )
        self.body: Callable[[LaunchConfig, dict[str, Any]], None] | None = None
        self.launches: list[tuple[Device, LaunchConfig, dict[str, Any]]] = []
        self.compiled: list[Specialization] = []
        self.buffers: list[int] = []
        self.waits: list[tuple[Any, Any]] = []
        self.compile_seconds = 0.0
        self.block_matters = False
        self._lock = threading.Lock()

    def describe_devices(self, *descriptions: Device) -> None:
        """Have these devices from now on."""
        self.found = tuple(self.device(each, self) for each in descriptions)

    def unavailable_reason(self) -> str | None:
        return None if self.found else "it is a fake without devices"

    def devices(self) -> tuple[Device, ...]:
        return self.found

    def compiles_for_block(self, traits: Any) -> bool:
        return self.block_matters

    def forall_config(
        self, executable: Executable, extent: tuple[int, ...], block_dim: Any
    ) -> LaunchConfig:
        block = block_dim or (64, 1, 1)
        x, y, z = (*extent, 1, 1)[:3]
        grid = tuple(-(-n // b) for n, b in zip((x, y, z), block, strict=True))
        return LaunchConfig(grid, block, extent)  # type: ignore[arg-type]

    def compile(self, specialization: Specialization) -> Artifact:
        time.sleep(self.compile_seconds)
        with self._lock:
            self.compiled.append(specialization)
        return _Artifact(specialization)


@contextmanager
def installed(target: FakeTarget) -> Iterator[FakeTarget]:
    """A ``with`` block in which the registry knows the target."""
    before = registry._targets.get(target.name)
    registry._targets[target.name] = target
    try:
        yield target
    finally:
        if before is None:
            del registry._targets[target.name]
        else:
            registry._targets[target.name] = before
        for key in [k for k in placement._used if k[0] == target.name]:
            del placement._used[key]
        # The device that KERNELDSL_TARGET named last; it may be one of these.
        placement._from_environment = None
