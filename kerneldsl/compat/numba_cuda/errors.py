"""numba.cuda's errors, and those of kerneldsl in their places."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kerneldsl.compat.numba_cuda.words import add_words, call_without_type
from kerneldsl.errors import (
    BarrierDivergenceError,
    CompileError,
    DeviceCodeError,
    DriverError,
    KernelError,
    KernelTypingError,
    LaunchConfigError,
    UndefinedAttributeError,
    UndefinedNameError,
    UnsupportedConstructError,
)
from kerneldsl.frontend.constructs import NO_RESULT
from kerneldsl.frontend.statics import NOT_KNOWN
from kerneldsl.utilities.tracebacks import TranslatedError

__all__ = [
    "CudaAPIError",
    "CudaDriverError",
    "CudaSupportError",
    "KernelRuntimeError",
    "NvvmError",
    "missing_launch_config_msg",
    "translated",
    "translating",
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


def translated(
    error: KernelError, function: Any = None, parameters: dict[str, Any] | None = None
) -> BaseException:
    """Return the error that numba.cuda raises in the place of one of kerneldsl's, or that itself.

    It is of both classes, so that a program may catch either, and has the words of both.
    `function` is that of the kernel, and `parameters` are Numba's types of those.
    """
    add_words(error, function)
    said = "" if parameters is None else call_without_type(error, function, parameters)
    if isinstance(error, CompileError):
        from numba import errors

        cause = error.__cause__
        while cause is not None and not isinstance(cause, errors.LoweringError):
            cause = cause.__cause__
        if cause is not None:
            return _as((errors.LoweringError,), error)
    if isinstance(error, _TYPING):
        from numba import errors

        if error.limit == NOT_KNOWN:
            return _as((errors.RequireLiteralValue,), error, said)
        if error.limit == NO_RESULT:
            return _as((TypeError,), error)
        is_unsupported = isinstance(error, UnsupportedConstructError)
        more = (errors.UnsupportedError,) if is_unsupported else ()
        return _as((*more, errors.TypingError), error, said)
    if isinstance(error, LaunchConfigError):
        return _as((CudaAPIError, ValueError, *_of_core("CUDAError")), error)
    if isinstance(error, DeviceCodeError):
        return _as((NvrtcError, LinkerError, *_of_core("NVRTCError")), error)
    if isinstance(error, DriverError):
        return _as((CudaAPIError,), error)
    return error


def _of_core(name: str) -> tuple[type, ...]:
    """Return the class of cuda.core that numba-cuda raises, if the program can know it."""
    found = vars(sys.modules.get("cuda.core._utils.cuda_utils", sys)).get(name)
    return () if found is None else (found,)


@contextmanager
def translating(function: Any = None, parameters: dict[str, Any] | None = None) -> Iterator[None]:
    """Raise numba.cuda's errors in the places of kerneldsl's, as of a kernel's compilation."""
    try:
        yield
    except KernelError as error:
        found = translated(error, function, parameters)
        if found is error:
            raise
        raise found from error


_classes: dict[tuple[type, ...], type] = {}


def _as(bases: tuple[type, ...], error: KernelError, said: str = "") -> BaseException:
    made = _classes.get(bases)
    if made is None:
        made = _classes[bases] = type(bases[0].__name__, (_Translated, *bases), {})
    found: BaseException = made(error, said)
    return found


class _Translated(TranslatedError):
    """An error of numba.cuda's that shows what kerneldsl says."""

    def __init__(self, error: KernelError, said: str = "") -> None:
        self.error, self.said = error, said
        self.msg = str(error)
        self.loc = None
        self.code = getattr(error, "code", 1)  # CUDA_ERROR_INVALID_VALUE
        self.args = (str(self),)

    def __str__(self) -> str:
        if isinstance(self.error, DriverError):
            return f"[{self.code}] {self.error}"
        if isinstance(self, CudaAPIError):
            return f"CUDA_ERROR_INVALID_VALUE: {self.error}"
        if type(self).__name__ == "RequireLiteralValue":  # which Numba's text names
            return f"RequireLiteralValue: {self.error}{self.said}"
        return f"{self.error}{self.said}"
