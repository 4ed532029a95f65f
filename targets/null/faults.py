"""Faults that a test can plan for the null target: errors that a driver would return.

Errors come from the same tables as the CUDA target's. After a fatal one, the same
:class:`~targets.cuda.driver.loss.DeviceWatch` takes the device out of use. So all layers above a
target are tested with them on every machine.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from typing import Any

from kerneldsl.contract import Device, Dim3
from kerneldsl.contract.error_history import CATEGORIES
from kerneldsl.errors import DriverError
from targets.cuda.driver.codes import DRIVER_CODES, DriverCode
from targets.cuda.driver.errors import compose_error
from targets.cuda.driver.loss import DeviceWatch

__all__ = ["OPERATIONS", "FaultPlan", "fault"]

#: Operations that can be made to fail.
OPERATIONS = (
    "compile",
    "load",
    "launch",
    "allocate",
    "memory_info",
    "copy_from_host",
    "copy_to_host",
    "copy_on_device",
    "copy_to_peer",
    "fill",
    "synchronize",
    "create_stream",
    "create_event",
    "record_event",
    "query_event",
    "wait_event",
    "begin_capture",
    "launch_graph",
)

#: A common fault of each category, by its name and what a driver was doing then. What the vendor's
#: compilers answer is NVRTC's.
_TYPICAL = {
    "initialization": ("CUDA_ERROR_SYSTEM_NOT_READY", "initialize the driver"),
    "device": ("CUDA_ERROR_DEVICE_UNAVAILABLE", "open null:0"),
    "memory": ("CUDA_ERROR_OUT_OF_MEMORY", "allocate 1024 bytes on null:0"),
    "kernel": ("CUDA_ERROR_INVALID_IMAGE", "load a kernel on null:0"),
    "launch": ("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "launch a kernel on null:0"),
    "stream": ("CUDA_ERROR_INVALID_HANDLE", "use a stream of null:0"),
    "compile": ("NVRTC_ERROR_COMPILATION", "compile a kernel"),
    "system": ("CUDA_ERROR_OPERATING_SYSTEM", "use null:0"),
}
_COMPILATION = DriverCode(
    6, "NVRTC_ERROR_COMPILATION", "compile", "Read the compiler's log, which names the line"
)
_CODES = {code.name: code for code in (*DRIVER_CODES.values(), _COMPILATION)}


def fault(kind: str, doing: str | None = None, **fields: Any) -> DriverError:
    """Compose the error that a driver would answer with.

    Raises `ValueError` if there is no such category or name.

    Parameters
    ----------
    kind : str
        A category, such as ``"memory"``, for its commonest fault; or a driver's name, such as
        ``"CUDA_ERROR_ILLEGAL_ADDRESS"``.
    doing : str, optional
        What was being done, beginning with a verb.
    **fields
        Further fields of the error.

    Returns
    -------
    DriverError
        To be planned with :meth:`targets.null.target.NullTarget.fail_next`.

    Examples
    --------
    >>> error = fault("memory")
    >>> type(error).__name__, error.code, error.is_fatal
    ('OutOfMemoryError', 2, False)
    """
    name, usually = _TYPICAL.get(kind, (kind, "use null:0"))
    fields = {"device": "null:0", **fields}
    if name not in _CODES:
        raise ValueError(
            f"{kind!r} is neither a category ({', '.join(CATEGORIES)}) nor a name of the driver"
        )
    return compose_error(
        _CODES[name], doing or usually, who="A driver", text="planned for the null target", **fields
    )


class FaultPlan:
    """Plan of the calls that are to fail, and of the devices that are lost."""

    def __init__(self) -> None:
        #: The health of the described devices.
        self.watch = DeviceWatch("null")
        self._lock = threading.Lock()
        self._planned: defaultdict[str, deque[BaseException]] = defaultdict(deque)

    def add(self, operation: str, error: BaseException) -> None:
        """Let the next call of an operation, of those not planned for yet, raise an error."""
        if operation not in OPERATIONS:
            raise ValueError(f"unknown operation {operation!r}; there are {', '.join(OPERATIONS)}")
        with self._lock:
            self._planned[operation].append(error)

    def is_planned(self, operation: str) -> bool:
        """Return whether the next call of an operation is to fail."""
        return bool(self._planned.get(operation))

    def begin(self, operation: str, device: Device | None = None) -> None:
        """Raise what is planned for this call, or that the device is lost.

        A planned error that is fatal takes the device out of use, or all of them.
        """
        if device is not None:
            self.watch.check(device.index, f"{operation.replace('_', ' ')} on {device}")
        with self._lock:
            planned = self._planned.get(operation)
            error = planned.popleft() if planned else None
        if error is None:
            return
        if device is not None and isinstance(error, DriverError) and error.is_fatal:
            self.watch.report(device.index, error)
        raise error

    def note_launch(
        self, device: Device, kernel: str, grid_dim: Dim3, block_dim: Dim3, stream: int
    ) -> None:
        """Note a launch, which is under suspicion until the device was waited for."""
        self.watch.launches(device.index).append((kernel, grid_dim, block_dim, stream))

    def clear(self) -> None:
        """Forget planned errors; lost devices are well again."""
        with self._lock:
            self._planned.clear()
        self.watch = DeviceWatch("null")
