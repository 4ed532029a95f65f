"""Machine code that a process needs once, beside its kernels.

Compiling it takes longer than all else in the first launch of a small kernel. So it is in the cache
beside each kernel's, and holds no address of the process. Compiled kernels call the function that
runs their pieces by its name, so that none of them has its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from kerneldsl.contract import UnusableCodeError
from kerneldsl.utilities.address_space import require_addresses
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.locks import ForkSafeLock, OnceTable
from targets.cpu.runtime.native_tables import (
    INSTALL_POOL,
    RUNNER,
    PoolPlace,
    SignalWord,
    state_bytes,
    table,
)

__all__ = [
    "POOL_CODE",
    "RUNNER_CODE",
    "VERSION",
    "ProcessCode",
    "forget_threads",
    "pool_address",
    "runner_symbols",
]

#: Version of the handlers of signals, the pool of threads and the function that runs pieces. Those
#: that a package ships are used in their version alone; others are compiled.
VERSION = 2


class ProcessCode:
    """An object file, compiled where no earlier process has offered it.

    - `function`: function that it defines, which takes one address.
    - `compile_code`: returns it.
    """

    def __init__(self, function: str, compile_code: Callable[[], bytes]) -> None:
        self._function = function
        self._compile = compile_code
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
                self._code = self._compile()
            return self._code

    def load(self) -> Any:
        """Link it, and compile it again if it cannot be used; the caller keeps what it is."""
        from targets.cpu.runtime.objects import load_object

        require_addresses(f"linking {self._function} of the CPU target", compiles=False)
        try:
            return load_object(self.code(), self._function)
        except UnusableCodeError as error:
            logger.debug("%s is compiled anew: %s", self._function, error)
            self._code = None
            return load_object(self.code(), self._function)


# -- the function that runs the pieces of every kernel in this process ----------------------------


def _compile_runner() -> bytes:
    from targets.cpu.runtime.runner_code import compile_runner

    return compile_runner()


#: Its machine code.
RUNNER_CODE = ProcessCode(RUNNER, _compile_runner)
#: What keeps the code of the process.
_runner: OnceTable[str, Any] = OnceTable()


def runner_symbols() -> dict[str, int]:
    """Return the address of the function by its name, for a linker."""
    return {RUNNER: _runner.get_or_make(RUNNER, RUNNER_CODE.load).address}


# -- the target's own pool of threads, which shares the steps of a launch -------------------------


_ALIGNMENT = 128


def _compile_pool() -> bytes:
    from targets.cpu.runtime.pool_code import compile_pool

    return compile_pool()


#: Machine code of the pool.
POOL_CODE = ProcessCode(INSTALL_POOL, _compile_pool)
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
