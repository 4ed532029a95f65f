"""Written by docs/library_stubs.py."""

from kerneldsl.contract.checks import (
    Check as Check,
    CheckStatus as CheckStatus,
)
from kerneldsl.contract.code import (
    Artifact as Artifact,
    Executable as Executable,
    HostShare as HostShare,
    LaunchConfig as LaunchConfig,
    Resources as Resources,
    Specialization as Specialization,
    UnusableCodeError as UnusableCodeError,
)
from kerneldsl.contract.contract import (
    Compiler as Compiler,
    Target as Target,
)
from kerneldsl.contract.device import (
    Device as Device,
)
from kerneldsl.contract.element_mapping import (
    ElementMapping as ElementMapping,
    ONE_EACH as ONE_EACH,
)
from kerneldsl.contract.entry import (
    MemoryType as MemoryType,
    TargetEntry as TargetEntry,
)
from kerneldsl.contract.info import (
    DeviceInfo as DeviceInfo,
    DeviceLike as DeviceLike,
)
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
from kerneldsl.contract.options import (
    CompileOptions as CompileOptions,
)
from kerneldsl.contract.passes import (
    PassInfo as PassInfo,
    PassRemark as PassRemark,
    Report as Report,
    ignore_remark as ignore_remark,
)
from kerneldsl.contract.promises import (
    ArrayPromises as ArrayPromises,
    NO_PROMISES as NO_PROMISES,
    Promises as Promises,
)
from kerneldsl.contract.streams import (
    DeviceEvent as DeviceEvent,
    DeviceGraph as DeviceGraph,
    DeviceStream as DeviceStream,
    LaunchTimer as LaunchTimer,
    Recording as Recording,
    Tracer as Tracer,
    names_default_stream as names_default_stream,
)

__all__: list[str]
