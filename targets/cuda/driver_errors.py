"""What the CUDA driver's error codes mean for a user of kerneldsl, and what to do about them.

The driver answers with a number; a :class:`~kerneldsl.errors.DriverError` says what was being done,
what the driver calls the error, and the remedy where there is a usual one.

References
----------
CUDA Driver API, section "Data types used by CUDA driver", enumeration ``CUresult``.
"""

from __future__ import annotations

from typing import Any

from kerneldsl.errors import DriverError

__all__ = ["driver_error", "remedy_for"]

_RESTART = (
    "The device's context is lost: restart the process. Launch with debug=True or "
    "KERNELDSL_DEBUG=1 to learn which index was out of range"
)
_REMEDIES = {
    "CUDA_ERROR_OUT_OF_MEMORY": "Free device arrays, or use smaller ones",
    "CUDA_ERROR_NO_DEVICE": "Check nvidia-smi and CUDA_VISIBLE_DEVICES",
    "CUDA_ERROR_INVALID_DEVICE": "kerneldsl shows the devices with kd.show_versions()",
    "CUDA_ERROR_DEVICE_UNAVAILABLE": "Another process holds the device in exclusive mode",
    "CUDA_ERROR_STUB_LIBRARY": (
        "The libcuda.so.1 found first is the toolkit's stub; put the driver's folder first in "
        "LD_LIBRARY_PATH"
    ),
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": (
        "The kernel module and libcuda differ in version; reboot, or reinstall the driver"
    ),
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": (
        "The forward-compatibility libcuda does not serve this device; use the driver's own"
    ),
    "CUDA_ERROR_SYSTEM_NOT_READY": "Start nvidia-fabricmanager, or wait until the system is up",
    "CUDA_ERROR_INVALID_PTX": "This is a fault of the compiled code; please report it",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": (
        "The driver is older than the PTX; compile for an older PTX version, or update the driver"
    ),
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "Compile for the architecture of this device",
    "CUDA_ERROR_INVALID_IMAGE": "The driver does not know this code's form; update the driver",
    "CUDA_ERROR_JIT_COMPILER_NOT_FOUND": (
        "libnvidia-ptxjitcompiler.so.1 is missing; it is part of the driver's packages"
    ),
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": (
        "Use a smaller block, or limit registers with max_registers= or launch_bounds="
    ),
    "CUDA_ERROR_LAUNCH_TIMEOUT": (
        "The device drives a display and stops long kernels; split the work. " + _RESTART
    ),
    "CUDA_ERROR_ILLEGAL_ADDRESS": _RESTART,
    "CUDA_ERROR_MISALIGNED_ADDRESS": _RESTART,
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": _RESTART,
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": _RESTART,
    "CUDA_ERROR_INVALID_PC": _RESTART,
    "CUDA_ERROR_HARDWARE_STACK_ERROR": _RESTART,
    "CUDA_ERROR_LAUNCH_FAILED": _RESTART,
    "CUDA_ERROR_ASSERT": _RESTART,
    "CUDA_ERROR_ECC_UNCORRECTABLE": "The device's memory failed; restart the process",
    "CUDA_ERROR_INVALID_HANDLE": "A stream, event or function of another device or already closed",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED": "Another library reset the device; restart the process",
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": (
        "The stream is being captured into a graph; prepare arrays and kernels before"
    ),
}


def remedy_for(name: str) -> str | None:
    """The usual remedy for an error, by the driver's name for it."""
    return _REMEDIES.get(name)


def driver_error(api: Any, status: Any, doing: str, **fields: Any) -> DriverError:
    """Compose the error for a status that is not success.

    Parameters
    ----------
    api : module
        ``cuda.bindings.driver``.
    status : CUresult or int
        What the driver answered; a newer driver may answer with a number the bindings do not name.
    doing : str
        What was being done, such as ``"allocate 1024 bytes on cuda:0"``.
    **fields
        Further fields of the error; a ``remedy`` takes the place of the usual one.

    Returns
    -------
    DriverError
        To be raised by the caller.
    """
    code = int(status)
    name, text = _text_of(api, status)
    fields.setdefault("remedy", remedy_for(name))
    fields.setdefault("value", code)
    fields.setdefault("limit", f"The CUDA driver answered {name} ({code}): {text}")
    return DriverError(f"Could not {doing}", code=code, name=name, **fields)


def _text_of(api: Any, status: Any) -> tuple[str, str]:
    name, text = getattr(status, "name", None), None
    if name is not None:
        failed, raw = api.cuGetErrorString(status)
        text = raw.decode() if not int(failed) and raw else None
    return name or f"CUDA error {int(status)}", text or "no further description"
