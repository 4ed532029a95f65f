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
_VENDOR = "This is a fault of the vendor's library; update it, or report it to NVIDIA"

#: Codes of the runtime that have no counterpart of the same number in the driver.
_RUNTIME_ROWS: tuple[tuple[int, str, str, str], ...] = (
    (9, "InvalidConfiguration", "launch", "Reduce grid, block or dynamic shared memory"),
    (10, "VersionTranslation", "initialization", "Update the CUDA runtime: the driver is newer"),
    (12, "InvalidPitchValue", "memory", "Reduce the width of the rows"),
    (13, "InvalidSymbol", "kernel", "Check the name of the variable"),
    (16, "InvalidHostPointer", "memory", _OLD),
    (17, "InvalidDevicePointer", "memory", _OLD),
    (18, "InvalidTexture", "memory", _TEXTURE),
    (19, "InvalidTextureBinding", "memory", _TEXTURE),
    (20, "InvalidChannelDescriptor", "memory", _TEXTURE),
    (21, "InvalidMemcpyDirection", "memory", "Name the copy's direction rightly, or as default"),
    (22, "AddressOfConstant", "memory", _OLD),
    (23, "TextureFetchFailed", "memory", _OLD),
    (24, "TextureNotBound", "memory", _OLD),
    (25, "SynchronizationError", "stream", _OLD),
    (26, "InvalidFilterSetting", "memory", _TEXTURE),
    (27, "InvalidNormSetting", "memory", _TEXTURE),
    (28, "MixedDeviceExecution", "launch", _OLD),
    (31, "NotYetImplemented", "system", _OLD),
    (32, "MemoryValueTooLarge", "memory", _OLD),
    (
        35,
        "InsufficientDriver",
        "initialization",
        "The driver is older than the CUDA runtime: update the driver, or install a library built "
        "for an older CUDA",
    ),
    (37, "InvalidSurface", "memory", _TEXTURE),
    (43, "DuplicateVariableName", "kernel", "Rename one of the two"),
    (44, "DuplicateTextureName", "kernel", "Rename one of the two"),
    (45, "DuplicateSurfaceName", "kernel", "Rename one of the two"),
    (49, "IncompatibleDriverContext", "device", "Use the device's primary context"),
    (52, "MissingConfiguration", "launch", _OLD),
    (53, "PriorLaunchFailure", "launch", _OLD),
    (65, "LaunchMaxDepthExceeded", "launch", _NESTED),
    (66, "LaunchFileScopedTex", "launch", _TEXTURE),
    (67, "LaunchFileScopedSurf", "launch", _TEXTURE),
    (68, "SyncDepthExceeded", "launch", _NESTED),
    (69, "LaunchPendingCountExceeded", "launch", _NESTED),
    (98, "InvalidDeviceFunction", "kernel", "Compile for the architecture of this device"),
    (103, "SoftwareValidityNotEstablished", "initialization", "Reinstall the driver and CUDA"),
    (127, "StartupFailure", "initialization", "Reinstall the driver and CUDA"),
    (10000, "ApiFailureBase", "system", _OLD),
)

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
    (
        (1, "OUT_OF_MEMORY", "compile", "The host has no room for the compiler; free memory"),
        (2, "PROGRAM_CREATION_FAILURE", "compile", "Check the source and the headers"),
        (3, "INVALID_INPUT", "compile", "Check the arguments of the call"),
        (4, "INVALID_PROGRAM", "compile", "The program was destroyed before; make it anew"),
        (5, "INVALID_OPTION", "compile", _OPTION),
        (6, "COMPILATION", "compile", _SOURCE),
        (7, "BUILTIN_OPERATION_FAILURE", "compile", "Reinstall NVRTC with its builtins library"),
        (8, "NO_NAME_EXPRESSIONS_AFTER_COMPILATION", "compile", _ORDER),
        (9, "NO_LOWERED_NAMES_BEFORE_COMPILATION", "compile", _ORDER),
        (10, "NAME_EXPRESSION_NOT_VALID", "compile", "Check the spelling of the expression"),
        (11, "INTERNAL_ERROR", "compile", _VENDOR),
        (12, "TIME_FILE_WRITE_FAILED", "compile", "Check the path of the timing file"),
        (13, "NO_PCH_CREATE_ATTEMPTED", "compile", _PCH),
        (14, "PCH_CREATE_HEAP_EXHAUSTED", "compile", _PCH),
        (15, "PCH_CREATE", "compile", _PCH),
        (16, "CANCELLED", "compile", "The program itself cancelled the compilation"),
        (17, "TIME_TRACE_FILE_WRITE_FAILED", "compile", "Check the path of the trace file"),
        (18, "BUSY", "compile", "The program is being compiled by another thread; wait for it"),
    ),
    "NVRTC_ERROR_",
)

#: Every code of ``nvJitLinkResult`` but success.
NVJITLINK_CODES: Mapping[int, DriverCode] = table_of(
    (
        (1, "UNRECOGNIZED_OPTION", "compile", _OPTION),
        (2, "MISSING_ARCH", "compile", "Pass -arch=sm_… for the device"),
        (3, "INVALID_INPUT", "compile", _INPUT),
        (4, "PTX_COMPILE", "compile", _SOURCE),
        (5, "NVVM_COMPILE", "compile", _SOURCE),
        (6, "INTERNAL", "compile", _VENDOR),
        (7, "THREADPOOL", "compile", "Link with fewer threads"),
        (8, "UNRECOGNIZED_INPUT", "compile", _INPUT),
        (9, "FINALIZE", "compile", "Read the linker's log"),
        (10, "NULL_INPUT", "compile", _INPUT),
        (11, "INCOMPATIBLE_OPTIONS", "compile", _OPTION),
        (12, "INCORRECT_INPUT_TYPE", "compile", _INPUT),
        (13, "ARCH_MISMATCH", "compile", "Compile all inputs for one architecture"),
        (14, "OUTDATED_LIBRARY", "compile", "Update nvJitLink: an input comes from a newer CUDA"),
        (15, "MISSING_FATBIN", "compile", _INPUT),
        (16, "UNRECOGNIZED_ARCH", "compile", "Check the spelling of -arch="),
        (17, "UNSUPPORTED_ARCH", "compile", "Choose an architecture that this release links for"),
        (18, "LTO_NOT_ENABLED", "compile", "Pass -lto for inputs of LTO-IR"),
    ),
    "NVJITLINK_ERROR_",
)

#: Who answers, the table, and the category of codes that are not in it (``None``: by their name).
LIBRARIES: Mapping[str, tuple[str, Mapping[int, DriverCode], str | None]] = {
    "runtime": ("The CUDA runtime", RUNTIME_CODES, None),
    "nvrtc": ("NVRTC", NVRTC_CODES, "compile"),
    "nvjitlink": ("nvJitLink", NVJITLINK_CODES, "compile"),
}
