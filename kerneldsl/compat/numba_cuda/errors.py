"""numba.cuda's errors, and those of kerneldsl in their places."""

from __future__ import annotations

from kerneldsl.errors import (
    BarrierDivergenceError,
    KernelError,
    KernelTypingError,
    LaunchConfigError,
    UndefinedAttributeError,
    UndefinedNameError,
    UnsupportedConstructError,
)

__all__ = [
    "CudaAPIError",
    "CudaDriverError",
    "CudaSupportError",
    "KernelRuntimeError",
    "NvvmError",
    "missing_launch_config_msg",
    "translated",
]

missing_launch_config_msg = """
Kernel launch configuration was not specified. Use the syntax:

kernel_function[blockspergrid, threadsperblock](arg0, arg1, ..., argn)

See https://numba.readthedocs.io/en/stable/cuda/kernels.html#kernel-invocation for help.

"""


class KernelRuntimeError(RuntimeError):
    """An exception that a thread raised and that has no type here."""


class CudaDriverError(Exception):
    """The driver failed."""


class CudaRuntimeError(Exception):
    """The runtime failed."""


class CudaSupportError(ImportError):
    """CUDA cannot be used."""


class CudaAPIError(CudaDriverError):
    """A call of the driver failed.

    Parameters
    ----------
    code : int
        The driver's number of the error.
    msg : str
        What it means.
    """

    def __init__(self, code: int, msg: str) -> None:
        self.code, self.msg = code, msg
        super().__init__(code, msg)

    def __str__(self) -> str:
        return f"[{self.code}] {self.msg}"


class NvvmError(Exception):
    """The compiler failed."""


class NvrtcError(Exception):
    """The compiler of CUDA C++ failed."""


class LinkerError(RuntimeError):
    """Code cannot be linked."""


#: Errors of the kernel's text: numba.cuda's typing error.
_TYPING = (
    BarrierDivergenceError,
    KernelTypingError,
    UndefinedAttributeError,
    UndefinedNameError,
    UnsupportedConstructError,
)


def translated(error: KernelError) -> BaseException:
    """Return the error that numba.cuda raises in the place of one of kerneldsl's, or that itself.

    It is of both classes, so that a program may catch either.
    """
    if isinstance(error, _TYPING):
        from numba import errors

        is_unsupported = isinstance(error, UnsupportedConstructError)
        return _as(errors.UnsupportedError if is_unsupported else errors.TypingError, error)
    if isinstance(error, LaunchConfigError):
        return _as(ValueError, error)
    return error


_classes: dict[tuple[type, type], type] = {}


def _as(base: type, error: KernelError) -> BaseException:
    key = base, type(error)
    if isinstance(error, base):
        return error
    made = _classes.get(key)
    if made is None:
        made = _classes[key] = type(base.__name__, (_Translated, base), {})
    found: BaseException = made(error)
    return found


class _Translated(Exception):
    """An error of numba.cuda's that shows what kerneldsl says."""

    def __init__(self, error: KernelError) -> None:
        self.error = error
        self.msg = str(error)
        self.loc = None
        self.args = (str(error),)

    def __str__(self) -> str:
        return str(self.error)
