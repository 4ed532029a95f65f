"""Interface of targets: the contract (:mod:`~kerneldsl.contract.contract`) and its values.

A name is imported when it is requested: to decorate a function takes little of this.
"""

from __future__ import annotations

from typing import Any

#: Name to its module. The stub for type checkers is made of it.
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
