"""Compiled code on a device: loading it, what it takes there, and launching it.

References
----------
CUDA Driver API, sections "Module Management" and "Execution Control".
"""

from __future__ import annotations

import ctypes
import logging
import re
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import Dim3, Resources
from kerneldsl.errors import CompileError, KernelImageError, ResourceLimitError
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.driver.driver import Driver
from targets.cuda.driver.errors import remedy_for
from targets.cuda.driver.loss import LaunchNote

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "LoadedFunction",
    "LoadedModule",
    "allow_shared_bytes",
    "find_function",
    "launch",
    "load",
    "load_module",
    "unload",
    "unload_idle",
]

_log = logging.getLogger("kerneldsl.cuda.functions")

_LOG_BYTES = 16384
#: Bytes of PTX with its header.
_HEAD = 400
#: CUstream_flags, CU_STREAM_NON_BLOCKING.
_NON_BLOCKING = 1
_NOTHING: Mapping[str, NDArray[Any]] = MappingProxyType({})
#: Bytes of parameters that a kernel may have (PTX ISA, "Kernel Function Parameters").
_MAX_PARAMETER_BYTES = 32764

# CUDA Driver API, cuLaunchKernel: the tags of its `extra` argument.
_PARAM_END, _PARAM_BUFFER_POINTER, _PARAM_BUFFER_SIZE = 0, 1, 2


@dataclass(frozen=True)
class LoadedFunction:
    """An entry of a module that is loaded on a device."""

    #: The entry's name.
    name: str
    #: The name of the kernel's function in Python, for messages about failed launches.
    kernel: str
    #: The device on which it is loaded.
    device_index: int
    #: The driver's ``CUfunction``, and the ``CUmodule`` it belongs to.
    handle: Any
    module: Any
    #: The resources that the driver's assembler reported.
    resources: Resources
    #: Notes of recent launches on the device, for the report if one of them is fatal.
    launches: deque[LaunchNote] = field(default_factory=deque, repr=False, compare=False)


@dataclass(frozen=True)
class LoadedModule:
    """A module that is loaded on a device."""

    #: The device.
    device_index: int
    #: The driver's ``CUmodule``.
    handle: Any
    #: Log of the driver's assembler.
    log: str


def load(
    driver: Driver,
    index: int,
    image: str | bytes,
    entry_name: str,
    *,
    kernel: str | None = None,
    line_info: bool = False,
    contents: Mapping[str, NDArray[Any]] = _NOTHING,
) -> LoadedFunction:
    """Load PTX, or a binary, and look up one entry.

    The image is PTX text, or the bytes of a cubin or fatbin. `kernel` is the name of the function
    in Python, by default the entry's. `contents` are for memory of the module, by its names.

    Raises `CompileError` where the driver's assembler refused the PTX; its log is in the message.
    Raises `DriverError` for anything else.
    """
    module = load_module(driver, index, image, entry_name, line_info=line_info)
    found = find_function(driver, module, entry_name, kernel=kernel)
    with driver.current(index):
        for name, values in contents.items():
            _fill(driver, module.handle, name, values)
    return found


def find_function(
    driver: Driver, module: LoadedModule, entry_name: str, *, kernel: str | None = None
) -> LoadedFunction:
    """Look up an entry of a loaded module, with the name of the function in Python.

    Raises `DriverError` if there is none.
    """
    index = module.device_index
    with driver.current(index):
        function = driver.call(
            driver.api.cuModuleGetFunction,
            module.handle,
            entry_name.encode(),
            doing=f"find entry {entry_name} in the loaded module",
        )
        resources = _resources(driver, function, module.log)
    launches = driver.watch.launches(index)
    name = entry_name if kernel is None else kernel
    return LoadedFunction(entry_name, name, index, function, module.handle, resources, launches)


def load_module(
    driver: Driver, index: int, image: str | bytes, entry_name: str, *, line_info: bool = False
) -> LoadedModule:
    """Load PTX, or a binary; the entry is named in messages.

    Raises what :func:`load` raises.
    """
    data = image.encode() + b"\0" if isinstance(image, str) else image
    with driver.current(index):
        return LoadedModule(index, *_load(driver, index, data, entry_name, line_info=line_info))


def _load(
    driver: Driver, index: int, data: bytes, entry_name: str, *, line_info: bool
) -> tuple[Any, str]:
    option = driver.api.CUjit_option
    info, errors = bytearray(_LOG_BYTES), bytearray(_LOG_BYTES)
    options: dict[Any, Any] = {
        option.CU_JIT_INFO_LOG_BUFFER: info,
        option.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: _LOG_BYTES,
        option.CU_JIT_ERROR_LOG_BUFFER: errors,
        option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: _LOG_BYTES,
        option.CU_JIT_LOG_VERBOSE: 1,
    }
    if b", debug\n" in data[:_HEAD]:  # as PTX says that describes variables
        options[option.CU_JIT_GENERATE_DEBUG_INFO] = 1
    elif line_info:
        options[option.CU_JIT_GENERATE_LINE_INFO] = 1
    status, module = driver.api.cuModuleLoadDataEx(
        data, len(options), list(options), list(options.values())
    )
    info_text = _log_text(info)
    if info_text:
        _log.debug("driver's assembler for %s: %s", entry_name, info_text)
    if not int(status):
        return module, info_text
    failure = driver.failure(status, f"load {entry_name} on cuda:{index}", index=index)
    text = _log_text(errors)
    if not text or not isinstance(failure, KernelImageError):
        raise failure
    raise CompileError(
        f"The driver could not assemble {entry_name} for cuda:{index} ({failure.name})",
        value=failure.code,
        limit="The driver supports CUDA {}.{}".format(*driver.cuda_version),
        remedy=remedy_for(failure.name),
        chain=tuple(text.splitlines()),
    ) from failure


def _fill(driver: Driver, module: Any, name: str, values: NDArray[Any]) -> None:
    """Copy an array into memory of a module, and wait for that.

    It uses a separate stream, since the default stream cannot be waited for while another one
    records.
    """
    api, doing = driver.api, f"copy a captured array of {values.nbytes} bytes to the device"
    address, size = driver.call(api.cuModuleGetGlobal, module, name.encode(), doing=doing)
    assert int(size) == values.nbytes
    stream = driver.call(api.cuStreamCreate, _NON_BLOCKING, doing=doing)
    try:
        copied = (int(address), values.ctypes.data, values.nbytes, stream)
        driver.call(api.cuMemcpyHtoDAsync, *copied, doing=doing)
        driver.call(api.cuStreamSynchronize, stream, doing=doing)
    finally:
        driver.call(api.cuStreamDestroy, stream, doing=doing)


def _log_text(buffer: bytearray) -> str:
    return bytes(buffer).split(b"\0", 1)[0].decode(errors="replace").strip()


def _resources(driver: Driver, function: Any, info: str) -> Resources:
    local_bytes = _attribute(driver, function, "LOCAL_SIZE_BYTES")
    spills = re.findall(r"(\d+) bytes spill (?:stores|loads)", info)
    return Resources(
        registers=_attribute(driver, function, "NUM_REGS"),
        # The log alone knows spills, and it is empty when the driver had the code in its cache.
        spill_bytes=sum(map(int, spills)) if spills else (None if local_bytes else 0),
        local_bytes=local_bytes,
        static_shared_bytes=_attribute(driver, function, "SHARED_SIZE_BYTES"),
        max_block_threads=_attribute(driver, function, "MAX_THREADS_PER_BLOCK"),
    )


def _attribute(driver: Driver, function: Any, name: str) -> int:
    which = getattr(driver.api.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
    value = driver.call(
        driver.api.cuFuncGetAttribute, which, function, doing=f"read {name} of a kernel"
    )
    return int(value)


def unload(driver: Driver, function: LoadedFunction) -> None:
    """Unload the module of a function, after everything on its device has finished."""
    driver.synchronize(function.device_index)
    unload_idle(driver, function)


def unload_idle(driver: Driver, function: LoadedFunction) -> None:
    """Unload the module of a function that nothing runs any more."""
    driver.call_on(
        function.device_index,
        driver.api.cuModuleUnload,
        function.module,
        doing=f"unload {function.name}",
    )


def allow_shared_bytes(driver: Driver, function: LoadedFunction, dynamic_bytes: int) -> None:
    """Let launches of a function have up to this much dynamic shared memory a block."""
    _set_attribute(
        driver,
        function,
        "MAX_DYNAMIC_SHARED_SIZE_BYTES",
        dynamic_bytes,
        doing=f"allow {function.name} {dynamic_bytes} bytes of dynamic shared memory",
    )


def prefer_carveout(driver: Driver, function: LoadedFunction, percent: int) -> None:
    """Request a part of the largest carve-out of shared memory when a function runs."""
    _set_attribute(
        driver,
        function,
        "PREFERRED_SHARED_MEMORY_CARVEOUT",
        percent,
        doing=f"prefer {percent} % of shared memory for {function.name}",
    )


def _set_attribute(
    driver: Driver, function: LoadedFunction, name: str, value: int, *, doing: str
) -> None:
    attribute = getattr(driver.api.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
    with driver.current(function.device_index):
        driver.call(driver.api.cuFuncSetAttribute, function.handle, attribute, value, doing=doing)


class _ParameterRoom(threading.local):
    """Memory for the parameters of a thread's launch, with the addresses that the driver needs.

    cuLaunchKernel copies the parameters before it returns, so one buffer a thread will do, and the
    ``extra`` array that points to it is written once.
    """

    def __init__(self) -> None:
        self.buffer = ctypes.create_string_buffer(_MAX_PARAMETER_BYTES)
        self.size = ctypes.c_size_t(0)
        self.address = ctypes.addressof(self.buffer)
        self.extra = (ctypes.c_void_p * 5)(
            _PARAM_BUFFER_POINTER,
            self.address,
            _PARAM_BUFFER_SIZE,
            ctypes.addressof(self.size),
            _PARAM_END,
        )
        self.extra_address = ctypes.addressof(self.extra)


_room = _ParameterRoom()


def launch(
    driver: Driver,
    function: LoadedFunction,
    grid_dim: Dim3,
    block_dim: Dim3,
    parameters: bytes,
    *,
    shared_bytes: int,
    stream: int,
    cluster_dim: Dim3 | None = None,
    is_cooperative: bool = False,
    is_early: bool = False,
    offsets: Sequence[int] = (),
    by_address: bool = False,
) -> None:
    """Start a kernel; the parameters are copied before this returns.

    Parameters are packed as the entry declares them, each from its offset on. `offsets` is needed
    if blocks run together, in clusters or cooperatively, and for a kernel that `is_early`. Such a
    kernel may begin before the previous kernel ends, and waits for it. With `by_address` the driver
    is always given the parameters at the offsets alone. `shared_bytes` are those of dynamic shared
    memory of a block.

    Raises `ResourceLimitError` if there are more parameters than a kernel can have. Raises
    `DriverError` if the driver rejected the launch, or earlier work has failed.
    """
    room = _room
    if len(parameters) > _MAX_PARAMETER_BYTES:
        raise ResourceLimitError(
            f"{function.name} takes {len(parameters)} bytes of parameters",
            value=len(parameters),
            limit=f"A kernel takes at most {_MAX_PARAMETER_BYTES}",
            remedy="Pass fewer arguments, or pack them into arrays",
        )
    ctypes.memmove(room.address, parameters, len(parameters))
    room.size.value = len(parameters)
    with_attributes = cluster_dim is not None or is_cooperative or is_early
    one_by_one = 0
    if offsets and (with_attributes or by_address):
        # Cooperative launches pass addresses, too: the driver (580.159) answers
        # CUDA_ERROR_INVALID_VALUE to the capture of one with its parameters in a buffer.
        addresses = (ctypes.c_void_p * len(offsets))(*(room.address + each for each in offsets))
        one_by_one = ctypes.addressof(addresses)
    with driver.current(function.device_index):
        if with_attributes:
            config = _launch_config(driver.api, grid_dim, block_dim, shared_bytes, stream)
            config.attrs = _attributes(driver.api, cluster_dim, is_cooperative, is_early)
            config.numAttrs = len(config.attrs)
            status = driver.api.cuLaunchKernelEx(config, function.handle, one_by_one, 0)[0]
        else:
            extra = room.extra_address if parameters and not by_address else 0
            status = driver.api.cuLaunchKernel(
                function.handle, *grid_dim, *block_dim, shared_bytes, stream, one_by_one, extra
            )[0]
    if int(status):
        raise driver.failure(
            status,
            f"launch {function.name} with grid {grid_dim}, block {block_dim} and {shared_bytes} "
            f"bytes of dynamic shared memory on cuda:{function.device_index}",
            index=function.device_index,
        )
    function.launches.append((function.kernel, grid_dim, block_dim, stream))


def _launch_config(
    api: Any, grid_dim: Dim3, block_dim: Dim3, shared_bytes: int, stream: int
) -> Any:
    """Return the driver's ``CUlaunchConfig``, without attributes."""
    config = api.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid_dim
    config.blockDimX, config.blockDimY, config.blockDimZ = block_dim
    config.sharedMemBytes = shared_bytes
    config.hStream = api.CUstream(stream)
    return config


def _attributes(
    api: Any, cluster_dim: Dim3 | None, is_cooperative: bool, is_early: bool
) -> list[Any]:
    """Return the driver's ``CUlaunchAttribute`` of a launch."""
    found = []
    if cluster_dim is not None:
        attribute = api.CUlaunchAttribute()
        attribute.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = (
            cluster_dim
        )
        found.append(attribute)
    if is_cooperative:
        attribute = api.CUlaunchAttribute()
        attribute.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        attribute.value.cooperative = 1
        found.append(attribute)
    if is_early:
        attribute = api.CUlaunchAttribute()
        attribute.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        found.append(attribute)
    return found
