"""The one module that calls the CUDA driver.

Everything goes through ``cuda.bindings.driver`` (12.8 or newer): devices, contexts, modules,
functions, launches, memory and copies. Nothing is loaded before :func:`get_driver` is called.

Contexts are the devices' primary contexts, which torch, CuPy and the CUDA runtime use too. A call
makes the device's context current in its thread and puts back what was current before, so that
other libraries never find their device changed.

References
----------
CUDA Driver API, sections "Primary Context Management", "Module Management", "Memory Management"
and "Execution Control".
"""

from __future__ import annotations

import ctypes
import logging
import os
import re
import threading
from dataclasses import dataclass
from typing import Any

from kerneldsl.errors import CompileError, DriverError, TargetUnavailableError
from kerneldsl.target import Device, Dim3, Resources
from targets.cuda.devices import describe_device
from targets.cuda.driver_errors import driver_error, remedy_for
from targets.cuda.fork import fork_guard

__all__ = ["Driver", "LoadedFunction", "get_driver"]

_log = logging.getLogger("kerneldsl.cuda.driver")

_LOG_BYTES = 16384
#: Bytes of shared memory, static and dynamic, that a block gets without opting in
#: (CUDA Programming Guide, "Technical Specifications per Compute Capability").
_DEFAULT_SHARED_BYTES = 48 * 1024
#: Bytes of parameters that any kernel may have (PTX ISA, "Kernel Function Parameters").
_MAX_PARAMETER_BYTES = 32764

# CUDA Driver API, cuLaunchKernel: the tags of its `extra` argument.
_PARAM_END, _PARAM_BUFFER_POINTER, _PARAM_BUFFER_SIZE = 0, 1, 2


class _State(threading.local):
    """Per thread: room for the parameters of the launch under way."""

    def __init__(self) -> None:
        # cuLaunchKernel copies the parameters before it returns, so one buffer a thread will do,
        # and its addresses can be written into the `extra` array once.
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


@dataclass(frozen=True)
class LoadedFunction:
    """An entry of a module that is loaded on a device.

    Parameters
    ----------
    name : str
        The entry's name.
    device_index : int
        Where it is loaded.
    handle : object
        The driver's ``CUfunction``.
    module : object
        The driver's ``CUmodule`` that the function belongs to.
    resources : Resources
        What the driver's assembler gave it.
    """

    name: str
    device_index: int
    handle: Any
    module: Any
    resources: Resources


class _CurrentContext:
    """Makes a device's primary context current, and puts back what was current before."""

    __slots__ = ("_driver", "_index", "_previous")

    def __init__(self, driver: Driver, index: int) -> None:
        self._driver = driver
        self._index = index
        self._previous: Any = None

    def __enter__(self) -> None:
        driver = self._driver
        fork_guard.check()
        context, handle = driver.contexts.get(self._index) or driver.retain_context(self._index)
        previous = driver.call(driver.api.cuCtxGetCurrent, doing="read the current context")
        if int(previous) == handle:
            return
        driver.call(driver.api.cuCtxSetCurrent, context, doing=f"use cuda:{self._index}")
        # With nothing current, other libraries take device 0; so its context may stay.
        if int(previous) or self._index:
            self._previous = previous

    def __exit__(self, *exc: object) -> None:
        if self._previous is not None:
            self._driver.api.cuCtxSetCurrent(self._previous)
            self._previous = None


class Driver:
    """The initialized CUDA driver.

    Parameters
    ----------
    api : module
        ``cuda.bindings.driver``, after a successful ``cuInit``.
    """

    def __init__(self, api: Any) -> None:
        self.api = api
        #: The CUDA version the driver supports, such as ``(13, 0)``.
        self.cuda_version: tuple[int, int] = self._read_version()
        self.contexts: dict[int, tuple[Any, int]] = {}
        self._lock = threading.Lock()
        self._state = _State()
        self._devices: tuple[Device, ...] | None = None

    # ------------------------------------------------------------------ calls

    def call(self, function: Any, *args: Any, doing: str) -> Any:
        """Call the driver, and raise what it answers.

        Parameters
        ----------
        function : callable
            A function of `api`.
        *args
            Its arguments.
        doing : str
            What is being done, for the error's text; begins with a verb.

        Returns
        -------
        object
            The call's result: ``None``, one value, or a tuple of several.

        Raises
        ------
        DriverError
            The driver answered with an error.
        """
        answer = function(*args)
        if int(answer[0]):
            raise driver_error(self.api, answer[0], doing)
        if len(answer) == 2:
            return answer[1]
        return answer[1:] or None

    def _read_version(self) -> tuple[int, int]:
        number = int(self.call(self.api.cuDriverGetVersion, doing="read the driver's version"))
        return number // 1000, number % 1000 // 10

    # ---------------------------------------------------------------- devices

    def devices(self) -> tuple[Device, ...]:
        """The devices that ``CUDA_VISIBLE_DEVICES`` lets be seen, in the driver's order."""
        fork_guard.check()
        if self._devices is None:
            count = self.call(self.api.cuDeviceGetCount, doing="count devices")
            self._devices = tuple(
                describe_device(self.api, self.call, index) for index in range(int(count))
            )
        return self._devices

    def retain_context(self, index: int) -> tuple[Any, int]:
        """Retain the primary context of a device for the life of the process.

        Returns
        -------
        context : CUcontext
            As the driver takes it.
        handle : int
            As a number, to be compared.
        """
        with self._lock:
            known = self.contexts.get(index)
            if known is None:
                device = self.call(self.api.cuDeviceGet, index, doing=f"find cuda:{index}")
                context = self.call(
                    self.api.cuDevicePrimaryCtxRetain, device, doing=f"open cuda:{index}"
                )
                known = self.contexts[index] = (context, int(context))
        return known

    def current(self, index: int) -> _CurrentContext:
        """A ``with`` block in which a device's context is current in this thread."""
        return _CurrentContext(self, index)

    def synchronize(self, index: int) -> None:
        """Wait until everything on a device has finished; raises what failed there."""
        with self.current(index):
            self.call(self.api.cuCtxSynchronize, doing=f"wait for cuda:{index}")

    def synchronize_stream(self, index: int, stream: int, doing: str | None = None) -> None:
        """Wait until everything in a stream has finished; raises what failed there."""
        with self.current(index):
            self.call(
                self.api.cuStreamSynchronize,
                stream,
                doing=doing or f"wait for stream {stream:#x} of cuda:{index}",
            )

    # ---------------------------------------------------------------- modules

    def load(
        self, index: int, image: str | bytes, entry_name: str, *, line_info: bool = False
    ) -> LoadedFunction:
        """Load PTX, or a binary, and look up one entry.

        Parameters
        ----------
        index : int
            The device.
        image : str or bytes
            PTX text, or the bytes of a cubin or fatbin.
        entry_name : str
            The entry.
        line_info : bool
            Keep source lines when assembling PTX.

        Returns
        -------
        LoadedFunction

        Raises
        ------
        CompileError
            The driver's assembler refused the PTX; its log is chained.
        DriverError
            Anything else.
        """
        data = image.encode() + b"\0" if isinstance(image, str) else image
        with self.current(index):
            module, info = self._load_module(index, data, entry_name, line_info)
            function = self.call(
                self.api.cuModuleGetFunction,
                module,
                entry_name.encode(),
                doing=f"find entry {entry_name} in the loaded module",
            )
            resources = self._resources(function, info)
        return LoadedFunction(entry_name, index, function, module, resources)

    def _load_module(
        self, index: int, data: bytes, entry_name: str, line_info: bool
    ) -> tuple[Any, str]:
        option = self.api.CUjit_option
        info, errors = bytearray(_LOG_BYTES), bytearray(_LOG_BYTES)
        options = {
            option.CU_JIT_INFO_LOG_BUFFER: info,
            option.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: _LOG_BYTES,
            option.CU_JIT_ERROR_LOG_BUFFER: errors,
            option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: _LOG_BYTES,
            option.CU_JIT_LOG_VERBOSE: 1,
        }
        if line_info:
            options[option.CU_JIT_GENERATE_LINE_INFO] = 1
        answer = self.api.cuModuleLoadDataEx(
            data, len(options), list(options), list(options.values())
        )
        info_text = _log_text(info)
        if info_text:
            _log.debug("driver's assembler for %s: %s", entry_name, info_text)
        if int(answer[0]):
            failure = driver_error(self.api, answer[0], f"load {entry_name} on cuda:{index}")
            text = _log_text(errors)
            if not text:
                raise failure
            raise CompileError(
                f"The driver could not assemble {entry_name} for cuda:{index} ({failure.name})",
                value=failure.code,
                limit=f"The driver is one of CUDA {self.cuda_version[0]}.{self.cuda_version[1]}",
                remedy=remedy_for(failure.name),
                chain=tuple(text.splitlines()),
            ) from failure
        return answer[1], info_text

    def _resources(self, function: Any, info: str) -> Resources:
        local_bytes = self._attribute(function, "LOCAL_SIZE_BYTES")
        spills = re.findall(r"(\d+) bytes spill stores", info)
        return Resources(
            registers=self._attribute(function, "NUM_REGS"),
            # The log alone knows spills, and it is empty when the driver had the code in its cache.
            spill_bytes=sum(map(int, spills)) if spills else (None if local_bytes else 0),
            local_bytes=local_bytes,
            static_shared_bytes=self._attribute(function, "SHARED_SIZE_BYTES"),
            max_block_threads=self._attribute(function, "MAX_THREADS_PER_BLOCK"),
        )

    def _attribute(self, function: Any, name: str) -> int:
        which = getattr(self.api.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        value = self.call(
            self.api.cuFuncGetAttribute, which, function, doing=f"read {name} of a kernel"
        )
        return int(value)

    def unload(self, function: LoadedFunction) -> None:
        """Unload the module of a function that no launch uses any more."""
        with self.current(function.device_index):
            self.call(self.api.cuModuleUnload, function.module, doing=f"unload {function.name}")

    def allow_shared_bytes(self, function: LoadedFunction, dynamic_bytes: int) -> None:
        """Let launches of a function have this much dynamic shared memory a block.

        Does nothing where no opt-in is needed. The caller has checked the device's limit.
        """
        if function.resources.static_shared_bytes + dynamic_bytes <= _DEFAULT_SHARED_BYTES:
            return
        attribute = self.api.CUfunction_attribute
        with self.current(function.device_index):
            self.call(
                self.api.cuFuncSetAttribute,
                function.handle,
                attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                dynamic_bytes,
                doing=f"allow {function.name} {dynamic_bytes} bytes of dynamic shared memory",
            )

    def launch(
        self,
        function: LoadedFunction,
        grid_dim: Dim3,
        block_dim: Dim3,
        parameters: bytes,
        *,
        shared_bytes: int,
        stream: int,
    ) -> None:
        """Start a kernel; the parameters are copied before this returns.

        Parameters
        ----------
        function : LoadedFunction
            The kernel.
        grid_dim, block_dim : tuple of int
            Blocks of the grid and threads of a block, x first.
        parameters : bytes
            All parameters, packed as the entry declares them.
        shared_bytes : int
            Dynamic shared memory of a block.
        stream : int
            The driver's handle.

        Raises
        ------
        DriverError
            The driver refused the launch, or something that ran before it had failed.
        """
        state = self._state
        ctypes.memmove(state.address, parameters, len(parameters))
        state.size.value = len(parameters)
        with self.current(function.device_index):
            status = self.api.cuLaunchKernel(
                function.handle,
                *grid_dim,
                *block_dim,
                shared_bytes,
                stream,
                0,
                state.extra_address if parameters else 0,
            )[0]
        if int(status):
            raise driver_error(
                self.api,
                status,
                f"launch {function.name} with grid {grid_dim}, block {block_dim} and "
                f"{shared_bytes} bytes of dynamic shared memory on cuda:{function.device_index}",
            )


def _log_text(buffer: bytearray) -> str:
    return bytes(buffer).split(b"\0")[0].decode(errors="replace").strip()


# ------------------------------------------------------------------- the process's one driver


_driver: Driver | None = None
_driver_lock = threading.Lock()


def get_driver() -> Driver:
    """The CUDA driver, initialized at the first call.

    Returns
    -------
    Driver

    Raises
    ------
    TargetUnavailableError
        The bindings, the driver library or a device is missing; the message says which, and what
        to do about it.
    DriverError
        The process was forked after its parent had used CUDA.
    """
    fork_guard.check()
    if _driver is not None:
        return _driver
    with _driver_lock:
        return _driver or _initialize()


def _initialize() -> Driver:
    global _driver  # noqa: PLW0603 - the driver is one for a process
    try:
        from cuda.bindings import driver as api
    except ImportError as error:
        raise TargetUnavailableError(
            "The CUDA target needs cuda.bindings, which is not installed",
            remedy='pip install "kerneldsl[cuda13]", or "kerneldsl[cuda12]" for a driver of '
            "CUDA 12",
        ) from error
    try:
        status = api.cuInit(0)[0]
    except RuntimeError as error:  # what every version of the bindings raises without a library
        raise TargetUnavailableError(
            "The CUDA driver's library libcuda.so.1 was not found",
            remedy="Install NVIDIA's driver; nvidia-smi must work",
        ) from error
    if int(status):
        failure = driver_error(api, status, "initialize the CUDA driver")
        raise TargetUnavailableError(
            failure.what,
            value=failure.code,
            limit=failure.limit,
            remedy=_why_nothing_is_visible() or failure.remedy,
        ) from failure
    driver = Driver(api)
    try:
        count = len(driver.devices())
    except DriverError as failure:
        raise TargetUnavailableError(
            failure.what, limit=failure.limit, remedy=failure.remedy
        ) from failure
    if count == 0:
        raise TargetUnavailableError(
            "The CUDA driver sees no device",
            remedy=_why_nothing_is_visible() or "Check nvidia-smi",
        )
    fork_guard.arm()
    _driver = driver
    _log.debug(
        "CUDA %d.%d driver; devices: %s",
        *driver.cuda_version,
        ", ".join(f"{d} {d.name} ({d.arch})" for d in driver.devices()),
    )
    return driver


def _why_nothing_is_visible() -> str | None:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return None
    return f"CUDA_VISIBLE_DEVICES is {visible!r}: unset it, or name a device such as 0 in it"
