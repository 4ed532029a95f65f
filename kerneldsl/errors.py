"""Every error that kerneldsl raises on purpose.

One root, :class:`KernelError`. An error holds fields, not only a string: *what* is wrong, *where*
(a place in the user's kernel), the *value* found, the *limit* it broke and where that limit comes
from, and the *remedy*. The message is composed of those fields, in that order, so every error
reads alike. Mistakes in arguments are also ``TypeError`` or ``ValueError``, as Python users expect.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import Any

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "ArgumentValueError",
    "AttributeUnavailableError",
    "BarrierDivergenceError",
    "BarrierDivergenceWarning",
    "ClosedResourceError",
    "CompileError",
    "DeviceError",
    "DeviceLostError",
    "DeviceMemoryError",
    "DeviceMismatchError",
    "DriverCompileError",
    "DriverError",
    "DriverInitializationError",
    "DriverSystemError",
    "FallbackWarning",
    "GraphError",
    "KernelError",
    "KernelFault",
    "KernelImageError",
    "KernelTypingError",
    "KernelWarning",
    "LaunchConfigError",
    "LaunchError",
    "LibdeviceMissingError",
    "OutOfMemoryError",
    "OutsideKernelError",
    "ReadOnlyArrayError",
    "ResourceLimitError",
    "ShadowedPackageError",
    "SourceLocation",
    "SourceUnavailableError",
    "StreamError",
    "TargetUnavailableError",
    "ToolMissingError",
    "UnknownTargetError",
    "UnsupportedConstructError",
]


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A place in a kernel's source.

    Parameters
    ----------
    filename : str
        The file, or the name that the interpreter gave to a cell or to exec'd text.
    lineno : int
        Line, counted from 1.
    col_offset, end_col_offset : int or None
        Columns in characters, counted from 0; ``None`` where only the line is known.
    function : str
        Qualified name of the kernel or device function the line stands in.
    """

    filename: str
    lineno: int
    col_offset: int | None = None
    end_col_offset: int | None = None
    function: str = ""

    @property
    def line(self) -> str:
        """The text of the line, without its end; empty where the source is gone."""
        return linecache.getline(self.filename, self.lineno).rstrip("\n")

    def __str__(self) -> str:
        return f"{self.filename}:{self.lineno}"

    def render(self) -> str:
        """``file:line``, the line itself, and a caret under the columns."""
        text = self.line
        head = f"{self}" + (f", in {self.function}" if self.function else "")
        if not text.strip():
            return head
        indent = len(text) - len(text.lstrip())
        shown = text.strip()
        lines = [head, "    " + shown]
        if self.col_offset is not None:
            start = max(0, self.col_offset - indent)
            end = self.end_col_offset - indent if self.end_col_offset is not None else start + 1
            end = min(max(end, start + 1), max(len(shown), start + 1))
            lines.append("    " + " " * start + "^" * (end - start))
        return "\n".join(lines)


def _compose(
    what: str,
    where: SourceLocation | None,
    limit: str | None,
    remedy: str | None,
    chain: tuple[str, ...],
) -> str:
    sentence = what if what.endswith((".", "!", "?")) else what + "."
    parts = [sentence]
    if limit:
        parts.append(limit if limit.endswith(".") else limit + ".")
    if remedy:
        parts.append(remedy if remedy.endswith(".") else remedy + ".")
    text = " ".join(parts)
    if where is not None:
        text += "\n  at " + where.render().replace("\n", "\n  ")
    for link in chain:
        text += "\n  " + link.replace("\n", "\n  ")
    return text


class KernelError(Exception):
    """Root of everything kerneldsl raises on purpose.

    Parameters
    ----------
    what : str
        What is wrong, with the value found in it.
    where : SourceLocation, optional
        The place in the user's kernel.
    value : object, optional
        The offending value itself, for programs.
    limit : str, optional
        The limit or rule that was broken and where it comes from.
    remedy : str, optional
        What to do about it.
    chain : tuple of str, optional
        Further lines of explanation, such as how a value came to vary between threads.
    """

    def __init__(
        self,
        what: str,
        *,
        where: SourceLocation | None = None,
        value: Any = None,
        limit: str | None = None,
        remedy: str | None = None,
        chain: tuple[str, ...] = (),
    ) -> None:
        self.what = what
        self.where = where
        self.value = value
        self.limit = limit
        self.remedy = remedy
        self.chain = chain
        super().__init__(_compose(what, where, limit, remedy, chain))


class KernelWarning(UserWarning):
    """Root of the warnings of kerneldsl."""


class BarrierDivergenceWarning(KernelWarning):
    """A barrier could not be proved uniform; the target runs it all the same."""


class SourceUnavailableError(KernelError, OSError):
    """The function's source text cannot be found, so it cannot be compiled."""


class UnsupportedConstructError(KernelError, SyntaxError):
    """The kernel uses a Python construct that has no meaning on a device."""

    def __str__(self) -> str:  # SyntaxError would print its own fields
        return str(self.args[0])


class BarrierDivergenceError(KernelError):
    """Threads of one block would not all reach the same barrier."""


class OutsideKernelError(KernelError, RuntimeError):
    """An intrinsic was called from plain Python instead of from a kernel."""


class KernelTypingError(KernelError, TypeError):
    """Numba could not type the kernel for these argument types."""


class CompileError(KernelError, RuntimeError):
    """Lowering, assembling or linking failed for a reason that is not a typing error."""


class LibdeviceMissingError(CompileError):
    """A mathematical function needs libdevice, and no libdevice was found."""


class ToolMissingError(KernelError, RuntimeError):
    """An external program (such as ptxas) that the request needs was not found."""


class ArgumentError(KernelError):
    """Something is wrong with an argument of a launch."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is of a type, dtype or rank that the kernel cannot take."""


class ArgumentValueError(ArgumentError, ValueError):
    """An argument is of the right type, but its value cannot be used."""


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


class TargetUnavailableError(KernelError, RuntimeError):
    """The target is known but cannot be used on this machine."""


class ShadowedPackageError(KernelError, ImportError):
    """Another module named ``targets`` or ``stdlib_kernels`` hides ours."""


class DriverError(KernelError, RuntimeError):
    """The device's driver, or a compiler library of its vendor, answered a call with an error.

    Parameters
    ----------
    code : int
        The driver's code.
    name : str
        The code's name, such as ``CUDA_ERROR_ILLEGAL_ADDRESS``.
    is_fatal : bool
        Whether the device's context is lost with it: nothing in this process can use the device
        any more.
    doing : str
        What was being done, such as ``"allocate 1024 bytes on cuda:0"``.
    """

    #: ``"initialization"``, ``"device"``, ``"memory"``, ``"kernel"``, ``"launch"``, ``"stream"``,
    #: ``"compile"`` or ``"system"``: one for each subclass.
    category: str = "system"

    def __init__(
        self,
        what: str,
        *,
        code: int,
        name: str,
        is_fatal: bool = False,
        doing: str = "",
        **fields: Any,
    ) -> None:
        self.code = code
        self.name = name
        self.is_fatal = is_fatal
        self.doing = doing
        super().__init__(what, **fields)


class DriverInitializationError(DriverError):
    """The driver could not be started, is too old, or was lost in a fork."""

    category = "initialization"


class DeviceError(DriverError):
    """The device is missing, busy, failed or cannot do what was asked."""

    category = "device"


class DeviceLostError(DeviceError):
    """The device failed earlier in this process, and nothing can use it here any more.

    Parameters
    ----------
    suspects : tuple of str
        The launches since the device was last known to be well, newest last: one of them has
        probably done it.
    """

    def __init__(self, what: str, *, suspects: tuple[str, ...] = (), **fields: Any) -> None:
        self.suspects = suspects
        super().__init__(what, is_fatal=True, **fields)


class DeviceMemoryError(DriverError):
    """Memory of a device could not be had, copied, mapped or given back."""

    category = "memory"


class OutOfMemoryError(DeviceMemoryError, MemoryError):
    """There is no room: on the device, or below the limit of a pool."""


class KernelImageError(DriverError):
    """Compiled code could not be loaded on the device, or an entry was not found in it."""

    category = "kernel"


class LaunchError(DriverError):
    """A kernel could not be started, or failed while it ran."""

    category = "launch"


class StreamError(DriverError):
    """A stream, event or graph was used in a way that the driver refuses."""

    category = "stream"


class DriverCompileError(DriverError):
    """One of the vendor's compilers or linkers refused its input."""

    category = "compile"


class DriverSystemError(DriverError):
    """The operating system, or the installation of the driver, stands in the way."""

    category = "system"


class GraphError(KernelError, RuntimeError):
    """A recording cannot be made, replayed or updated in this way."""


class ClosedResourceError(KernelError, ValueError):
    """An array, stream, event, graph or pool was used after it had been closed."""


class AttributeUnavailableError(KernelError, AttributeError):
    """An attribute of a device cannot be had here; the message says why."""


class FallbackWarning(KernelWarning):
    """A launch that was meant for a GPU runs on the CPU."""


class KernelFault(KernelError):
    """An exception raised inside a kernel in debug mode.

    Concrete faults are also of the class that the kernel raised: an index out of range is also an
    ``IndexError``, ``assert`` an ``AssertionError``, and so on; see :func:`fault_class`.

    Parameters
    ----------
    thread_idx, block_idx : tuple of int
        Coordinates of the first thread found to have failed.
    """

    def __init__(
        self,
        what: str,
        *,
        thread_idx: tuple[int, int, int],
        block_idx: tuple[int, int, int],
        **fields: Any,
    ) -> None:
        self.thread_idx = thread_idx
        self.block_idx = block_idx
        super().__init__(what, **fields)


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
        A subclass of both, made once for each *kind*; `KernelFault` itself where the two layouts
        cannot be combined.
    """
    known = _fault_classes.get(kind)
    if known is None:
        try:
            known = type(f"Kernel{kind.__name__}", (KernelFault, kind), {"__module__": __name__})
        except TypeError:  # two built-in exception layouts that cannot be mixed
            known = KernelFault
        _fault_classes[kind] = known
    return known
