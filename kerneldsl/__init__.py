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
from typing import Any

from kerneldsl._version import __version__ as __version__

# Counting of references, the native launcher and Numba rely on the global interpreter lock.
if "free-threading" in sys.version:
    raise ImportError(
        f"kerneldsl cannot run in a free-threaded build of Python ({sys.executable}); "
        "use the ordinary build of the same version"
    )

#: Module to the public names that it holds. The stub for type checkers is made of it.
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

# Without those of ml_dtypes, which is optional.
__all__ = sorted({*_HOME, "__version__"} - {*_MODULES["ml_dtypes"].split()})


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None and name.startswith("__"):  # Python and other libraries look for these
        raise AttributeError(f"module 'kerneldsl' has no attribute {name!r}")
    if module is None:
        from kerneldsl.language.other_names import host_remedy

        remedy = host_remedy(name, __all__)
        if remedy:
            # The error names no object, so that Python suggests no similar name.
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
