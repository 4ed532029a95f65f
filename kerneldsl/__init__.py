"""kerneldsl: a kernel is a decorated Python function, for GPUs and CPUs alike.

>>> import kerneldsl as kd
>>> @kd.kernel
... def axpy(a, x, y, out):
...     i = kd.grid(1)
...     if i < out.size:
...         out[i] = a * x[i] + y[i]

``axpy.forall(out.size)(a, x, y, out)`` runs it over NumPy or device arrays on whatever the machine
has; ``axpy[grid, block](…)`` launches it explicitly.

Every name of the face is imported when it is first used, so importing the package costs almost
nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol

from kerneldsl._version import __version__

# Counting of references, the native launcher and Numba rely on the global interpreter lock.
if "free-threading" in sys.version:
    raise ImportError(
        f"kerneldsl cannot run in a free-threaded build of Python ({sys.executable}); "
        "use the ordinary build of the same version"
    )

if TYPE_CHECKING:
    from ml_dtypes import bfloat16 as bfloat16
    from numpy import (
        bool_,
        complex64,
        complex128,
        float16,
        float32,
        float64,
        int8,
        int16,
        int32,
        int64,
        uint8,
        uint16,
        uint32,
        uint64,
    )

    from kerneldsl import cache
    from kerneldsl.decorators import func, kernel
    from kerneldsl.detection import Backend, backends
    from kerneldsl.doctor import Check, Report, preflight
    from kerneldsl.error_entries import ErrorEntry
    from kerneldsl.error_history import ErrorLog, error_log
    from kerneldsl.errors import (
        ArgumentError,
        ArgumentTypeError,
        ArgumentValueError,
        AttributeUnavailableError,
        BarrierDivergenceError,
        BarrierDivergenceWarning,
        CacheError,
        CacheWarning,
        ClosedResourceError,
        CompileError,
        DeviceError,
        DeviceLostError,
        DeviceMemoryError,
        DeviceMismatchError,
        DriverCompileError,
        DriverError,
        DriverInitializationError,
        DriverSystemError,
        FallbackWarning,
        GraphError,
        KernelError,
        KernelFault,
        KernelImageError,
        KernelTypingError,
        KernelWarning,
        LaunchConfigError,
        LaunchError,
        LibdeviceMissingError,
        OutOfMemoryError,
        OutsideKernelError,
        ReadOnlyArrayError,
        ResourceLimitError,
        ShadowedPackageError,
        SourceLocation,
        SourceUnavailableError,
        StreamError,
        TargetUnavailableError,
        ToolMissingError,
        UnknownTargetError,
        UnsupportedConstructError,
    )
    from kerneldsl.kernels import DeviceFunction, Kernel
    from kerneldsl.language.intrinsics import (
        all_sync,
        any_sync,
        atomic,
        ballot_sync,
        grid,
        gridsize,
        local,
        popc,
        shared,
        shfl_down_sync,
        shfl_sync,
        shfl_up_sync,
        shfl_xor_sync,
        syncthreads,
        syncthreads_and,
        syncthreads_count,
        syncthreads_or,
        syncwarp,
        threadfence,
        threadfence_block,
        threadfence_system,
        uniform,
    )
    from kerneldsl.launches import BoundLaunch, Launch
    from kerneldsl.planner.plan import LaunchPlan, PlanAlternative
    from kerneldsl.planner.space import Space
    from kerneldsl.ranking import (
        Measurement,
        RankedDevice,
        Ranking,
        best_device,
        rank_devices,
        score,
    )
    from kerneldsl.registry import get_target
    from kerneldsl.runtime.fallback import fallback, fallback_policy
    from kerneldsl.runtime.memory.arrays import DeviceArray
    from kerneldsl.runtime.memory.copies import can_access_peer, copy, enable_peer_access
    from kerneldsl.runtime.memory.creation import (
        as_array,
        empty,
        empty_like,
        from_dlpack,
        full,
        full_like,
        ones,
        ones_like,
        to_device,
        zeros,
        zeros_like,
    )
    from kerneldsl.runtime.memory.host_memory import (
        managed_empty,
        mapped_view,
        pinned_copy,
        pinned_empty,
    )
    from kerneldsl.runtime.memory.memory_statistics import MemoryStatistics, PoolStatistics
    from kerneldsl.runtime.memory.pools import MemoryPool, memory_stats
    from kerneldsl.runtime.placement import (
        current_target,
        device_info,
        devices,
        synchronize,
        targets,
        use,
    )
    from kerneldsl.runtime.scores import Score
    from kerneldsl.runtime.statistics import reset_stats, stats
    from kerneldsl.runtime.statistics_values import (
        DeviceStatistics,
        KernelStatistics,
        Statistics,
    )
    from kerneldsl.runtime.streams.events import Event
    from kerneldsl.runtime.streams.graphs import Graph
    from kerneldsl.runtime.streams.stream_pool import StreamPool
    from kerneldsl.runtime.streams.streams import Stream, current_stream, default_stream
    from kerneldsl.target import Device, DeviceInfo, ElementMapping, HostShare
    from kerneldsl.timing import Timing
    from kerneldsl.versions import show_versions

    # Inside a kernel these are numbers, which is what a type checker has to know of them; the
    # objects are in kerneldsl.language.intrinsics.
    class _Index(Protocol):
        x: int
        y: int
        z: int

    threadIdx: _Index
    blockIdx: _Index
    blockDim: _Index
    gridDim: _Index
    laneid: int
    warpsize: int

#: Module to the names of the face that it holds.
_MODULES = {
    "numpy": (
        "bool_ complex64 complex128 float16 float32 float64 int8 int16 int32 int64 uint8 uint16 "
        "uint32 uint64"
    ),
    "ml_dtypes": "bfloat16",
    "kerneldsl": "cache",
    "kerneldsl.decorators": "func kernel",
    "kerneldsl.detection": "Backend backends",
    "kerneldsl.doctor": "Check Report preflight",
    "kerneldsl.error_entries": "ErrorEntry",
    "kerneldsl.error_history": "ErrorLog error_log",
    "kerneldsl.errors": (
        "ArgumentError ArgumentTypeError ArgumentValueError AttributeUnavailableError "
        "BarrierDivergenceError BarrierDivergenceWarning CacheError CacheWarning "
        "ClosedResourceError CompileError DeviceError DeviceLostError DeviceMemoryError "
        "DeviceMismatchError DriverCompileError DriverError DriverInitializationError "
        "DriverSystemError FallbackWarning GraphError KernelError KernelFault KernelImageError "
        "KernelTypingError KernelWarning LaunchConfigError LaunchError LibdeviceMissingError "
        "OutOfMemoryError OutsideKernelError ReadOnlyArrayError ResourceLimitError "
        "ShadowedPackageError SourceLocation SourceUnavailableError StreamError "
        "TargetUnavailableError ToolMissingError UnknownTargetError UnsupportedConstructError"
    ),
    "kerneldsl.kernels": "DeviceFunction Kernel",
    "kerneldsl.launches": "BoundLaunch Launch",
    "kerneldsl.language.intrinsics": (
        "all_sync any_sync atomic ballot_sync blockDim blockIdx grid gridDim gridsize laneid "
        "local popc shared shfl_down_sync shfl_sync shfl_up_sync shfl_xor_sync syncthreads "
        "syncthreads_and syncthreads_count syncthreads_or syncwarp threadIdx threadfence "
        "threadfence_block threadfence_system uniform warpsize"
    ),
    "kerneldsl.planner.plan": "LaunchPlan PlanAlternative",
    "kerneldsl.planner.space": "Space",
    "kerneldsl.ranking": "Measurement RankedDevice Ranking best_device rank_devices score",
    "kerneldsl.registry": "get_target",
    "kerneldsl.runtime.memory.arrays": "DeviceArray",
    "kerneldsl.runtime.memory.copies": "can_access_peer copy enable_peer_access",
    "kerneldsl.runtime.memory.creation": (
        "as_array empty empty_like from_dlpack full full_like ones ones_like to_device zeros "
        "zeros_like"
    ),
    "kerneldsl.runtime.fallback": "fallback fallback_policy",
    "kerneldsl.runtime.streams.events": "Event",
    "kerneldsl.runtime.streams.graphs": "Graph",
    "kerneldsl.runtime.memory.host_memory": "managed_empty mapped_view pinned_copy pinned_empty",
    "kerneldsl.runtime.memory.memory_statistics": "MemoryStatistics PoolStatistics",
    "kerneldsl.runtime.placement": "current_target device_info devices synchronize targets use",
    "kerneldsl.runtime.memory.pools": "MemoryPool memory_stats",
    "kerneldsl.runtime.statistics": "reset_stats stats",
    "kerneldsl.runtime.statistics_values": "DeviceStatistics KernelStatistics Statistics",
    "kerneldsl.runtime.streams.stream_pool": "StreamPool",
    "kerneldsl.runtime.streams.streams": "Stream current_stream default_stream",
    "kerneldsl.runtime.scores": "Score",
    "kerneldsl.target": "Device DeviceInfo ElementMapping HostShare",
    "kerneldsl.timing": "Timing",
    "kerneldsl.versions": "show_versions",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

# A test holds that this list, the imports above and the table are the same names, but for bfloat16:
# its package is optional, and `from kerneldsl import *` works without.
__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "ArgumentValueError",
    "AttributeUnavailableError",
    "Backend",
    "BarrierDivergenceError",
    "BarrierDivergenceWarning",
    "BoundLaunch",
    "CacheError",
    "CacheWarning",
    "Check",
    "ClosedResourceError",
    "CompileError",
    "Device",
    "DeviceArray",
    "DeviceError",
    "DeviceFunction",
    "DeviceInfo",
    "DeviceLostError",
    "DeviceMemoryError",
    "DeviceMismatchError",
    "DeviceStatistics",
    "DriverCompileError",
    "DriverError",
    "DriverInitializationError",
    "DriverSystemError",
    "ElementMapping",
    "ErrorEntry",
    "ErrorLog",
    "Event",
    "FallbackWarning",
    "Graph",
    "GraphError",
    "HostShare",
    "Kernel",
    "KernelError",
    "KernelFault",
    "KernelImageError",
    "KernelStatistics",
    "KernelTypingError",
    "KernelWarning",
    "Launch",
    "LaunchConfigError",
    "LaunchError",
    "LaunchPlan",
    "LibdeviceMissingError",
    "Measurement",
    "MemoryPool",
    "MemoryStatistics",
    "OutOfMemoryError",
    "OutsideKernelError",
    "PlanAlternative",
    "PoolStatistics",
    "RankedDevice",
    "Ranking",
    "ReadOnlyArrayError",
    "Report",
    "ResourceLimitError",
    "Score",
    "ShadowedPackageError",
    "SourceLocation",
    "SourceUnavailableError",
    "Space",
    "Statistics",
    "Stream",
    "StreamError",
    "StreamPool",
    "TargetUnavailableError",
    "Timing",
    "ToolMissingError",
    "UnknownTargetError",
    "UnsupportedConstructError",
    "__version__",
    "all_sync",
    "any_sync",
    "as_array",
    "atomic",
    "backends",
    "ballot_sync",
    "best_device",
    "blockDim",
    "blockIdx",
    "bool_",
    "cache",
    "can_access_peer",
    "complex64",
    "complex128",
    "copy",
    "current_stream",
    "current_target",
    "default_stream",
    "device_info",
    "devices",
    "empty",
    "empty_like",
    "enable_peer_access",
    "error_log",
    "fallback",
    "fallback_policy",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "full",
    "full_like",
    "func",
    "get_target",
    "grid",
    "gridDim",
    "gridsize",
    "int8",
    "int16",
    "int32",
    "int64",
    "kernel",
    "laneid",
    "local",
    "managed_empty",
    "mapped_view",
    "memory_stats",
    "ones",
    "ones_like",
    "pinned_copy",
    "pinned_empty",
    "popc",
    "preflight",
    "rank_devices",
    "reset_stats",
    "score",
    "shared",
    "shfl_down_sync",
    "shfl_sync",
    "shfl_up_sync",
    "shfl_xor_sync",
    "show_versions",
    "stats",
    "synchronize",
    "syncthreads",
    "syncthreads_and",
    "syncthreads_count",
    "syncthreads_or",
    "syncwarp",
    "targets",
    "threadIdx",
    "threadfence",
    "threadfence_block",
    "threadfence_system",
    "to_device",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "uniform",
    "use",
    "warpsize",
    "zeros",
    "zeros_like",
]


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'kerneldsl' has no attribute {name!r}")
    from importlib import import_module

    try:
        # A part of the face that is a module itself, or a name in one.
        value = globals()[name] = (
            import_module(f"{module}.{name}")
            if module == __name__
            else getattr(import_module(module), name)
        )
    except ModuleNotFoundError as error:
        if module != "ml_dtypes":
            raise
        from kerneldsl.errors import AttributeUnavailableError

        raise AttributeUnavailableError(
            "kd.bfloat16 needs the package ml_dtypes, which is not installed",
            remedy='Run: pip install "kerneldsl[bfloat16]"',
        ) from error
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
