"""Table of int64 words that native handlers of signals share with Python; and C's structures.

The handlers (:mod:`targets.cpu.runtime.signal_handlers`) hold no address, so that their machine
code is good in every process; the table says where everything is.
"""

from __future__ import annotations

import ctypes
import sys
from enum import IntEnum

__all__ = [
    "ACTION_BYTES",
    "ACTION_FLAGS",
    "FRAME_BYTES",
    "INSTALL",
    "IS_SUPPORTED",
    "NO_DEFER",
    "ON_STACK",
    "RECORD_BYTES",
    "RESTART",
    "WITH_INFORMATION",
    "FramePlace",
    "RecordPlace",
    "SignalWord",
    "WatcherState",
    "address_of",
    "table",
]

#: Where the layouts of C's structures are known.
IS_SUPPORTED = sys.platform == "linux"
#: Bytes of ``struct sigaction``, and where its flags are; with 64-bit addresses.
ACTION_BYTES, ACTION_FLAGS = 152, 136
#: ``SA_SIGINFO``, ``SA_ONSTACK``, ``SA_RESTART`` and ``SA_NODEFER``.
WITH_INFORMATION, ON_STACK, RESTART, NO_DEFER = 4, 0x08000000, 0x10000000, 0x40000000
#: The function of the handlers' code that takes the table, and writes its own addresses into it.
INSTALL = "install"


class SignalWord(IntEnum):
    """Offsets in the table."""

    #: The key of POSIX threads under which a thread holds its record.
    KEY = 0
    #: Address of the launch that the main thread shares with others, or 0.
    CURRENT = 1
    #: The main thread's identity, and the system's number of it.
    MAIN_THREAD = 2
    MAIN_THREAD_ID = 3
    #: Addresses of the ``struct sigaction`` that were there before.
    OLD_SEGMENT_FAULT = 4
    OLD_BUS_ERROR = 5
    #: Address of Python's own C handler of signals; of the object that is called after handlers.
    PYTHON_HANDLER = 6
    AFTER_HANDLERS = 7
    #: Set from time to time: signals are looked for that are not relayed yet.
    IS_DUE = 8
    #: Whether a signal has come that Python may have a handler for.
    IS_PENDING = 9
    #: Whether a launch is being stopped, and the address of the exception that stops it, or 0.
    IS_STOPPING = 10
    RAISED = 11
    #: Address of the newest record of a thread, and of the main thread's.
    RECORDS = 12
    MAIN_RECORD = 13
    #: State of the thread that watches over launches, and the semaphore on which it sleeps.
    WATCHER = 14
    SEMAPHORE = 15
    #: Addresses of the functions.
    FAULT = 19
    RELAY = 20
    WATCH = 21
    POKE = 22
    ENTER = 23
    FORGET = 24
    #: Address of the count of shared launches, or 0; whether the thread is there that has a team
    #: of OpenMP meanwhile, whether it is in that library, and whether it must not go there.
    BELL = 25
    COMPANION = 26
    IN_OPENMP = 27
    IS_FORKING = 28


class WatcherState(IntEnum):
    """State of the thread that watches over launches."""

    NOT_STARTED = 0
    AWAKE = 1
    ASLEEP = 2


class RecordPlace(IntEnum):
    """Offsets in the record of a thread that runs launches. Records live as long as the process."""

    #: Address of the next older record.
    NEXT = 0
    #: The system's number of the thread; 0 if it has ended.
    THREAD_ID = 8
    #: Address of the frame of the entry that it is running, or 0.
    FRAME = 16


class FramePlace(IntEnum):
    """Offsets in the frame of an entry, on the stack of its thread."""

    LAUNCH = 0
    RECORD = 8
    #: Address of the frame of a launch that a signal's handler interrupts with this one, or 0.
    PREVIOUS = 16
    #: Whether the entry can be left at any instruction, and C's ``jmp_buf`` for that.
    CAN_LEAVE = 24
    BUFFER = 32


RECORD_BYTES = 24
#: The largest ``jmp_buf`` of the processors whose code can be left has 312 bytes.
FRAME_BYTES = FramePlace.BUFFER + 320
#: The table of this process.
table = (ctypes.c_int64 * (max(SignalWord) + 1))()


def address_of(word: SignalWord) -> int:
    """Return the address of a word of the table."""
    return ctypes.addressof(table) + 8 * word
