"""Signals of a process that runs kernels: faults name the kernel, handlers run beside a launch.

An access beyond an array ends the process. Python's handlers of signals run in the main thread,
which waits for the kernel. So native handlers are called before the existing ones:

* that of ``SIGSEGV`` and ``SIGBUS`` writes the name of the thread's kernel, restores the previous
  handler and returns. Then the access is repeated, and the previous handler acts (faulthandler's
  traceback, exit status, core dump);
* *relay* precedes Python's C handler for each signal that the program handles, and records that a
  signal has come.

While the main thread waits for a launch, a thread of kerneldsl, the *watcher*, interrupts it every
ten milliseconds by ``SIGURG``; its handler is *poke*. *watch* is called there, between the pieces
of a launch, and while the main thread waits for other threads. It puts *relay* before handlers that
the program has set since, and runs Python's handlers if a signal has come. If a handler raises, or
cancels the asyncio task of the launch, the launch stops. The exception is stored until then.
Entries check its mark between pieces, and the watcher pokes the threads that run launches. A thread
in the kernel's machine code leaves it by C's ``longjmp``. This also works in infinite loops, and
loops need no test.

The entry describes the launch of its thread in a *frame*. A *record* of the thread, found by a key
of POSIX threads, points to the frame. The native handlers use only functions that are safe in
handlers and memory allocated before, and no lock. Python's handlers run inside of one; at that time
its thread runs only arithmetic.

References
----------
POSIX.1-2017, "2.4.3 Signal Actions", pthread_setspecific, sigaction, longjmp.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from typing import Any

from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.locks import ForkSafeLock
from targets.cpu.runtime.native_tables import (
    ACTION_BYTES,
    ACTION_FLAGS,
    INSTALL_HANDLERS,
    IS_SUPPORTED,
    NO_DEFER,
    ON_STACK,
    RESTART,
    WITH_INFORMATION,
    SignalWord,
    address_of,
    table,
)
from targets.cpu.runtime.objects import ProcessCode

__all__ = [
    "HANDLERS_CODE",
    "IS_SUPPORTED",
    "current_launch",
    "enter_address",
    "is_main_thread",
    "main_thread",
    "prepare_signals",
    "set_current_launch",
    "take_raised",
    "watch_address",
]

#: Time that a fork waits for OpenMP: kerneldsl's parallel regions take less.
_LOOK_S, _MOST_LOOKS = 0.0001, 1000
_lock = ForkSafeLock()
_is_tried = False
_library: Any = None
#: Signals of faults, and the words of the table for their previous handlers.
_FAULTS = (
    {
        signal.SIGSEGV: SignalWord.OLD_SEGMENT_FAULT,
        signal.SIGBUS: SignalWord.OLD_BUS_ERROR,
    }
    if IS_SUPPORTED
    else {}
)
_old: dict[int, Any] = {}
#: Machine code of the handlers.
HANDLERS_CODE = ProcessCode(INSTALL_HANDLERS, "signal_handlers", "compile_handlers")


def current_launch() -> int:
    """Address of an int64 that holds the launch that the main thread shares with others."""
    return address_of(SignalWord.CURRENT)


def set_current_launch(address: int) -> int:
    """Say which launch the main thread shares, 0 for none; return what was said before."""
    before, table[SignalWord.CURRENT] = table[SignalWord.CURRENT], address
    return before


def main_thread() -> int:
    """Address of an int64 with the main thread's :func:`threading.get_ident`."""
    return address_of(SignalWord.MAIN_THREAD)


def watch_address() -> int:
    """Address of what a launch that takes long calls, ``void(ptr launch)``; 0 for nothing."""
    return table[SignalWord.WATCH]


def enter_address() -> int:
    """Address of what an entry calls with its frame, ``void(ptr frame)``; 0 for nothing."""
    return table[SignalWord.ENTER]


def take_raised() -> BaseException | None:
    """Return the exception of a handler that has stopped a launch, once; the launch is over."""
    table[SignalWord.IS_STOPPING] = 0
    address, table[SignalWord.RAISED] = table[SignalWord.RAISED], 0
    if not address:
        return None
    raised: BaseException = ctypes.cast(address, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(raised))
    return raised


def is_main_thread() -> bool:
    """Return whether this is the thread in which Python handles signals."""
    return threading.get_ident() == threading.main_thread().ident


def prepare_signals() -> None:
    """Put the handlers in place, before the first launch."""
    if (_is_tried and table[SignalWord.PYTHON_HANDLER]) or not IS_SUPPORTED:
        return
    with _lock:
        if not _is_tried:
            _install()
        if not table[SignalWord.PYTHON_HANDLER]:
            table[SignalWord.PYTHON_HANDLER] = _python_handler()


def _python_handler() -> int:
    """Return the address of Python's C handler, which is the same for every signal; 0 if unknown.

    A program that a shell has put into the background ignores interrupts, and may have no handler.
    """
    number = next((n for n in signal.valid_signals() if callable(signal.getsignal(n))), None)
    get = ctypes.pythonapi.PyOS_getsig
    get.restype = ctypes.c_void_p
    if number is not None:
        return get(int(number)) or 0
    if not is_main_thread():
        return 0
    before = signal.signal(signal.SIGWINCH, lambda number, frame: None)
    try:
        return get(int(signal.SIGWINCH)) or 0
    finally:
        signal.signal(signal.SIGWINCH, before)


def _after_handlers() -> None:
    """Raise what asyncio's handler of interrupts cannot: it cancels the task that runs now.

    Otherwise the task would notice this only at its next ``await``.
    """
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop is running
        return
    if getattr(task, "_must_cancel", False):
        raise asyncio.CancelledError


def _install() -> None:
    global _is_tried, _library  # noqa: PLW0603 -- one for the process
    _is_tried = True
    _library = ctypes.CDLL(None)
    loaded = HANDLERS_CODE.load()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.address)(ctypes.addressof(table))
    key = ctypes.c_uint32()
    if _library.pthread_key_create(ctypes.byref(key), ctypes.c_void_p(table[SignalWord.FORGET])):
        logger.debug("there is no key of POSIX threads: launches are not interrupted")
        table[SignalWord.ENTER] = table[SignalWord.WATCH] = 0
        return
    for number, word in _FAULTS.items():
        _old[number] = ctypes.create_string_buffer(ACTION_BYTES)
        table[word] = ctypes.addressof(_old[number])
    table[SignalWord.KEY] = key.value
    table[SignalWord.MAIN_THREAD] = threading.main_thread().ident or 0
    table[SignalWord.MAIN_THREAD_ID] = threading.main_thread().native_id or 0
    table[SignalWord.AFTER_HANDLERS] = id(_after_handlers)
    # These objects are never freed: kernels may run until the process ends.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object((loaded, _old, table, _after_handlers)))
    for number in _FAULTS:
        _put(number, SignalWord.FAULT, WITH_INFORMATION | ON_STACK, _old[number])
    if ctypes.pythonapi.PyOS_getsig(int(signal.SIGURG)):  # ignored, or a handler of the program's
        logger.debug("SIGURG has a handler: launches are interrupted between pieces alone")
    else:
        _put(signal.SIGURG, SignalWord.POKE, WITH_INFORMATION | RESTART | NO_DEFER)


def _put(number: int, word: SignalWord, flags: int, old: Any = None) -> None:
    """Put a native handler in place, and hold what was there."""
    sigaction = _library.sigaction
    before = ctypes.create_string_buffer(ACTION_BYTES)
    if sigaction(number, None, before):
        return
    if old is not None:
        ctypes.memmove(old, before, ACTION_BYTES)
    words = bytearray(before.raw)
    words[:8] = table[word].to_bytes(8, sys.byteorder)
    words[ACTION_FLAGS : ACTION_FLAGS + 4] = flags.to_bytes(4, sys.byteorder)
    action = ctypes.create_string_buffer(bytes(words), ACTION_BYTES)
    sigaction(number, action, None)


#: Words about threads, which a forked child does not have.
_OF_THREADS = (
    *(SignalWord.CURRENT, SignalWord.RECORDS, SignalWord.MAIN_RECORD),
    *(SignalWord.WATCHER, SignalWord.IS_STOPPING, SignalWord.COMPANION),
)


def _before_fork() -> None:
    """Wait until no thread of kerneldsl holds a lock of OpenMP, for some microseconds."""
    table[SignalWord.IS_FORKING] = 1
    for _ in range(_MOST_LOOKS):
        if not table[SignalWord.IN_OPENMP]:
            break
        time.sleep(_LOOK_S)


def _after_fork_in_parent() -> None:
    table[SignalWord.IS_FORKING] = 0


def _after_fork_in_child() -> None:
    """Begin again in a forked child: the only thread is this one, now the main thread."""
    for word in (*_OF_THREADS, SignalWord.IN_OPENMP, SignalWord.IS_FORKING):
        table[word] = 0
    table[SignalWord.MAIN_THREAD] = threading.get_ident()
    table[SignalWord.MAIN_THREAD_ID] = threading.get_native_id()
    if table[SignalWord.ENTER]:
        _library.pthread_setspecific(ctypes.c_uint32(table[SignalWord.KEY]), None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
