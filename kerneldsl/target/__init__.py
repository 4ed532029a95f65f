"""What a target is: the contract (:mod:`~kerneldsl.target.contract`) and what it speaks of.

A name is imported when it is asked for: to decorate a function takes little of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kerneldsl.target.checks import Check, CheckStatus
    from kerneldsl.target.code import (
        Artifact,
        Executable,
        HostShare,
        LaunchConfig,
        Resources,
        Specialization,
        UnusableCodeError,
    )
    from kerneldsl.target.contract import Compiler, Target
    from kerneldsl.target.device import Device
    from kerneldsl.target.element_mapping import ONE_EACH, ElementMapping
    from kerneldsl.target.entry import MemoryType, TargetEntry
    from kerneldsl.target.info import DeviceInfo, DeviceLike
    from kerneldsl.target.limits import DeviceKind, DeviceLimits, Dim3
    from kerneldsl.target.memory import Buffer, PoolBackend, SharedBuffer
    from kerneldsl.target.native import DriverEntry, Holds, HostEntry, NativeEntry
    from kerneldsl.target.options import CompileOptions
    from kerneldsl.target.promises import NO_PROMISES, ArrayPromises, Promises
    from kerneldsl.target.streams import (
        DeviceEvent,
        DeviceGraph,
        DeviceStream,
        Recording,
        names_default_stream,
    )
    from kerneldsl.target.timer import LaunchTimer

__all__ = [
    "NO_PROMISES",
    "ONE_EACH",
    "ArrayPromises",
    "Artifact",
    "Buffer",
    "Check",
    "CheckStatus",
    "CompileOptions",
    "Compiler",
    "Device",
    "DeviceEvent",
    "DeviceGraph",
    "DeviceInfo",
    "DeviceKind",
    "DeviceLike",
    "DeviceLimits",
    "DeviceStream",
    "Dim3",
    "DriverEntry",
    "ElementMapping",
    "Executable",
    "Holds",
    "HostEntry",
    "HostShare",
    "LaunchConfig",
    "LaunchTimer",
    "MemoryType",
    "NativeEntry",
    "PoolBackend",
    "Promises",
    "Recording",
    "Resources",
    "SharedBuffer",
    "Specialization",
    "Target",
    "TargetEntry",
    "UnusableCodeError",
    "names_default_stream",
]

_HOME = {
    name: f"kerneldsl.target.{module}"
    for module, names in {
        "checks": "Check CheckStatus",
        "code": "Artifact Executable HostShare LaunchConfig Resources Specialization "
        "UnusableCodeError",
        "contract": "Compiler Target",
        "device": "Device",
        "element_mapping": "ONE_EACH ElementMapping",
        "entry": "MemoryType TargetEntry",
        "info": "DeviceInfo DeviceLike",
        "limits": "DeviceKind DeviceLimits Dim3",
        "memory": "Buffer PoolBackend SharedBuffer",
        "native": "DriverEntry Holds HostEntry NativeEntry",
        "options": "CompileOptions",
        "promises": "NO_PROMISES ArrayPromises Promises",
        "streams": "DeviceEvent DeviceGraph DeviceStream Recording names_default_stream",
        "timer": "LaunchTimer",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
