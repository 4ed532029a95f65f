"""Signals of a process that runs kernels: faults name the kernel, Ctrl-C stops it.

An access beyond an array ends the process, and Ctrl-C is heard by an interpreter that waits for the
kernel. So native handlers stand before those that were there:

* that of ``SIGSEGV`` and ``SIGBUS`` writes which kernel the thread was running, puts the handler
  back that was there before, and returns: the access is made again, and everything goes on as if
  there had been no other handler (faulthandler's traceback, exit status, core dump);
* that of ``SIGINT`` leaves a mark in the launch that the main thread waits for, which the entries
  look at between blocks, and calls Python's handler.

The entry tells which launch its thread is running, by a key of POSIX threads (:data:`thread_key`).
The handlers use functions that are safe in them, memory made beforehand, and no lock.

References
----------
POSIX.1-2017, "2.4.3 Signal Actions", pthread_setspecific, sigaction.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from typing import Any

from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.locks import ForkSafeLock

__all__ = [
    "IS_SUPPORTED",
    "current_launch",
    "is_main_thread",
    "main_state",
    "prepare_signals",
    "set_current_launch",
    "thread_key",
]

#: Where the layouts of C's structures are known.
IS_SUPPORTED = sys.platform == "linux"
#: Bytes of ``struct sigaction``, and where its flags are; with 64-bit addresses.
_ACTION_BYTES, _FLAGS = 152, 136
_SA_SIGINFO, _SA_ONSTACK = 4, 0x08000000

_lock = ForkSafeLock()
#: Address of the launch that the main thread waits for, or 0.
_current = (ctypes.c_int64 * 1)()
#: The interpreter's state of the main thread, which native code knows itself by; 0 if unknown.
_main_state = (ctypes.c_int64 * 1)()
_key = -1
_engine: Any = None
_library: Any = None
#: Address of our handler of SIGINT; and a ``struct sigaction`` of the main thread's to read into.
_interrupt = (ctypes.c_uint64 * 1)()
_action = (ctypes.c_uint64 * (_ACTION_BYTES // 8))()
_old: dict[int, Any] = {}


def current_launch() -> int:
    """Address of an int64 that holds the launch that the main thread waits for."""
    return ctypes.addressof(_current)


def set_current_launch(address: int) -> None:
    """Say which launch the main thread waits for; 0 for none."""
    _current[0] = address


def main_state() -> int:
    """Address of an int64 with the main thread's ``PyThreadState *``, once it has launched."""
    return ctypes.addressof(_main_state)


def thread_key() -> int:
    """Return the key under which a thread holds the launch that it is running; -1 for none."""
    return _key


def is_main_thread() -> bool:
    """Return whether this is the thread in which Python handles signals."""
    return threading.get_ident() == threading.main_thread().ident


def prepare_signals() -> None:
    """Put the handlers in place: at the first launch, and where a program has set that of SIGINT.

    A program that sets one of its own and takes it back, as asyncio's runner does, puts Python's in
    the place of ours. It is asked at each launch that goes through Python, and does nothing where
    nothing is to do.
    """
    if not IS_SUPPORTED or (_key >= 0 and (not is_main_thread() or _is_prepared())):
        return
    with _lock:
        if _key < 0:
            _install_first()
        if is_main_thread():
            _main_state[0] = ctypes.pythonapi.PyThreadState_Get()
            _install_interrupt()


def _is_prepared() -> bool:
    """Return whether the main thread has nothing left to put in place."""
    if not _main_state[0]:
        return False
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return True  # the program's own stays
    # Its first word is the handler's address.
    return not _library.sigaction(signal.SIGINT, None, _action) and _action[0] == _interrupt[0]


def _install_first() -> None:
    global _key, _engine, _library  # noqa: PLW0603 -- one for the process
    _library = ctypes.CDLL(None)
    ctypes.pythonapi.PyThreadState_Get.restype = ctypes.c_void_p
    key = ctypes.c_uint32()
    if _library.pthread_key_create(ctypes.byref(key), None):
        logger.debug("there is no key of POSIX threads: faults name no kernel")
        return
    from targets.cpu.signal_handlers import compile_handlers

    numbers = (signal.SIGSEGV, signal.SIGBUS)
    _old.update({n: ctypes.create_string_buffer(_ACTION_BYTES) for n in (*numbers, signal.SIGINT)})
    _engine = compile_handlers(
        key.value, ctypes.addressof(_current), {n: ctypes.addressof(o) for n, o in _old.items()}
    )
    _interrupt[0] = _engine.get_function_address("interrupt")
    ctypes.pythonapi.Py_IncRef(ctypes.py_object((_engine, _old, _current)))  # to the very end
    for number in numbers:
        _put(number, "fault", _SA_SIGINFO | _SA_ONSTACK)
    _key = key.value
    _watch_notebook()


def _install_interrupt() -> None:
    """Put our handler of SIGINT before Python's, unless the program has one of its own."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        _put(signal.SIGINT, "interrupt", _SA_ONSTACK)


def _put(number: int, symbol: str, flags: int) -> None:
    """Put a native handler in place, and hold what was there."""
    sigaction = _library.sigaction
    before = ctypes.create_string_buffer(_ACTION_BYTES)
    if sigaction(number, None, before):
        return
    address = _engine.get_function_address(symbol)
    if int.from_bytes(before.raw[:8], sys.byteorder) == address:
        return
    ctypes.memmove(_old[number], before, _ACTION_BYTES)
    words = bytearray(before.raw)
    words[:8] = address.to_bytes(8, sys.byteorder)
    words[_FLAGS : _FLAGS + 4] = flags.to_bytes(4, sys.byteorder)
    action = ctypes.create_string_buffer(bytes(words), _ACTION_BYTES)
    sigaction(number, action, None)


def _watch_notebook() -> None:
    """Hear of each cell of a notebook, before it runs."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None:  # its kernel sets Python's handler of SIGINT for each cell
        shell.events.register("pre_run_cell", lambda *_: prepare_signals())


def _after_fork_in_child() -> None:
    _current[0] = _main_state[0] = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
