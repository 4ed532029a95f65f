"""Table of int64 words that native handlers of signals share with Python; and C's structures.

The handlers (:mod:`targets.cpu.signal_handlers`) hold no address, so that their machine code is
good in every process; the table says where everything is.
"""

from __future__ import annotations

import ctypes
import sys
from enum import IntEnum

__all__ = [
    "ACTION_BYTES",
    "ACTION_FLAGS",
    "INSTALL",
    "IS_SUPPORTED",
    "ON_STACK",
    "WITH_INFORMATION",
    "SignalWord",
    "address_of",
    "table",
]

#: Where the layouts of C's structures are known.
IS_SUPPORTED = sys.platform == "linux"
#: Bytes of ``struct sigaction``, and where its flags are; with 64-bit addresses.
ACTION_BYTES, ACTION_FLAGS = 152, 136
#: ``SA_SIGINFO`` and ``SA_ONSTACK``.
WITH_INFORMATION, ON_STACK = 4, 0x08000000
#: The function of the handlers' code that takes the table, and writes its own addresses into it.
INSTALL = "install"


class SignalWord(IntEnum):
    """Offsets in the table."""

    #: The key of POSIX threads under which a thread holds the launch that it is running.
    KEY = 0
    #: Address of the launch that the main thread waits for, or 0; and the main thread's identity.
    CURRENT = 1
    MAIN_THREAD = 2
    #: Addresses of the ``struct sigaction`` that were there before.
    OLD_SEGMENT_FAULT = 3
    OLD_BUS_ERROR = 4
    OLD_INTERRUPT = 5
    #: Addresses of the C function behind :func:`signal.getsignal`, its argument, and the handler
    #: that Python starts with.
    GETSIGNAL = 6
    SIGINT = 7
    DEFAULT_HANDLER = 8
    #: Addresses of the functions.
    FAULT = 9
    INTERRUPT = 10
    WATCH = 11


#: The table of this process.
table = (ctypes.c_int64 * len(SignalWord))()


def address_of(word: SignalWord) -> int:
    """Return the address of a word of the table."""
    return ctypes.addressof(table) + 8 * word
