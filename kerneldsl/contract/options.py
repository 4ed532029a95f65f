"""Compile options of a kernel's decorator."""

from __future__ import annotations

from enum import StrEnum

from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["DEFAULT_OPTIONS", "CompileOptions", "EntryForm"]


class EntryForm(StrEnum):
    """Convention by which the entry of a kernel is called."""

    KERNEL = "kernel"
    """The entry is launched."""
    FUNCTION = "function"
    """GPU code calls the entry as a function of C. Its result is stored into an array that is the
    first parameter, if there is one; other parameters are no arrays."""
    STATUS = "status"
    """GPU code calls the entry. It takes the address of its result first, and returns an int32,
    which is 0."""


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Options that ``@kd.kernel(...)`` passes to the compiler.

    Parameters
    ----------
    fastmath : bool
        Allow every floating-point transformation LLVM knows, and approximate functions.
    contract : bool
        Allow a multiply and an add to become one fused operation, as nvcc does by default.
    debug : bool
        Check indices, and let ``assert`` and ``raise`` act.
    checks_division : bool
        In debug mode, end a thread at a division by zero, as numba.cuda does.
    lineinfo : bool
        Put source lines into the compiled code, for profilers.
    optimize : bool
        Optimize the code of a GPU. Without it, variables are in memory.
    variables : bool
        Describe variables in the code of a GPU that is not optimized, for debuggers.
    wraparound : bool
        Negative indices count from the end, as in Python; False promises there are none.
    max_registers : int or None
        Registers a thread may use.
    launch_bounds : tuple of int or None
        Largest number of threads of a block. Then, optionally, the smallest number of blocks that
        should fit on a multiprocessor, and the largest number of blocks of a cluster.
    early_start : bool
        A launch may begin while the kernel before it in its stream ends. It waits for its end
        before it reads or writes.
    entry : EntryForm
        How the entry is called; by a launch unless a function is exported.
    disabled_passes : tuple of str
        Names of optimizing passes that do not run, in alphabetical order. No option of the
        decorator sets it, but ``KERNELDSL_DISABLE_PASSES``.
    """

    fastmath: bool = False
    contract: bool = True
    debug: bool = False
    checks_division: bool = False
    lineinfo: bool = False
    optimize: bool = True
    variables: bool = False
    wraparound: bool = True
    max_registers: int | None = None
    launch_bounds: tuple[int, ...] | None = None
    early_start: bool = False
    entry: EntryForm = EntryForm.KERNEL
    disabled_passes: tuple[str, ...] = ()

    @property
    def has_lines(self) -> bool:
        """True if the compiled code has source lines."""
        return self.lineinfo or self.debug or self.variables


#: Options of a decorator without arguments.
DEFAULT_OPTIONS = CompileOptions()
