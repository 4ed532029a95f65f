"""What a target is: the contract (:mod:`~kerneldsl.target.contract`) and what it speaks of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kerneldsl.target.code import (
    Artifact,
    CompileOptions,
    Executable,
    HostShare,
    LaunchConfig,
    Resources,
    Specialization,
    UnusableCodeError,
)
from kerneldsl.target.contract import Target
from kerneldsl.target.device import Device, DeviceKind, DeviceLimits, Dim3
from kerneldsl.target.element_mapping import ONE_EACH, ElementMapping
from kerneldsl.target.info import DeviceInfo, DeviceLike
from kerneldsl.target.memory import Buffer, PoolBackend, SharedBuffer
from kerneldsl.target.promises import NO_PROMISES, ArrayPromises, Promises
from kerneldsl.target.streams import (
    DeviceEvent,
    DeviceGraph,
    DeviceStream,
    Recording,
    names_default_stream,
)
from kerneldsl.target.timer import LaunchTimer

if TYPE_CHECKING:
    from kerneldsl.target.checks import Check, CheckStatus
    from kerneldsl.target.native import DriverEntry, Holds, HostEntry, NativeEntry

__all__ = [
    "NO_PROMISES",
    "ONE_EACH",
    "ArrayPromises",
    "Artifact",
    "Buffer",
    "Check",
    "CheckStatus",
    "CompileOptions",
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
    "NativeEntry",
    "PoolBackend",
    "Promises",
    "Recording",
    "Resources",
    "SharedBuffer",
    "Specialization",
    "Target",
    "UnusableCodeError",
    "names_default_stream",
]

#: What a first launch does without is imported when it is asked for.
_LATE = {
    **dict.fromkeys(("Check", "CheckStatus"), "kerneldsl.target.checks"),
    **dict.fromkeys(
        ("DriverEntry", "Holds", "HostEntry", "NativeEntry"), "kerneldsl.target.native"
    ),
}


def __getattr__(name: str) -> Any:
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(module), name)
