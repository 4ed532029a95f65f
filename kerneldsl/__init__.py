"""kerneldsl: decorated Python functions as kernels for GPUs and CPUs.

>>> import kerneldsl as kd
>>> @kd.kernel
... def axpy(a, x, y, out):
...     i = kd.grid(1)
...     if i < out.size:
...         out[i] = a * x[i] + y[i]

``axpy.forall(out.size)(a, x, y, out)`` runs it over NumPy or device arrays on the current device.
``axpy[grid, block](…)`` launches it with an explicit grid and block.

Every public name is imported at its first use, so that importing the package costs almost nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol

from kerneldsl._version import __version__ as __version__

# Counting of references, the native launcher and Numba rely on the global interpreter lock.
if "free-threading" in sys.version:
    raise ImportError(
        f"kerneldsl cannot run in a free-threaded build of Python ({sys.executable}); "
        "use the ordinary build of the same version"
    )

if TYPE_CHECKING:
    from ml_dtypes import (
        bfloat16 as bfloat16,
        float8_e4m3fn as float8_e4m3fn,
        float8_e5m2 as float8_e5m2,
        float8_e8m0fnu as float8_e8m0fnu,
    )
    from numpy import (
        bool_ as bool_,
        complex64 as complex64,
        complex128 as complex128,
        float16 as float16,
        float32 as float32,
        float64 as float64,
        int8 as int8,
        int16 as int16,
        int32 as int32,
        int64 as int64,
        uint8 as uint8,
        uint16 as uint16,
        uint32 as uint32,
        uint64 as uint64,
    )

    from kerneldsl import cache as cache, cuda as cuda, random as random
    from kerneldsl.contract import (
        Device as Device,
        DeviceInfo as DeviceInfo,
        ElementMapping as ElementMapping,
        HostShare as HostShare,
    )
    from kerneldsl.contract.error_entries import ErrorEntry as ErrorEntry
    from kerneldsl.contract.error_history import ErrorLog as ErrorLog, error_log as error_log
    from kerneldsl.errors.conversions import AxisError as AxisError
    from kerneldsl.errors import (
        ArgumentError as ArgumentError,
        ArgumentOverflowError as ArgumentOverflowError,
        ArgumentTypeError as ArgumentTypeError,
        ArgumentValueError as ArgumentValueError,
        AttributeUnavailableError as AttributeUnavailableError,
        BarrierDivergenceError as BarrierDivergenceError,
        BarrierDivergenceWarning as BarrierDivergenceWarning,
        CacheError as CacheError,
        CacheWarning as CacheWarning,
        ClosedResourceError as ClosedResourceError,
        CompileError as CompileError,
        DeviceCodeError as DeviceCodeError,
        DeviceError as DeviceError,
        DeviceLostError as DeviceLostError,
        DeviceMemoryError as DeviceMemoryError,
        DeviceMismatchError as DeviceMismatchError,
        DriverCompileError as DriverCompileError,
        DriverError as DriverError,
        DriverInitializationError as DriverInitializationError,
        DriverSystemError as DriverSystemError,
        FallbackWarning as FallbackWarning,
        GraphError as GraphError,
        KernelError as KernelError,
        KernelFault as KernelFault,
        KernelImageError as KernelImageError,
        KernelTypingError as KernelTypingError,
        KernelWarning as KernelWarning,
        LaunchConfigError as LaunchConfigError,
        LaunchError as LaunchError,
        LibdeviceMissingError as LibdeviceMissingError,
        NotShippedError as NotShippedError,
        OutOfMemoryError as OutOfMemoryError,
        OutsideKernelError as OutsideKernelError,
        ReadOnlyArrayError as ReadOnlyArrayError,
        ResourceLimitError as ResourceLimitError,
        ShadowedPackageError as ShadowedPackageError,
        SourceLocation as SourceLocation,
        SourceUnavailableError as SourceUnavailableError,
        StreamError as StreamError,
        TargetUnavailableError as TargetUnavailableError,
        ToolMissingError as ToolMissingError,
        UndefinedAttributeError as UndefinedAttributeError,
        UndefinedNameError as UndefinedNameError,
        UnknownTargetError as UnknownTargetError,
        UnsupportedConstructError as UnsupportedConstructError,
    )
    from kerneldsl.contract.cuda_options import CudaOptions as CudaOptions
    from kerneldsl.kernels.cuda_code import (
        CudaModule as CudaModule,
        cuda_source as cuda_source,
        module as module,
    )
    from kerneldsl.kernels.cuda_kernel import CudaKernel as CudaKernel
    from kerneldsl.kernels.decorators import func as func, kernel as kernel
    from kerneldsl.kernels.kernel import DeviceFunction as DeviceFunction, Kernel as Kernel
    from kerneldsl.kernels.launches import BoundLaunch as BoundLaunch, Launch as Launch
    from kerneldsl.kernels.tuned import tune as tune
    from kerneldsl.language.intrinsics.atomics import atomic as atomic
    from kerneldsl.language.intrinsics.barriers import (
        grid_group as grid_group,
        syncthreads as syncthreads,
        syncthreads_and as syncthreads_and,
        syncthreads_count as syncthreads_count,
        syncthreads_or as syncthreads_or,
        syncwarp as syncwarp,
        threadfence as threadfence,
        threadfence_block as threadfence_block,
        threadfence_system as threadfence_system,
    )
    from kerneldsl.language.intrinsics.chains import chain as chain
    from kerneldsl.language.intrinsics.expert import nv as nv, ptx as ptx
    from kerneldsl.language.intrinsics.groups import block as block, warp as warp
    from kerneldsl.language.intrinsics.lanes import (
        activemask as activemask,
        all_sync as all_sync,
        any_sync as any_sync,
        ballot_sync as ballot_sync,
        eq_sync as eq_sync,
        lanemask_lt as lanemask_lt,
        match_all_sync as match_all_sync,
        match_any_sync as match_any_sync,
        reduce_add_sync as reduce_add_sync,
        reduce_and_sync as reduce_and_sync,
        reduce_max_sync as reduce_max_sync,
        reduce_min_sync as reduce_min_sync,
        reduce_or_sync as reduce_or_sync,
        reduce_xor_sync as reduce_xor_sync,
        shfl_down_sync as shfl_down_sync,
        shfl_sync as shfl_sync,
        shfl_up_sync as shfl_up_sync,
        shfl_xor_sync as shfl_xor_sync,
    )
    from kerneldsl.language.intrinsics.libdevice import libdevice as libdevice
    from kerneldsl.language.intrinsics.matrix import (
        mma as mma,
        pipelined as pipelined,
        tiles as tiles,
    )
    from kerneldsl.language.intrinsics.memory import (
        const as const,
        load as load,
        local as local,
        packed as packed,
        shared as shared,
        store as store,
        unpack as unpack,
        view as view,
    )
    from kerneldsl.language.intrinsics.places import grid as grid, gridsize as gridsize
    from kerneldsl.language.intrinsics.tiles import tile as tile
    from kerneldsl.language.intrinsics.values import (
        bitcast as bitcast,
        brev as brev,
        byte_perm as byte_perm,
        cbrt as cbrt,
        clz as clz,
        dot4 as dot4,
        ffs as ffs,
        fma as fma,
        funnelshift_l as funnelshift_l,
        funnelshift_lc as funnelshift_lc,
        funnelshift_r as funnelshift_r,
        funnelshift_rc as funnelshift_rc,
        mulhi as mulhi,
        nanosleep as nanosleep,
        popc as popc,
        rsqrt as rsqrt,
        saturate as saturate,
        selp as selp,
        uniform as uniform,
    )
    from kerneldsl.language.intrinsics.vectors import (
        float32x2 as float32x2,
        float32x4 as float32x4,
        float64x2 as float64x2,
        int8x2 as int8x2,
        int8x4 as int8x4,
        int16x2 as int16x2,
        int16x4 as int16x4,
        int32x2 as int32x2,
        int32x4 as int32x4,
        int64x2 as int64x2,
        uint8x2 as uint8x2,
        uint8x4 as uint8x4,
        uint16x2 as uint16x2,
        uint16x4 as uint16x4,
        uint32x2 as uint32x2,
        uint32x4 as uint32x4,
        uint64x2 as uint64x2,
    )
    from kerneldsl.language.packed_numbers import (
        int2 as int2,
        int4 as int4,
        ternary as ternary,
        uint2 as uint2,
        uint4 as uint4,
    )
    from kerneldsl.launch.timing import Timing as Timing
    from kerneldsl.memory.arrays import DeviceArray as DeviceArray
    from kerneldsl.memory.copies import (
        can_access_peer as can_access_peer,
        copy as copy,
        enable_peer_access as enable_peer_access,
    )
    from kerneldsl.memory.creation import (
        as_array as as_array,
        empty as empty,
        empty_like as empty_like,
        from_dlpack as from_dlpack,
        full as full,
        full_like as full_like,
        ones as ones,
        ones_like as ones_like,
        to_device as to_device,
        zeros as zeros,
        zeros_like as zeros_like,
    )
    from kerneldsl.memory.forms import ArrayForm as ArrayForm
    from kerneldsl.memory.host_memory import (
        pinned_copy as pinned_copy,
        pinned_empty as pinned_empty,
    )
    from kerneldsl.memory.memory_statistics import (
        MemoryStatistics as MemoryStatistics,
        PoolStatistics as PoolStatistics,
    )
    from kerneldsl.memory.pools import (
        MemoryPool as MemoryPool,
        memory_stats as memory_stats,
    )
    from kerneldsl.memory.shared_arrays import (
        managed_empty as managed_empty,
        mapped_view as mapped_view,
    )
    from kerneldsl.placement.fallback import (
        fallback as fallback,
        fallback_policy as fallback_policy,
    )
    from kerneldsl.placement.described import device_info as device_info, devices as devices
    from kerneldsl.placement.devices import (
        current_target as current_target,
        targets as targets,
        use as use,
    )
    from kerneldsl.placement.registry import get_target as get_target
    from kerneldsl.placement.scores import Score as Score
    from kerneldsl.planner.mma_space import mma_space as mma_space
    from kerneldsl.planner.plan import LaunchPlan as LaunchPlan, PlanAlternative as PlanAlternative
    from kerneldsl.planner.space import Space as Space
    from kerneldsl.profiling.activities import Activity as Activity
    from kerneldsl.profiling.profile import Profile as Profile, profile as profile
    from kerneldsl.profiling.summary import (
        ProfileSummary as ProfileSummary,
        SummaryRow as SummaryRow,
    )
    from kerneldsl.shipping.packages import (
        ShippedKernels as ShippedKernels,
        load_package as load_package,
    )
    from kerneldsl.statistics.collect import reset_stats as reset_stats, stats as stats
    from kerneldsl.statistics.values import (
        DeviceStatistics as DeviceStatistics,
        KernelStatistics as KernelStatistics,
        Statistics as Statistics,
    )
    from kerneldsl.streams.events import Event as Event
    from kerneldsl.streams.graphs import Graph as Graph
    from kerneldsl.streams.stream_pool import StreamPool as StreamPool
    from kerneldsl.streams.streams import (
        Stream as Stream,
        current_stream as current_stream,
        default_stream as default_stream,
    )
    from kerneldsl.streams.waiting import synchronize as synchronize
    from kerneldsl.symbolic.derivatives import derivative as derivative
    from kerneldsl.symbolic.expressions import (
        ExpressionKernel as ExpressionKernel,
        from_expression as from_expression,
    )
    from kerneldsl.tools.detection import Backend as Backend, backends as backends
    from kerneldsl.tools.doctor import Check as Check, Report as Report, preflight as preflight
    from kerneldsl.tools.ranking import (
        Measurement as Measurement,
        RankedDevice as RankedDevice,
        Ranking as Ranking,
        best_device as best_device,
        rank_devices as rank_devices,
        score as score,
    )
    from kerneldsl.tools.versions import show_versions as show_versions

    # Inside a kernel these are numbers, which is their type for a type checker; the objects are in
    # kerneldsl.language.intrinsics.places.
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

#: Module to the public names that it holds.
_MODULES = {
    "numpy": (
        "bool_ complex64 complex128 float16 float32 float64 int8 int16 int32 int64 uint8 uint16 "
        "uint32 uint64"
    ),
    "ml_dtypes": "bfloat16 float8_e4m3fn float8_e5m2 float8_e8m0fnu",
    "kerneldsl": "cache cuda random",
    "kerneldsl.contract": "Device DeviceInfo ElementMapping HostShare",
    "kerneldsl.contract.error_entries": "ErrorEntry",
    "kerneldsl.contract.error_history": "ErrorLog error_log",
    "kerneldsl.errors": (
        "ArgumentError ArgumentOverflowError ArgumentTypeError ArgumentValueError "
        "AttributeUnavailableError BarrierDivergenceError BarrierDivergenceWarning "
        "CacheError CacheWarning ClosedResourceError CompileError DeviceCodeError DeviceError "
        "DeviceLostError DeviceMemoryError DeviceMismatchError DriverCompileError DriverError "
        "DriverInitializationError DriverSystemError FallbackWarning GraphError KernelError "
        "KernelFault KernelImageError KernelTypingError KernelWarning LaunchConfigError "
        "LaunchError LibdeviceMissingError NotShippedError OutOfMemoryError OutsideKernelError "
        "ReadOnlyArrayError ResourceLimitError ShadowedPackageError SourceLocation "
        "SourceUnavailableError StreamError TargetUnavailableError ToolMissingError "
        "UndefinedAttributeError UndefinedNameError UnknownTargetError "
        "UnsupportedConstructError"
    ),
    "kerneldsl.errors.conversions": "AxisError",
    "kerneldsl.contract.cuda_options": "CudaOptions",
    "kerneldsl.kernels.cuda_code": "CudaModule cuda_source module",
    "kerneldsl.kernels.cuda_kernel": "CudaKernel",
    "kerneldsl.kernels.decorators": "func kernel",
    "kerneldsl.kernels.kernel": "DeviceFunction Kernel",
    "kerneldsl.kernels.launches": "BoundLaunch Launch",
    "kerneldsl.kernels.tuned": "tune",
    "kerneldsl.language.intrinsics.atomics": "atomic",
    "kerneldsl.language.intrinsics.barriers": (
        "grid_group syncthreads syncthreads_and syncthreads_count syncthreads_or syncwarp "
        "threadfence threadfence_block threadfence_system"
    ),
    "kerneldsl.language.intrinsics.chains": "chain",
    "kerneldsl.language.intrinsics.expert": "nv ptx",
    "kerneldsl.language.intrinsics.groups": "block warp",
    "kerneldsl.language.intrinsics.lanes": (
        "activemask all_sync any_sync ballot_sync eq_sync lanemask_lt match_all_sync "
        "match_any_sync reduce_add_sync reduce_and_sync reduce_max_sync reduce_min_sync "
        "reduce_or_sync reduce_xor_sync shfl_down_sync shfl_sync shfl_up_sync shfl_xor_sync"
    ),
    "kerneldsl.language.intrinsics.libdevice": "libdevice",
    "kerneldsl.language.intrinsics.matrix": "mma pipelined tiles",
    "kerneldsl.language.intrinsics.memory": "const load local packed shared store unpack view",
    "kerneldsl.language.intrinsics.places": (
        "blockDim blockIdx grid gridDim gridsize laneid threadIdx warpsize"
    ),
    "kerneldsl.language.intrinsics.tiles": "tile",
    "kerneldsl.language.intrinsics.values": (
        "bitcast brev byte_perm cbrt clz dot4 ffs fma funnelshift_l funnelshift_lc funnelshift_r "
        "funnelshift_rc mulhi nanosleep popc rsqrt saturate selp uniform"
    ),
    "kerneldsl.language.intrinsics.vectors": (
        "float32x2 float32x4 float64x2 int8x2 int8x4 int16x2 int16x4 int32x2 int32x4 int64x2 "
        "uint8x2 uint8x4 uint16x2 uint16x4 uint32x2 uint32x4 uint64x2"
    ),
    "kerneldsl.language.packed_numbers": "int2 int4 ternary uint2 uint4",
    "kerneldsl.launch.timing": "Timing",
    "kerneldsl.memory.arrays": "DeviceArray",
    "kerneldsl.memory.copies": "can_access_peer copy enable_peer_access",
    "kerneldsl.memory.creation": (
        "as_array empty empty_like from_dlpack full full_like ones ones_like to_device zeros "
        "zeros_like"
    ),
    "kerneldsl.memory.forms": "ArrayForm",
    "kerneldsl.memory.host_memory": "pinned_copy pinned_empty",
    "kerneldsl.memory.memory_statistics": "MemoryStatistics PoolStatistics",
    "kerneldsl.memory.pools": "MemoryPool memory_stats",
    "kerneldsl.memory.shared_arrays": "managed_empty mapped_view",
    "kerneldsl.placement.fallback": "fallback fallback_policy",
    "kerneldsl.placement.described": "device_info devices",
    "kerneldsl.placement.devices": "current_target targets use",
    "kerneldsl.placement.registry": "get_target",
    "kerneldsl.placement.scores": "Score",
    "kerneldsl.planner.mma_space": "mma_space",
    "kerneldsl.planner.plan": "LaunchPlan PlanAlternative",
    "kerneldsl.planner.space": "Space",
    "kerneldsl.profiling.activities": "Activity",
    "kerneldsl.profiling.profile": "Profile profile",
    "kerneldsl.profiling.summary": "ProfileSummary SummaryRow",
    "kerneldsl.shipping.packages": "ShippedKernels load_package",
    "kerneldsl.statistics.collect": "reset_stats stats",
    "kerneldsl.statistics.values": "DeviceStatistics KernelStatistics Statistics",
    "kerneldsl.streams.events": "Event",
    "kerneldsl.streams.graphs": "Graph",
    "kerneldsl.streams.stream_pool": "StreamPool",
    "kerneldsl.streams.streams": "Stream current_stream default_stream",
    "kerneldsl.streams.waiting": "synchronize",
    "kerneldsl.symbolic.derivatives": "derivative",
    "kerneldsl.symbolic.expressions": "ExpressionKernel from_expression",
    "kerneldsl.tools.detection": "Backend backends",
    "kerneldsl.tools.doctor": "Check Report preflight",
    "kerneldsl.tools.ranking": "Measurement RankedDevice Ranking best_device rank_devices score",
    "kerneldsl.tools.versions": "show_versions",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

# Without those of ml_dtypes, which is optional. A test holds that the imports above are these.
__all__ = sorted({*_HOME, "__version__"} - {*_MODULES["ml_dtypes"].split()})


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None and name.startswith("__"):  # Python and other libraries look for these
        raise AttributeError(f"module 'kerneldsl' has no attribute {name!r}")
    if module is None:
        from kerneldsl.language.other_names import host_remedy

        remedy = host_remedy(name, __all__)
        if remedy:
            # Of no object, so that Python does not add a name that it takes for a misspelled one.
            said = f"module 'kerneldsl' has no attribute {name!r}. {remedy}."
            raise AttributeError(said, name=name, obj=None)
        raise AttributeError(f"module 'kerneldsl' has no attribute {name!r}")
    from importlib import import_module

    from kerneldsl.utilities.locks import no_fork

    try:
        with no_fork:  # a child would wait for the import for ever
            # A public name that is a module itself, or a name in one.
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
            f"kd.{name} needs the package ml_dtypes, which is not installed",
            remedy='Run: pip install "kerneldsl[bfloat16]"',
        ) from error
    return value


def load_ipython_extension(shell: Any) -> None:
    """Give IPython ``%kdtime``, ``%kdexplain`` and ``%kdptx``: ``%load_ext kerneldsl``."""
    from kerneldsl.cards.magics import register

    register(shell)


def __dir__() -> list[str]:
    # Imports of this file, such as typing's names, are not public.
    return sorted({*_HOME, *(name for name in globals() if name.startswith("__"))})
