"""The codes of the libraries beside the CUDA driver: its runtime, NVRTC and nvJitLink.

kerneldsl calls none of them to run a kernel; other libraries in the process do, and what they raise
is explained by the same tables.

References
----------
CUDA Runtime API, enumeration ``cudaError_t``; NVRTC, enumeration ``nvrtcResult``; nvJitLink,
enumeration ``nvJitLinkResult``; all as of the bindings 13.5.
"""

from __future__ import annotations

from collections.abc import Mapping

from targets.cuda.driver.codes import DRIVER_CODES, DriverCode, table_of

__all__ = ["LIBRARIES", "NVJITLINK_CODES", "NVRTC_CODES", "RUNTIME_CODES"]

_OLD = "The CUDA documentation calls this code obsolete; update the library that answers with it"
_TEXTURE = "Check the texture's or surface's description"
_NESTED = "Launch from the host instead of from a kernel"
_OPTION = "Check the options that were passed to the compiler"
_SOURCE = "Read the compiler's log, which names the line"
_ORDER = "Ask for lowered names after compiling, and name the expressions before"
_PCH = "Compile without precompiled headers, or give them more room"
_INPUT = "Check the inputs of the linker: PTX, cubin, LTO-IR, fatbin or object, each named rightly"
_VENDOR = "This is a bug in the vendor's library; update it, or report it to NVIDIA"

#: Codes of the runtime that have no counterpart of the same number in the driver.
_RUNTIME_ROWS = f"""
9 launch InvalidConfiguration: Reduce grid, block or dynamic shared memory
10 initialization VersionTranslation: Update the CUDA runtime: the driver is newer
12 memory InvalidPitchValue: Reduce the width of the rows
13 kernel InvalidSymbol: Check the name of the variable
16 memory InvalidHostPointer: {_OLD}
17 memory InvalidDevicePointer: {_OLD}
18 memory InvalidTexture: {_TEXTURE}
19 memory InvalidTextureBinding: {_TEXTURE}
20 memory InvalidChannelDescriptor: {_TEXTURE}
21 memory InvalidMemcpyDirection: Name the copy's direction rightly, or as default
22 memory AddressOfConstant: {_OLD}
23 memory TextureFetchFailed: {_OLD}
24 memory TextureNotBound: {_OLD}
25 stream SynchronizationError: {_OLD}
26 memory InvalidFilterSetting: {_TEXTURE}
27 memory InvalidNormSetting: {_TEXTURE}
28 launch MixedDeviceExecution: {_OLD}
31 system NotYetImplemented: {_OLD}
32 memory MemoryValueTooLarge: {_OLD}
35 initialization InsufficientDriver: The driver is older than the CUDA runtime: update the driver,
  or install a library built for an older CUDA
37 memory InvalidSurface: {_TEXTURE}
43 kernel DuplicateVariableName: Rename one of the two
44 kernel DuplicateTextureName: Rename one of the two
45 kernel DuplicateSurfaceName: Rename one of the two
49 device IncompatibleDriverContext: Use the device's primary context
52 launch MissingConfiguration: {_OLD}
53 launch PriorLaunchFailure: {_OLD}
65 launch LaunchMaxDepthExceeded: {_NESTED}
66 launch LaunchFileScopedTex: {_TEXTURE}
67 launch LaunchFileScopedSurf: {_TEXTURE}
68 launch SyncDepthExceeded: {_NESTED}
69 launch LaunchPendingCountExceeded: {_NESTED}
98 kernel InvalidDeviceFunction: Compile for the architecture of this device
103 initialization SoftwareValidityNotEstablished: Reinstall the driver and CUDA
127 initialization StartupFailure: Reinstall the driver and CUDA
10000 system ApiFailureBase: {_OLD}
"""

#: The runtime's names of the driver's codes.
_RUNTIME_NAMES = {
    1: "InvalidValue",
    2: "MemoryAllocation",
    3: "InitializationError",
    4: "CudartUnloading",
    46: "DevicesUnavailable",
    200: "InvalidKernelImage",
    201: "DeviceUninitialized",
    205: "MapBufferObjectFailed",
    206: "UnmapBufferObjectFailed",
    209: "NoKernelImageForDevice",
    214: "ECCUncorrectable",
    216: "DeviceAlreadyInUse",
    225: "UnsupportedDevSideSync",
    400: "InvalidResourceHandle",
    500: "SymbolNotFound",
    708: "SetOnActiveProcess",
    719: "LaunchFailure",
}


def _runtime_name(code: DriverCode) -> str:
    words = code.name.removeprefix("CUDA_ERROR_").split("_")
    return _RUNTIME_NAMES.get(code.code, "".join(word.capitalize() for word in words))


#: Every code of ``cudaError_t`` but success.
RUNTIME_CODES: Mapping[int, DriverCode] = {
    **{n: c._replace(name=f"cudaError{_runtime_name(c)}") for n, c in DRIVER_CODES.items()},
    **table_of(_RUNTIME_ROWS, "cudaError"),
}

#: Every code of ``nvrtcResult`` but success.
NVRTC_CODES: Mapping[int, DriverCode] = table_of(
    f"""
1 compile OUT_OF_MEMORY: The host has no room for the compiler; free memory
2 compile PROGRAM_CREATION_FAILURE: Check the source and the headers
3 compile INVALID_INPUT: Check the arguments of the call
4 compile INVALID_PROGRAM: The program was destroyed before; make it anew
5 compile INVALID_OPTION: {_OPTION}
6 compile COMPILATION: {_SOURCE}
7 compile BUILTIN_OPERATION_FAILURE: Reinstall NVRTC with its builtins library
8 compile NO_NAME_EXPRESSIONS_AFTER_COMPILATION: {_ORDER}
9 compile NO_LOWERED_NAMES_BEFORE_COMPILATION: {_ORDER}
10 compile NAME_EXPRESSION_NOT_VALID: Check the spelling of the expression
11 compile INTERNAL_ERROR: {_VENDOR}
12 compile TIME_FILE_WRITE_FAILED: Check the path of the timing file
13 compile NO_PCH_CREATE_ATTEMPTED: {_PCH}
14 compile PCH_CREATE_HEAP_EXHAUSTED: {_PCH}
15 compile PCH_CREATE: {_PCH}
16 compile CANCELLED: The program itself cancelled the compilation
17 compile TIME_TRACE_FILE_WRITE_FAILED: Check the path of the trace file
18 compile BUSY: The program is being compiled by another thread; wait for it
""",
    "NVRTC_ERROR_",
)

#: Every code of ``nvJitLinkResult`` but success.
NVJITLINK_CODES: Mapping[int, DriverCode] = table_of(
    f"""
1 compile UNRECOGNIZED_OPTION: {_OPTION}
2 compile MISSING_ARCH: Pass -arch=sm_… for the device
3 compile INVALID_INPUT: {_INPUT}
4 compile PTX_COMPILE: {_SOURCE}
5 compile NVVM_COMPILE: {_SOURCE}
6 compile INTERNAL: {_VENDOR}
7 compile THREADPOOL: Link with fewer threads
8 compile UNRECOGNIZED_INPUT: {_INPUT}
9 compile FINALIZE: Read the linker's log
10 compile NULL_INPUT: {_INPUT}
11 compile INCOMPATIBLE_OPTIONS: {_OPTION}
12 compile INCORRECT_INPUT_TYPE: {_INPUT}
13 compile ARCH_MISMATCH: Compile all inputs for one architecture
14 compile OUTDATED_LIBRARY: Update nvJitLink: an input comes from a newer CUDA
15 compile MISSING_FATBIN: {_INPUT}
16 compile UNRECOGNIZED_ARCH: Check the spelling of -arch=
17 compile UNSUPPORTED_ARCH: Choose an architecture that this release links for
18 compile LTO_NOT_ENABLED: Pass -lto for inputs of LTO-IR
""",
    "NVJITLINK_ERROR_",
)

#: Who answers, the table, and the category of codes that are not in it (``None``: by their name).
LIBRARIES: Mapping[str, tuple[str, Mapping[int, DriverCode], str | None]] = {
    "runtime": ("The CUDA runtime", RUNTIME_CODES, None),
    "nvrtc": ("NVRTC", NVRTC_CODES, "compile"),
    "nvjitlink": ("nvJitLink", NVJITLINK_CODES, "compile"),
}
