"""Every error that kerneldsl raises on purpose.

All are subclasses of :class:`KernelError`. An error has fields: *what* is wrong, *where* in the
user's kernel, the *value*, the *limit* that it broke and the origin of that limit, and the
*remedy*. The message is composed of these fields in this order. Errors about arguments are also
``TypeError`` or ``ValueError``, as Python users expect.
"""

from __future__ import annotations

from kerneldsl.errors.base import KernelError, KernelWarning, SourceLocation
from kerneldsl.errors.driver import (
    DeviceError,
    DeviceLostError,
    DeviceMemoryError,
    DriverCompileError,
    DriverError,
    DriverInitializationError,
    DriverSystemError,
    KernelImageError,
    LaunchError,
    OutOfMemoryError,
    StreamError,
)
from kerneldsl.errors.kernels import (
    ArgumentError,
    ArgumentOverflowError,
    ArgumentTypeError,
    ArgumentValueError,
    AttributeUnavailableError,
    BarrierDivergenceError,
    BarrierDivergenceWarning,
    CacheError,
    CacheWarning,
    ClosedResourceError,
    CompileError,
    DeviceCodeError,
    DeviceMismatchError,
    FallbackWarning,
    GraphError,
    KernelFault,
    KernelTypingError,
    LaunchConfigError,
    LibdeviceMissingError,
    NotShippedError,
    OutsideKernelError,
    ReadOnlyArrayError,
    ResourceLimitError,
    ShadowedPackageError,
    SourceUnavailableError,
    TargetUnavailableError,
    ToolMissingError,
    UndefinedAttributeError,
    UndefinedNameError,
    UnknownTargetError,
    UnsupportedConstructError,
    fault_class,
)

__all__ = [
    "ArgumentError",
    "ArgumentOverflowError",
    "ArgumentTypeError",
    "ArgumentValueError",
    "AttributeUnavailableError",
    "BarrierDivergenceError",
    "BarrierDivergenceWarning",
    "CacheError",
    "CacheWarning",
    "ClosedResourceError",
    "CompileError",
    "DeviceCodeError",
    "DeviceError",
    "DeviceLostError",
    "DeviceMemoryError",
    "DeviceMismatchError",
    "DriverCompileError",
    "DriverError",
    "DriverInitializationError",
    "DriverSystemError",
    "FallbackWarning",
    "GraphError",
    "KernelError",
    "KernelFault",
    "KernelImageError",
    "KernelTypingError",
    "KernelWarning",
    "LaunchConfigError",
    "LaunchError",
    "LibdeviceMissingError",
    "NotShippedError",
    "OutOfMemoryError",
    "OutsideKernelError",
    "ReadOnlyArrayError",
    "ResourceLimitError",
    "ShadowedPackageError",
    "SourceLocation",
    "SourceUnavailableError",
    "StreamError",
    "TargetUnavailableError",
    "ToolMissingError",
    "UndefinedAttributeError",
    "UndefinedNameError",
    "UnknownTargetError",
    "UnsupportedConstructError",
    "fault_class",
]

# Tracebacks name the module of a class: the one that programs import it from.
for _name in __all__:
    globals()[_name].__module__ = __name__
del _name
