"""Errors of kernels and launches: source, types, barriers; arguments, shapes and resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from kerneldsl.errors.base import KernelError, KernelWarning, compose
from kerneldsl.errors.values import safe_repr

__all__ = [
    "ArgumentError",
    "ArgumentOverflowError",
    "ArgumentTypeError",
    "ArgumentValueError",
    "AttributeUnavailableError",
    "BarrierDivergenceError",
    "BarrierDivergenceWarning",
    "CacheError",
    "CacheWarning",
    "ClosedResourceError",
    "CompileError",
    "DeviceCodeError",
    "DeviceMismatchError",
    "FallbackWarning",
    "GraphError",
    "KernelFault",
    "KernelTypingError",
    "LaunchConfigError",
    "LibdeviceMissingError",
    "NotShippedError",
    "OutsideKernelError",
    "ReadOnlyArrayError",
    "ResourceLimitError",
    "ShadowedPackageError",
    "SourceUnavailableError",
    "TargetUnavailableError",
    "ToolMissingError",
    "UndefinedAttributeError",
    "UndefinedNameError",
    "UnknownTargetError",
    "UnsupportedConstructError",
    "fault_class",
]


class SourceUnavailableError(KernelError, OSError):
    """The function's source text cannot be found, so it cannot be compiled."""


class UnsupportedConstructError(KernelError, SyntaxError):
    """The kernel uses a Python construct that has no meaning on a device."""

    def __str__(self) -> str:  # SyntaxError would add its own fields
        return str(self.args[0])

    def _message_changed(self) -> None:
        # Printers of a SyntaxError print its place, its line and a caret, and then `msg`.
        where = self.where
        self.msg = compose(self.what, None, self.limit, self.remedy, self.chain)
        if where is None:
            return
        self.filename, self.lineno, self.text = where.filename, where.lineno, where.line
        if where.col_offset is not None:
            self.offset = where.col_offset + 1
            # If there is no end, Python 3.13 underlines the rest of the line; one column is better.
            end = where.end_col_offset
            self.end_lineno = where.lineno
            self.end_offset = (where.col_offset + 1 if end is None else end) + 1


class UndefinedNameError(KernelError, NameError):
    """The kernel reads a name that is not defined, or has no value yet."""


class UndefinedAttributeError(KernelError, AttributeError):
    """The kernel reads an attribute that a module or another outside object does not have."""


class OutsideKernelError(KernelError, RuntimeError):
    """An intrinsic was called from plain Python instead of from a kernel."""


class BarrierDivergenceError(KernelError):
    """Threads of one block would not all reach the same barrier."""


class BarrierDivergenceWarning(KernelWarning):
    """A barrier could not be proved uniform; the target runs it anyway."""


class KernelTypingError(KernelError, TypeError):
    """Numba could not type the kernel for these argument types."""


class CompileError(KernelError, RuntimeError):
    """Lowering, assembling or linking failed for a reason that is not a typing error."""


class DeviceCodeError(CompileError):
    """CUDA C++, PTX or a cubin of the program is refused, or lacks the kernel that was named."""


class LibdeviceMissingError(CompileError):
    """A mathematical function needs libdevice, and no libdevice was found."""


class ToolMissingError(KernelError, RuntimeError):
    """An external program (such as ptxas) that the request needs was not found."""


class KernelFault(KernelError):
    """An exception raised inside a kernel: in debug mode, or on a CPU by an impossible operation.

    A fault is also of the class that the kernel raised. An index out of range is an
    ``IndexError``, a failed ``assert`` an ``AssertionError``, and so on; see :func:`fault_class`.

    Parameters
    ----------
    thread_idx, block_idx : tuple of int, optional
        Coordinates of the first failed thread that was found; ``None`` if they are unknown.
    """

    def __init__(
        self,
        what: str,
        *,
        thread_idx: tuple[int, int, int] | None,
        block_idx: tuple[int, int, int] | None,
        **fields: Any,
    ) -> None:
        self.thread_idx = thread_idx
        self.block_idx = block_idx
        super().__init__(what, **fields)

    def __reduce__(self) -> Any:
        # The class of a concrete fault is made when it is needed and has no name to be found by.
        rebuild, (_, args, fields) = super().__reduce__()
        kind = next((k for k, known in _fault_classes.items() if known is type(self)), None)
        return _rebuild_fault, (rebuild, kind, args, fields)


_fault_classes: dict[type[BaseException], type[KernelFault]] = {}


def fault_class(kind: type[BaseException]) -> type[KernelFault]:
    """Return the class that is both a :class:`KernelFault` and a *kind*.

    Parameters
    ----------
    kind : type
        The exception class the kernel raised.

    Returns
    -------
    type
        A subclass of both, made once for each *kind*, or `KernelFault` itself if the two layouts
        cannot be combined.
    """
    known = _fault_classes.get(kind)
    if known is None:
        try:
            known = type(
                f"Kernel{kind.__name__}",
                (KernelFault, kind),
                {"__module__": KernelFault.__module__},
            )
        except TypeError:  # two built-in exception layouts that cannot be mixed
            known = KernelFault
        _fault_classes[kind] = known
    return known


def _rebuild_fault(
    rebuild: Callable[..., KernelFault],
    kind: type[BaseException] | None,
    args: tuple[Any, ...],
    fields: dict[str, Any],
) -> KernelFault:
    return rebuild(KernelFault if kind is None else fault_class(kind), args, fields)


class ArgumentError(KernelError):
    """Something is wrong with an argument of a launch."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is of a type, dtype or rank that the kernel cannot take."""


class ArgumentValueError(ArgumentError, ValueError):
    """An argument is of the right type, but its value cannot be used."""


class ArgumentOverflowError(ArgumentValueError, OverflowError):
    """A number is larger, or smaller, than its type can hold."""


class ReadOnlyArrayError(ArgumentValueError):
    """A read-only array is written by the kernel."""


class DeviceMismatchError(ArgumentValueError):
    """Arguments, or the active ``kd.use``, name different devices."""


class LaunchConfigError(KernelError, ValueError):
    """Grid, block or dynamic shared memory are impossible on this device."""


class ResourceLimitError(LaunchConfigError):
    """The compiled kernel needs more of a resource than the device has."""


class UnknownTargetError(KernelError, ValueError):
    """No target of that name is known."""


class CacheError(KernelError, RuntimeError):
    """The cache cannot be used as it is set up: an unsafe folder, a secret that cannot be read."""


class NotShippedError(KernelError, LookupError):
    """A package ships no code of a kernel, and was loaded with ``strict=True``."""


class CacheWarning(KernelWarning):
    """Nothing is cached between processes, or not everything that could be."""


class TargetUnavailableError(KernelError, RuntimeError):
    """The target is known but cannot be used on this machine."""


class ShadowedPackageError(KernelError, ImportError):
    """A module of the program hides ``stdlib_kernels``, or a package in ``targets``."""


class AttributeUnavailableError(KernelError, AttributeError):
    """An attribute of a device is unavailable; the message has the reason."""


class ClosedResourceError(KernelError, ValueError):
    """An array, stream, event, graph or pool was used after it had been closed."""

    @classmethod
    def after_close(cls, resource: str, value: Any, *, given_back: str, instead: str) -> Self:
        """Return the error for a resource that was used after its ``close()``.

        Parameters
        ----------
        resource : str
            What it was, and on which device.
        value : object
            The resource itself.
        given_back : str
            What ``close()`` frees.
        instead : str
            The remedy, besides closing it later; begins with a verb.
        """
        return cls(
            f"{resource} was used after it had been closed",
            value=value,
            limit=f"close() gives {given_back} back to the device",
            remedy=f"{instead}, or close it later",
        )


class GraphError(KernelError, RuntimeError):
    """A graph cannot be captured, launched or updated in this way."""


class FallbackWarning(KernelWarning):
    """A launch for a GPU runs on the CPU instead."""


# -- arguments that are refused: their name, the value, the limit and the remedy -------------------
#
# They are no errors that programs name, so `__all__` leaves them out.


def wrong_type(name: str, value: Any, limit: str, remedy: str | None = None) -> ArgumentTypeError:
    """Return the error of an argument's type, whatever the value is."""
    what = f"{name} is {safe_repr(value)}"
    return ArgumentTypeError(what, value=value, limit=limit, remedy=remedy)


def wrong_value(
    name: str,
    value: Any,
    limit: str,
    remedy: str | None = None,
    kind: Any = ArgumentValueError,
) -> Any:
    """Return the error of an argument's value, whatever that is."""
    return kind(f"{name} is {safe_repr(value)}", value=value, limit=limit, remedy=remedy)
