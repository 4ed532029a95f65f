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
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

from kerneldsl.contract import UnusableCodeError
from kerneldsl.utilities.address_space import require_addresses
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.locks import ForkSafeLock, OnceTable
from kerneldsl.utilities.modules import imported
from targets.cpu.runtime.linking import IS_SUPPORTED as LINKS_WITHOUT_LLVM
from targets.cpu.runtime.linking import (
    BadObjectError,
    CannotLinkError,
    check_object,
    function_of,
    link,
)
from targets.cpu.runtime.native_tables import (
    INSTALL_POOL,
    RUNNER,
    PoolPlace,
    SignalWord,
    state_bytes,
    table,
)

__all__ = [
    "IS_SUPPORTED",
    "POOL_CODE",
    "RUNNER_CODE",
    "VERSION",
    "LoadedObject",
    "ProcessCode",
    "forget_threads",
    "host_identity",
    "is_of_system",
    "load_object",
    "make_linker",
    "pool_address",
    "runner_symbols",
]

#: Whether this was tested here: the names of symbols differ on other systems.
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
    return name in _OF_LINKER or bool(function_of(name, *_C_LIBRARIES))


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


# -- machine code that a process needs once, beside its kernels ------------------------------------

# Compiling it takes longer than all else in the first launch of a small kernel. So it is in the
# cache beside each kernel's, and holds no address of the process. Compiled kernels call the
# function that runs their pieces by its name, so that none of them has its own.


#: Version of the handlers of signals, the pool of threads and the function that runs pieces. Those
#: that a package ships are used in their version alone; others are compiled.
VERSION = 2


class ProcessCode:
    """An object file, compiled where no earlier process has offered it.

    - `function`: function that it defines, which takes one address.
    - `module`, `compile_code`: the module beside this one that is imported to compile it, and its
      function that does.
    """

    def __init__(self, function: str, module: str, compile_code: str) -> None:
        self._function = function
        self._module, self._compile = f"targets.cpu.runtime.{module}", compile_code
        self._code: bytes | None = None
        self._lock = ForkSafeLock()

    def offer(self, code: bytes | None) -> None:
        """Take what an earlier process has compiled."""
        if self._code is None and code:
            self._code = code

    def code(self) -> bytes:
        """Return the object file."""
        with self._lock:
            if self._code is None:
                self._code = getattr(import_module(self._module), self._compile)()
            return self._code

    def load(self) -> Any:
        """Link it, and compile it again if it cannot be used; the caller keeps what it is."""
        require_addresses(f"linking {self._function} of the CPU target", compiles=False)
        try:
            return load_object(self.code(), self._function)
        except UnusableCodeError as error:
            logger.debug("%s is compiled anew: %s", self._function, error)
            self._code = None
            return load_object(self.code(), self._function)


# -- the function that runs the pieces of every kernel in this process ----------------------------


#: Machine code of the runner.
RUNNER_CODE = ProcessCode(RUNNER, "runner_code", "compile_runner")
#: Owner of the process's code.
_runner: OnceTable[str, Any] = OnceTable()


def runner_symbols() -> dict[str, int]:
    """Return the address of the function by its name, for a linker."""
    return {RUNNER: _runner.get_or_make(RUNNER, RUNNER_CODE.load).address}


# -- the target's own pool of threads, which shares the steps of a launch -------------------------


_ALIGNMENT = 128
#: Machine code of the pool.
POOL_CODE = ProcessCode(INSTALL_POOL, "pool_code", "compile_pool")
#: The pool of the process, to its very end: threads look at it until then.
_pool: OnceTable[str, _Pool] = OnceTable()


class _Pool(NamedTuple):
    """Addresses of ``parallel_for`` and of the pool's memory."""

    address: int
    state: int
    nbytes: int


def pool_address(threads: int) -> int:
    """Return the address of ``parallel_for``, for at most so many threads.

    They are started by the first launch that is shared.
    """
    return _pool.get_or_make(INSTALL_POOL, partial(_make_pool, threads)).address


def _make_pool(threads: int) -> _Pool:
    nbytes = state_bytes(threads)
    memory = ctypes.create_string_buffer(nbytes + _ALIGNMENT)
    start = -ctypes.addressof(memory) % _ALIGNMENT
    state = ctypes.addressof(memory) + start
    loaded = POOL_CODE.load()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.address)(state)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object((loaded, memory)))
    table[SignalWord.BELL] = state + PoolPlace.BELL
    address = ctypes.c_int64.from_address(state + PoolPlace.PARALLEL_FOR).value
    return _Pool(address, state, nbytes)


def forget_threads() -> None:
    """Begin again in a forked child, if there are none of the threads."""
    for pool in _pool.values():
        ctypes.memset(pool.state, 0, pool.nbytes)
