"""Errors of the CUDA driver, composed from the table of its codes.

The driver answers with a number; a :class:`~kerneldsl.errors.DriverError` says what was being done,
what the driver calls the error, and what to do. Its class follows from the category in the table.
Every error made here is written down in the history, :data:`kerneldsl.error_log`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kerneldsl.contract.error_history import error_log
from kerneldsl.errors import (
    DeviceError,
    DeviceMemoryError,
    DriverCompileError,
    DriverInitializationError,
    DriverSystemError,
    KernelImageError,
    LaunchError,
    OutOfMemoryError,
    StreamError,
)
from targets.cuda.driver.codes import DRIVER_CODES, DriverCode, find_code
from targets.cuda.driver.loss import suspect_lines

if TYPE_CHECKING:
    from kerneldsl.errors import DriverError

__all__ = [
    "compose_error",
    "describe_foreign",
    "describe_status",
    "driver_error",
    "remedy_for",
]

_CLASSES: dict[str, type[DriverError]] = {
    kind.category: kind
    for kind in (
        DriverInitializationError,
        DeviceError,
        DeviceMemoryError,
        KernelImageError,
        LaunchError,
        StreamError,
        DriverCompileError,
        DriverSystemError,
    )
}
_BY_NAME = {code.name: code for code in DRIVER_CODES.values()}


def remedy_for(name: str) -> str | None:
    """Return the usual remedy for an error, by the driver's name for it."""
    code = _BY_NAME.get(name)
    return None if code is None else code.remedy


def compose_error(
    code: DriverCode,
    doing: str,
    *,
    text: str = "",
    who: str = "The CUDA driver",
    suspects: tuple[str, ...] = (),
    **fields: Any,
) -> DriverError:
    """Compose the error for a known code, and write it down.

    `doing` is such as ``"allocate 1024 bytes on cuda:0"``, and `text` how the driver describes the
    code. `suspects` are launches to name where the code is fatal. Fields, such as
    ``device="cuda:0"``, are the error's; a ``remedy`` or ``limit`` takes the place of the usual
    one. The class follows from the code's category.
    """
    kind = _CLASSES[code.category]
    if code.name == "CUDA_ERROR_OUT_OF_MEMORY":
        kind = OutOfMemoryError
    if code.is_fatal and suspects:
        fields.setdefault("chain", suspect_lines(suspects))
    said = f"{who} answered {code.name} ({code.code})" + (f": {text}" if text else "")
    error = kind(
        f"Could not {doing}",
        code=code.code,
        name=code.name,
        is_fatal=code.is_fatal,
        loses_process=code.loses_process,
        doing=doing,
        **{"value": code.code, "limit": said, "remedy": code.remedy, **fields},
    )
    error_log.record(error)
    return error


def driver_error(api: Any, status: Any, doing: str, **fields: Any) -> DriverError:
    """Compose the error for a status of the driver that is not success.

    Where a :class:`~targets.cuda.driver.driver.Driver` is at hand, use its
    :meth:`~targets.cuda.driver.driver.Driver.failure`, which also knows the device and whether it
    is lost.

    A newer driver may answer with a number that the bindings do not name.
    """
    code, text = describe_status(api, status)
    return compose_error(code, doing, text=text, **fields)


def describe_status(api: Any, status: Any) -> tuple[DriverCode, str]:
    """Return what a status of the driver means, and the driver's own words for it."""
    name, text = getattr(status, "name", None), None
    if name is not None:
        failed, raw = api.cuGetErrorString(status)
        text = raw.decode() if not int(failed) and raw else None
    code = find_code(int(status), name, " ".join((getattr(status, "__doc__", None) or "").split()))
    return code, text or "no further description"


def describe_foreign(error: Exception) -> tuple[DriverCode, str]:
    """Return what an error that ``cuda.core`` raised means, and its own words.

    Its text holds the code's name, as in ``CUDAError("CUDA_ERROR_INVALID_VALUE: …")``.
    """
    text = " ".join(str(error).split())
    found = re.search(r"\b(CUDA_ERROR_[A-Z0-9_]+|cudaError[A-Za-z]+|NVRTC_ERROR_[A-Z_]+)", text)
    name = found[1] if found else type(error).__name__
    return _BY_NAME.get(name) or find_code(-1, name, text), text
