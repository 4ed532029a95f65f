"""Interface of targets: the contract (:mod:`~kerneldsl.contract.contract`) and its values.

A name is imported when it is requested: to decorate a function takes little of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kerneldsl.contract.checks import Check as Check, CheckStatus as CheckStatus
    from kerneldsl.contract.code import (
        Artifact as Artifact,
        Executable as Executable,
        HostShare as HostShare,
        LaunchConfig as LaunchConfig,
        Resources as Resources,
        Specialization as Specialization,
        UnusableCodeError as UnusableCodeError,
    )
    from kerneldsl.contract.contract import Compiler as Compiler, Target as Target
    from kerneldsl.contract.device import Device as Device
    from kerneldsl.contract.element_mapping import (
        ONE_EACH as ONE_EACH,
        ElementMapping as ElementMapping,
    )
    from kerneldsl.contract.entry import MemoryType as MemoryType, TargetEntry as TargetEntry
    from kerneldsl.contract.info import DeviceInfo as DeviceInfo, DeviceLike as DeviceLike
    from kerneldsl.contract.limits import (
        DeviceKind as DeviceKind,
        DeviceLimits as DeviceLimits,
        Dim3 as Dim3,
    )
    from kerneldsl.contract.memory import (
        Buffer as Buffer,
        PoolBackend as PoolBackend,
        SharedBuffer as SharedBuffer,
    )
    from kerneldsl.contract.native import (
        DriverEntry as DriverEntry,
        Holds as Holds,
        HostEntry as HostEntry,
        NativeEntry as NativeEntry,
    )
    from kerneldsl.contract.options import CompileOptions as CompileOptions
    from kerneldsl.contract.passes import (
        PassInfo as PassInfo,
        PassRemark as PassRemark,
        Report as Report,
        ignore_remark as ignore_remark,
    )
    from kerneldsl.contract.promises import (
        NO_PROMISES as NO_PROMISES,
        ArrayPromises as ArrayPromises,
        Promises as Promises,
    )
    from kerneldsl.contract.streams import (
        DeviceEvent as DeviceEvent,
        DeviceGraph as DeviceGraph,
        DeviceStream as DeviceStream,
        Recording as Recording,
        names_default_stream as names_default_stream,
    )
    from kerneldsl.contract.streams import LaunchTimer as LaunchTimer, Tracer as Tracer

_HOME = {
    name: f"kerneldsl.contract.{module}"
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
        "passes": "PassInfo PassRemark Report ignore_remark",
        "promises": "NO_PROMISES ArrayPromises Promises",
        "streams": "DeviceEvent DeviceGraph DeviceStream LaunchTimer Recording Tracer "
        "names_default_stream",
    }.items()
    for name in names.split()
}

# A test holds that the imports above are these names.
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
