"""Object code, compiled here or by another process, linked without Numba.

If LLVM is in the process, its ORC links it; else :mod:`targets.cpu.runtime.linking` does, if it
can. ORC reports what is missing or malformed, and unloads what nothing needs any more. The older
MCJIT, which Numba uses, ends the process for the one, and keeps the other.

References
----------
LLVM, "ORC Design and Implementation"; llvmlite, "JIT library builder".
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kerneldsl.contract import UnusableCodeError
from kerneldsl.utilities.address_space import require_addresses
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.locks import ForkSafeLock
from kerneldsl.utilities.modules import imported
from targets.cpu.runtime.linking import IS_SUPPORTED as LINKS_WITHOUT_LLVM
from targets.cpu.runtime.linking import BadObjectError, CannotLinkError, check_object, link

__all__ = [
    "IS_SUPPORTED",
    "LoadedObject",
    "host_identity",
    "is_of_system",
    "load_object",
    "make_linker",
]

#: Where this has been tried: the names of symbols differ on other systems.
IS_SUPPORTED = sys.platform == "linux"

#: Objects that one linker takes. It keeps some kilobytes of each one that is unloaded, until all of
#: them are; and a linker takes milliseconds and a hundred kilobytes.
_OBJECTS_A_LINKER = 32
#: Libraries of C, and symbols that linkers define.
_C_LIBRARIES, _OF_LINKER = ("libc.so.6", "libm.so.6"), frozenset({"_GLOBAL_OFFSET_TABLE_"})
_NO_SYMBOLS: Mapping[str, int] = MappingProxyType({})

_lock = ForkSafeLock()


class LoadedObject:
    """Linked object code; it is unloaded with this.

    Holders of the address of its code keep this, too, until the code has returned.
    """

    def __init__(self, address: int, place: tuple[int, int], *owners: Any) -> None:
        # llvmlite unloads the code with its tracker, but not while the interpreter ends: daemon
        # threads may be running it.
        self._owners = owners
        self.address = address
        before, nbytes = place
        #: Addresses of the first byte of its machine code, and of the first one after it.
        self.code_range = (address - before, address - before + nbytes)


class _Linkers:
    """Gives the linker of the next object."""

    def __init__(self) -> None:
        self._jit: Any = None
        self._count = 0

    def make(self, llvm: Any) -> None:
        """Make a linker, unless there is one with room."""
        if self._jit is None or self._count == _OBJECTS_A_LINKER:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            self._jit, self._count = llvm.create_lljit_compiler(), 0

    def next(self, llvm: Any) -> tuple[Any, int]:
        """Return a linker, and the number of an object in it."""
        self.make(llvm)
        self._count += 1
        return self._jit, self._count


_linkers = _Linkers()


def make_linker() -> None:
    """Make the linker of the next object, before there is one."""
    import llvmlite.binding as llvm

    import kerneldsl.lowering.numba_internals.llvm_lock  # noqa: F401 -- fork waits for LLVM

    with _lock:
        _linkers.make(llvm)


def load_object(
    code: bytes, entry_name: str, symbols: Mapping[str, int] = _NO_SYMBOLS
) -> LoadedObject:
    """Link an object file against the functions of this process, and `symbols` with addresses.

    Raises `UnusableCodeError` if it is not an object file for this machine, or calls what this
    process does not have.
    """
    try:
        place = check_object(code, entry_name)
    except BadObjectError as error:
        raise UnusableCodeError(f"it is not an object file for this process: {error}") from error
    if LINKS_WITHOUT_LLVM and imported("llvmlite") is None:
        try:
            address, memory = link(code, entry_name, symbols)
            return LoadedObject(address, place, memory)
        except CannotLinkError as error:
            logger.debug("LLVM links %s: %s", entry_name, error)
    import llvmlite.binding as llvm

    import kerneldsl.lowering.numba_internals.llvm_lock  # noqa: F401 -- fork waits for LLVM

    with _lock:
        jit, number = _linkers.next(llvm)
        builder = llvm.JITLibraryBuilder()
        builder.add_object_img(code).add_current_process().export_symbol(entry_name)
        for name, address in symbols.items():
            builder.import_symbol(name, address)
        try:
            tracker = builder.link(jit, f"kerneldsl {number}")
        except RuntimeError as error:
            raise UnusableCodeError(f"LLVM cannot link it: {error}") from error
        return LoadedObject(int(tracker[entry_name]), place, jit, tracker)


@functools.cache
def is_of_system(name: str) -> bool:
    """Return whether a symbol is one of the C library, which every process has."""
    if name in _OF_LINKER:
        return True
    for library in _C_LIBRARIES:
        try:
            if hasattr(ctypes.CDLL(library), name):
                return True
        except OSError:
            continue
    return False


def host_identity() -> dict[str, str]:
    """Return the processor as LLVM sees it: code for another one may hold what it does not know."""
    require_addresses("loading LLVM", compiles=False)
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return {
        "processor": llvm.get_host_cpu_name(),
        "processor features": ",".join(sorted(name for name, has in features.items() if has)),
        "triple": llvm.get_process_triple(),
    }
