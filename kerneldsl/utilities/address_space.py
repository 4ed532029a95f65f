"""Addresses that compiling takes, held against the limit of the process (``RLIMIT_AS``).

LLVM ends a process in which it cannot allocate, and OpenBLAS, which Numba loads by SciPy, tries
again permanently: neither returns an error. So code that will load or run them checks here
first. If there is no limit that is one call of ``getrlimit``.

References
----------
getrlimit(2), ``RLIMIT_AS``; proc(5), ``/proc/pid/statm``. OpenBLAS, ``driver/others/memory.c``,
``alloc_mmap`` and ``blas_memory_alloc``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.util import find_spec

from kerneldsl.errors import CompileError, SourceLocation
from kerneldsl.utilities.formatting import format_bytes

__all__ = ["RAISE_LIMIT", "Addresses", "out_of_addresses", "require_addresses"]

#: What to do about the limit.
RAISE_LIMIT = "Run `ulimit -v unlimited` first"
_ONE_THREAD = ", or set OPENBLAS_NUM_THREADS=1"
_MIB = 2**20
#: Growth of VmSize by the import of each module, in the order of a first compilation. Measured on
#: x86-64 Linux with llvmlite 0.50, numba 0.68 and scipy 1.17, SciPy with one thread of OpenBLAS.
#: The modules of kerneldsl represent LLVM's linker and Numba's registries.
_IMPORTS = {
    "llvmlite.binding": 158 * _MIB,
    "kerneldsl.lowering.numba_internals.llvm_lock": 16 * _MIB,
    "numba": 24 * _MIB,
    "scipy.linalg": 81 * _MIB,
    "kerneldsl.lowering.numba_internals.host_code": 24 * _MIB,
}
#: How many of these linking takes.
_IMPORTS_TO_LINK = 2
#: What compiling takes when they are there: a small kernel 2 MiB, the largest of the library 7; and
#: linking one. In all, a first launch has been seen to succeed with 339 MiB on two processors, and
#: one from the cache with 175.
_COMPILING_BYTES, _LINKING_BYTES = 8 * _MIB, 2 * _MIB
#: OpenBLAS maps a buffer for each of its threads (``BUFFER_SIZE`` on x86-64), 64 of them at most in
#: SciPy's wheel.
_BLAS_BUFFER_BYTES = 32 * _MIB
_MOST_BLAS_THREADS = 64
_BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
#: What glibc gives a thread where stacks have no limit.
_UNLIMITED_STACK_BYTES = 2 * _MIB


class Addresses:
    """The limit on addresses of this process, and what of it is in use."""

    def __init__(self, limit_bytes: int, used_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = used_bytes

    @classmethod
    def limited(cls) -> Addresses | None:
        """Return the address space; ``None`` if there is no limit, or the system reports none."""
        try:
            import resource
        except ImportError:  # Windows has no such limit
            return None
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit in (-1, resource.RLIM_INFINITY):
            return None
        try:
            with open("/proc/self/statm", "rb") as file:
                pages = int(file.read().split()[0])
        except OSError:  # another system than Linux, or one that hides it
            return None
        return cls(limit, pages * resource.getpagesize())

    @property
    def left_bytes(self) -> int:
        """Bytes that may still be mapped."""
        return max(0, self.limit_bytes - self.used_bytes)

    def missing(self, *, compiles: bool = True) -> tuple[int, str] | None:
        """Return how much is needed if that is not left, and what to do.

        Parameters
        ----------
        compiles : bool
            Whether kernels are compiled; otherwise compiled code is linked, which takes LLVM alone.
        """
        needed, blas = _COMPILING_BYTES if compiles else _LINKING_BYTES, 0
        for module, nbytes in tuple(_IMPORTS.items())[: None if compiles else _IMPORTS_TO_LINK]:
            if module in sys.modules:
                continue
            if module == "scipy.linalg":
                if not _has_own_openblas():
                    continue
                blas = (_blas_threads() - 1) * (_BLAS_BUFFER_BYTES + _stack_bytes())
            needed += nbytes
        if needed + blas <= self.left_bytes:
            return None
        fits_with_one_thread = blas and needed <= self.left_bytes
        return needed + blas, f"{RAISE_LIMIT}{_ONE_THREAD if fits_with_one_thread else ''}"


def require_addresses(
    work: str, *, compiles: bool = True, where: Callable[[], SourceLocation] | None = None
) -> None:
    """Refuse to begin what a limit on addresses leaves no room for.

    Parameters
    ----------
    work : str
        The work to do, as the subject of a sentence.
    compiles : bool
        Whether kernels are compiled; otherwise compiled code is linked, which takes LLVM alone.
    where : callable, optional
        Returns the kernel's place.

    Raises
    ------
    CompileError
        If fewer addresses are left than it takes.
    """
    addresses = Addresses.limited()
    missing = addresses.missing(compiles=compiles) if addresses is not None else None
    if addresses is None or missing is None:
        return
    needed, remedy = missing
    place = None if where is None else where()
    raise _refusal(f"{work} needs {format_bytes(needed)}", place, addresses, remedy)


def out_of_addresses(work: str, where: SourceLocation) -> CompileError | None:
    """Return the error for what found no memory after all; ``None`` if there is no limit."""
    addresses = Addresses.limited()
    if addresses is None:
        return None
    return _refusal(f"{work} found no more memory", where, addresses, RAISE_LIMIT)


def _refusal(
    what: str, where: SourceLocation | None, addresses: Addresses, remedy: str
) -> CompileError:
    left, limit = addresses.left_bytes, addresses.limit_bytes
    return CompileError(
        f"{what}, and {format_bytes(left)} of addresses are left",
        where=where,
        value=left,
        limit=f"The limit is {format_bytes(limit)} (RLIMIT_AS, ulimit -v), of which "
        f"{format_bytes(addresses.used_bytes)} are in use",
        remedy=remedy,
    )


def _has_own_openblas() -> bool:
    """Return whether SciPy's wheel brings an OpenBLAS beside NumPy's, as wheels do."""
    package = find_spec("scipy")
    folders = (package.submodule_search_locations if package is not None else None) or ()
    for folder in folders:
        try:
            names = os.listdir(f"{folder}.libs")
        except OSError:
            continue
        if any("openblas" in name for name in names):
            return True
    return False


def _blas_threads() -> int:
    """Return how many threads OpenBLAS will have, as it counts them itself."""
    runnable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    most = min(runnable, _MOST_BLAS_THREADS)
    for name in _BLAS_VARIABLES:
        text = os.environ.get(name, "").strip()
        if text.isdecimal() and int(text) > 0:
            return min(int(text), most)
    return most


def _stack_bytes() -> int:
    try:
        import resource
    except ImportError:
        return _UNLIMITED_STACK_BYTES
    limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
    return _UNLIMITED_STACK_BYTES if limit in (-1, resource.RLIM_INFINITY) else limit
