"""Errors of kernels: source, barriers, types, compilation, faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kerneldsl.errors.base import KernelError, KernelWarning, compose

__all__ = [
    "BarrierDivergenceError",
    "BarrierDivergenceWarning",
    "CompileError",
    "DeviceCodeError",
    "KernelFault",
    "KernelTypingError",
    "LibdeviceMissingError",
    "OutsideKernelError",
    "SourceUnavailableError",
    "ToolMissingError",
    "UndefinedAttributeError",
    "UndefinedNameError",
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
            # Without an end Python 3.13 underlines the rest of the line, and others one column.
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
