"""Written by docs/library_stubs.py."""

from typing import Any, Protocol

from kerneldsl import (
    cache as cache,
    cuda as cuda,
    random as random,
)
from kerneldsl.contract import (
    Device as Device,
    DeviceInfo as DeviceInfo,
    ElementMapping as ElementMapping,
    HostShare as HostShare,
)
from kerneldsl.contract.cuda_options import (
    CudaOptions as CudaOptions,
)
from kerneldsl.contract.error_entries import (
    ErrorEntry as ErrorEntry,
)
from kerneldsl.contract.error_history import (
    ErrorLog as ErrorLog,
    error_log as error_log,
)
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
from kerneldsl.errors.conversions import (
    AxisError as AxisError,
)
from kerneldsl.kernels.cuda_code import (
    CudaModule as CudaModule,
    cuda_source as cuda_source,
    module as module,
)
from kerneldsl.kernels.cuda_kernel import (
    CudaKernel as CudaKernel,
)
from kerneldsl.kernels.decorators import (
    func as func,
    kernel as kernel,
)
from kerneldsl.kernels.kernel import (
    DeviceFunction as DeviceFunction,
    Kernel as Kernel,
)
from kerneldsl.kernels.launches import (
    BoundLaunch as BoundLaunch,
    Launch as Launch,
)
from kerneldsl.kernels.tuned import (
    tune as tune,
)
from kerneldsl.language.intrinsics.atomics import (
    atomic as atomic,
)
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
from kerneldsl.language.intrinsics.chains import (
    chain as chain,
)
from kerneldsl.language.intrinsics.expert import (
    nv as nv,
    ptx as ptx,
)
from kerneldsl.language.intrinsics.groups import (
    block as block,
    warp as warp,
)
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
from kerneldsl.language.intrinsics.libdevice import (
    libdevice as libdevice,
)
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
from kerneldsl.language.intrinsics.places import (
    grid as grid,
    gridsize as gridsize,
)
from kerneldsl.language.intrinsics.tiles import (
    tile as tile,
)
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
    int16x2 as int16x2,
    int16x4 as int16x4,
    int32x2 as int32x2,
    int32x4 as int32x4,
    int64x2 as int64x2,
    int8x2 as int8x2,
    int8x4 as int8x4,
    uint16x2 as uint16x2,
    uint16x4 as uint16x4,
    uint32x2 as uint32x2,
    uint32x4 as uint32x4,
    uint64x2 as uint64x2,
    uint8x2 as uint8x2,
    uint8x4 as uint8x4,
)
from kerneldsl.language.packed_numbers import (
    int2 as int2,
    int4 as int4,
    ternary as ternary,
    uint2 as uint2,
    uint4 as uint4,
)
from kerneldsl.launch.timing import (
    Timing as Timing,
)
from kerneldsl.memory.arrays import (
    DeviceArray as DeviceArray,
)
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
from kerneldsl.memory.forms import (
    ArrayForm as ArrayForm,
)
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
from kerneldsl.placement.described import (
    device_info as device_info,
    devices as devices,
)
from kerneldsl.placement.devices import (
    current_target as current_target,
    targets as targets,
    use as use,
)
from kerneldsl.placement.fallback import (
    fallback as fallback,
    fallback_policy as fallback_policy,
)
from kerneldsl.placement.registry import (
    get_target as get_target,
)
from kerneldsl.placement.scores import (
    Score as Score,
)
from kerneldsl.planner.mma_space import (
    mma_space as mma_space,
)
from kerneldsl.planner.plan import (
    LaunchPlan as LaunchPlan,
    PlanAlternative as PlanAlternative,
)
from kerneldsl.planner.space import (
    Space as Space,
)
from kerneldsl.profiling.activities import (
    Activity as Activity,
)
from kerneldsl.profiling.profile import (
    Profile as Profile,
    profile as profile,
)
from kerneldsl.profiling.summary import (
    ProfileSummary as ProfileSummary,
    SummaryRow as SummaryRow,
)
from kerneldsl.shipping.packages import (
    ShippedKernels as ShippedKernels,
    load_package as load_package,
)
from kerneldsl.statistics.collect import (
    reset_stats as reset_stats,
    stats as stats,
)
from kerneldsl.statistics.values import (
    DeviceStatistics as DeviceStatistics,
    KernelStatistics as KernelStatistics,
    Statistics as Statistics,
)
from kerneldsl.streams.events import (
    Event as Event,
)
from kerneldsl.streams.graphs import (
    Graph as Graph,
)
from kerneldsl.streams.stream_pool import (
    StreamPool as StreamPool,
)
from kerneldsl.streams.streams import (
    Stream as Stream,
    current_stream as current_stream,
    default_stream as default_stream,
)
from kerneldsl.streams.waiting import (
    synchronize as synchronize,
)
from kerneldsl.symbolic.derivatives import (
    derivative as derivative,
)
from kerneldsl.symbolic.expressions import (
    ExpressionKernel as ExpressionKernel,
    from_expression as from_expression,
)
from kerneldsl.tools.detection import (
    Backend as Backend,
    backends as backends,
)
from kerneldsl.tools.doctor import (
    Check as Check,
    Report as Report,
    preflight as preflight,
)
from kerneldsl.tools.ranking import (
    Measurement as Measurement,
    RankedDevice as RankedDevice,
    Ranking as Ranking,
    best_device as best_device,
    rank_devices as rank_devices,
    score as score,
)
from kerneldsl.tools.versions import (
    show_versions as show_versions,
)
from ml_dtypes import (
    bfloat16 as bfloat16,
    float8_e4m3fn as float8_e4m3fn,
    float8_e5m2 as float8_e5m2,
    float8_e8m0fnu as float8_e8m0fnu,
)
from numpy import (
    bool_ as bool_,
    complex128 as complex128,
    complex64 as complex64,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    int8 as int8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
    uint8 as uint8,
)

from kerneldsl._version import __version__ as __version__

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

def load_ipython_extension(shell: Any) -> None: ...

__all__: list[str]
