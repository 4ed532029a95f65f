"""Signals of a process that runs kernels: faults name the kernel, Ctrl-C stops it.

An access beyond an array ends the process, and Ctrl-C is heard by an interpreter that waits for the
kernel. So native handlers stand before those that were there:

* that of ``SIGSEGV`` and ``SIGBUS`` writes which kernel the thread was running, puts the handler
  back that was there before, and returns: the access is made again, and everything goes on as if
  there had been no other handler (faulthandler's traceback, exit status, core dump);
* that of ``SIGINT`` leaves a mark in the launch that the main thread waits for, which the entries
  look at between blocks, and calls Python's handler.

A program that sets a handler of ``SIGINT`` of its own and takes it back, as asyncio's runner does,
puts Python's in the place of ours. So a launch that takes longer than a millisecond has the main
thread look, once, and put ours before it again; an interrupt that has come before that counts too.

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
from targets.cpu.process_code import ProcessCode
from targets.cpu.signal_table import (
    ACTION_BYTES,
    ACTION_FLAGS,
    INSTALL,
    IS_SUPPORTED,
    ON_STACK,
    WITH_INFORMATION,
    SignalWord,
    address_of,
    table,
)

__all__ = [
    "HANDLERS_CODE",
    "IS_SUPPORTED",
    "current_launch",
    "is_main_thread",
    "main_thread",
    "prepare_signals",
    "set_current_launch",
    "thread_key",
    "watch_address",
]

_lock = ForkSafeLock()
_is_tried = False
_key = -1
_library: Any = None
_old: dict[int, Any] = {}


def _compile() -> bytes:
    from targets.cpu.signal_handlers import compile_handlers

    return compile_handlers()


#: Machine code of the handlers.
HANDLERS_CODE = ProcessCode(INSTALL, _compile)


def current_launch() -> int:
    """Address of an int64 that holds the launch that the main thread waits for."""
    return address_of(SignalWord.CURRENT)


def set_current_launch(address: int) -> None:
    """Say which launch the main thread waits for; 0 for none."""
    table[SignalWord.CURRENT] = address


def main_thread() -> int:
    """Address of an int64 with the main thread's :func:`threading.get_ident`."""
    return address_of(SignalWord.MAIN_THREAD)


def watch_address() -> int:
    """Address of what a launch that takes long calls, ``void(ptr launch)``; 0 for nothing."""
    return table[SignalWord.WATCH]


def thread_key() -> int:
    """Return the key under which a thread holds the launch that it is running; -1 for none."""
    return _key


def is_main_thread() -> bool:
    """Return whether this is the thread in which Python handles signals."""
    return threading.get_ident() == threading.main_thread().ident


def prepare_signals() -> None:
    """Put the handlers in place, before the first launch."""
    if _is_tried or not IS_SUPPORTED:
        return
    with _lock:
        if not _is_tried:
            _install()


def _install() -> None:
    global _is_tried, _key, _library  # noqa: PLW0603 -- one for the process
    _is_tried = True
    _library = ctypes.CDLL(None)
    key = ctypes.c_uint32()
    if _library.pthread_key_create(ctypes.byref(key), None):
        logger.debug("there is no key of POSIX threads: faults name no kernel")
        return
    numbers = {
        signal.SIGSEGV: SignalWord.OLD_SEGMENT_FAULT,
        signal.SIGBUS: SignalWord.OLD_BUS_ERROR,
        signal.SIGINT: SignalWord.OLD_INTERRUPT,
    }
    for number, word in numbers.items():
        _old[number] = ctypes.create_string_buffer(ACTION_BYTES)
        table[word] = ctypes.addressof(_old[number])
    # Of the module beneath: the function in `signal` is bytecode, in which an interrupt is raised.
    getsignal = sys.modules["_signal"].getsignal
    objects = (getsignal, int(signal.SIGINT), signal.default_int_handler)
    for word, value in zip(
        (SignalWord.GETSIGNAL, SignalWord.SIGINT, SignalWord.DEFAULT_HANDLER), objects, strict=True
    ):
        table[word] = id(value)
    table[SignalWord.KEY] = key.value
    table[SignalWord.MAIN_THREAD] = threading.main_thread().ident or 0
    loaded = HANDLERS_CODE.load()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.address)(ctypes.addressof(table))
    # To the very end: kernels may run until then.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object((loaded, _old, table, objects)))
    for number in (signal.SIGSEGV, signal.SIGBUS):
        _put(number, SignalWord.FAULT, WITH_INFORMATION | ON_STACK)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else the program's stays
        _put(signal.SIGINT, SignalWord.INTERRUPT, ON_STACK)
    _key = key.value


def _put(number: int, word: SignalWord, flags: int) -> None:
    """Put a native handler in place, and hold what was there."""
    sigaction = _library.sigaction
    before = ctypes.create_string_buffer(ACTION_BYTES)
    if sigaction(number, None, before):
        return
    ctypes.memmove(_old[number], before, ACTION_BYTES)
    words = bytearray(before.raw)
    words[:8] = table[word].to_bytes(8, sys.byteorder)
    words[ACTION_FLAGS : ACTION_FLAGS + 4] = flags.to_bytes(4, sys.byteorder)
    action = ctypes.create_string_buffer(bytes(words), ACTION_BYTES)
    sigaction(number, action, None)


def _after_fork_in_child() -> None:
    table[SignalWord.CURRENT] = 0
    table[SignalWord.MAIN_THREAD] = threading.get_ident()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
