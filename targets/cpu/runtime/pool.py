"""The target's own pool of threads, which shares the steps of a launch.

TBB's gives each launch an arena that threads enter for it, and OpenMP's waits for each of its
threads to come. Here a launch rings a bell. Threads that have run one before look for the next one
for some 50 µs, then sleep. Each begins with steps of its own part, the same from launch to launch,
whose memory is in its caches, and then helps with the others'. The thread that launched works too,
and waits for those only that have joined: where the machine is busy, it runs steps of threads that
do not wake in time.

One launch is shared at a time; any number of Python threads may launch meanwhile, and run their
launches themselves until the pool is free.
"""

from __future__ import annotations

import ctypes

from kerneldsl.utilities.locks import ForkSafeLock
from targets.cpu.runtime.pool_table import INSTALL, Place, state_bytes
from targets.cpu.runtime.process_code import ProcessCode
from targets.cpu.runtime.signal_table import SignalWord, table

__all__ = ["POOL_CODE", "forget_threads", "pool_address"]

_ALIGNMENT = 128


def _compile() -> bytes:
    from targets.cpu.runtime.pool_code import compile_pool

    return compile_pool()


#: Machine code of the pool.
POOL_CODE = ProcessCode(INSTALL, _compile)
_lock = ForkSafeLock()


class _Pool:
    """The one of the process, to its very end: threads look at it until then."""

    address = 0
    state = 0
    nbytes = 0


def pool_address(threads: int) -> int:
    """Return the address of ``parallel_for``, for at most so many threads.

    They are started by the first launch that is shared.
    """
    with _lock:
        if not _Pool.address:
            _make(threads)
        return _Pool.address


def _make(threads: int) -> None:
    nbytes = state_bytes(threads)
    memory = ctypes.create_string_buffer(nbytes + _ALIGNMENT)
    start = -ctypes.addressof(memory) % _ALIGNMENT
    state = ctypes.addressof(memory) + start
    loaded = POOL_CODE.load()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.address)(state)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object((loaded, memory)))
    _Pool.state, _Pool.nbytes = state, nbytes
    table[SignalWord.BELL] = state + Place.BELL
    _Pool.address = ctypes.c_int64.from_address(state + Place.PARALLEL_FOR).value


def forget_threads() -> None:
    """Begin again in a forked child, if there are none of the threads."""
    if _Pool.state:
        ctypes.memset(_Pool.state, 0, _Pool.nbytes)
