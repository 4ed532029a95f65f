"""Memory and names that Python and native code share, and C's structures.

The handlers of signals (:mod:`targets.cpu.runtime.signal_handlers`) contain no address, so that
their machine code is valid in every process. A table of int64 words has all addresses. The memory
of the pool of threads is zeros at first, and again in a forked child. The child has none of the
threads, and its next shared launch starts them.
"""

from __future__ import annotations

import ctypes
import sys
from enum import IntEnum, IntFlag

__all__ = [
    "ACTION_BYTES",
    "ACTION_FLAGS",
    "ALIGNMENT",
    "FINISHED",
    "FRAME_BYTES",
    "HEADER_BYTES",
    "INSTALL_HANDLERS",
    "INSTALL_POOL",
    "IS_SUPPORTED",
    "MAX_DYNAMIC_BYTES",
    "MAX_DYNAMIC_LINE",
    "NO_DEFER",
    "ON_STACK",
    "OVERRUN",
    "RECORD_BYTES",
    "RESTART",
    "RUNNER",
    "SLOT_BYTES",
    "STOPPED",
    "WITH_INFORMATION",
    "FramePlace",
    "LaunchWord",
    "PoolPlace",
    "RecordPlace",
    "RunnerOption",
    "SignalWord",
    "SlotPlace",
    "WatcherState",
    "address_of",
    "dynamic_failure",
    "read_dynamic_failure",
    "state_bytes",
    "table",
]

#: Whether the layouts of C's structures are known here.
IS_SUPPORTED = sys.platform == "linux"
#: Bytes of ``struct sigaction``, and where its flags are; with 64-bit addresses.
ACTION_BYTES, ACTION_FLAGS = 152, 136
#: ``SA_SIGINFO``, ``SA_ONSTACK``, ``SA_RESTART`` and ``SA_NODEFER``.
WITH_INFORMATION, ON_STACK, RESTART, NO_DEFER = 4, 0x08000000, 0x10000000, 0x40000000
#: The function of the handlers' code that takes the table, and writes its own addresses into it.
INSTALL_HANDLERS = "install"


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
    #: Whether a signal has arrived that Python may have a handler for.
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
    #: Address of the count of shared launches, or 0. Whether a thread has a team of OpenMP
    #: meanwhile, whether it is in that library, and whether it must not enter it.
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
    #: Whether the entry can be interrupted at any instruction, and C's ``jmp_buf`` for that.
    CAN_LEAVE = 24
    BUFFER = 32


RECORD_BYTES = 24
#: The largest ``jmp_buf`` of the processors with code that can be left has 312 bytes.
FRAME_BYTES = FramePlace.BUFFER + 320
#: The table of this process.
table = (ctypes.c_int64 * (max(SignalWord) + 1))()


def address_of(word: SignalWord) -> int:
    """Return the address of a word of the table."""
    return ctypes.addressof(table) + 8 * word


# -- memory that the machine code of the pool of threads and Python share -------------------------


#: The function of the pool's code that writes the address of ``parallel_for`` into the memory.
INSTALL_POOL = "install_pool"
#: Bytes of a pair of cache lines, which processors fetch together. Words that different threads
#: write are in different pairs.
_LINES = 128


class PoolPlace(IntEnum):
    """Offsets in bytes."""

    #: Number of launches that have been shared; waiting threads poll it.
    BELL = 0
    #: 2**32 where threads may join a launch, and how many have.
    GATE = _LINES
    #: Whether a launch is shared now, and whether the threads have been started.
    IS_BUSY = 2 * _LINES
    IS_STARTED = 2 * _LINES + 8
    #: The launch: its entry, the entry's argument, and the number of parts of its steps.
    ENTRY = 3 * _LINES
    LAUNCH = 3 * _LINES + 8
    PARTS = 3 * _LINES + 16
    #: Whether the launching thread sleeps, and its semaphore.
    IS_ASLEEP = 4 * _LINES
    SEMAPHORE = 4 * _LINES + 16
    #: Address of ``parallel_for``.
    PARALLEL_FOR = 5 * _LINES
    #: A slot for each thread follows, the first one for the thread that launches.
    SLOTS = 6 * _LINES


class SlotPlace(IntEnum):
    """Offsets in a slot."""

    #: The next step of a part, and where the part ends.
    NEXT = 0
    END = 8
    #: State of the thread: whether it sleeps, its semaphore, its number, and the pool's memory.
    IS_ASLEEP = _LINES
    SEMAPHORE = _LINES + 16
    NUMBER = _LINES + 64
    STATE = _LINES + 72


SLOT_BYTES = 2 * _LINES


def state_bytes(threads: int) -> int:
    """Return the size of the memory for so many threads."""
    return PoolPlace.SLOTS + threads * SLOT_BYTES


# -- name and options of the function that runs the pieces of every kernel ------------------------


#: Symbol of the runner.
RUNNER = "kd_run_pieces"


class RunnerOption(IntFlag):
    """Abilities of the function that a kernel needs."""

    #: Scratch memory.
    SCRATCH = 1
    #: Dynamic shared memory in it.
    DYNAMIC = 2
    #: A signal may make it leave the body.
    LEAVE = 4


# -- the launch that an entry is given ------------------------------------------------------------


class LaunchWord(IntEnum):
    """Words of the header of a launch; the kernel's parameter buffer follows.

    An entry has the signature of a Numba generalized ufunc's inner loop, so that every threading
    layer of Numba can run it over ranges: ``void(char **range, int64 *count, int64 *steps, char
    *launch)``. `launch` points to the header.
    """

    #: Units of work that a step of the range has, and of the launch.
    STEP_UNITS = 0
    UNITS = 1
    #: The first of six words: the segment and the extents of rows, or the grid and the extent.
    SPACE = 2
    #: Bytes of dynamic shared memory.
    SHARED_BYTES = 8
    #: Address of the first and the last address of the kernel's machine code, or 0.
    CODE = 9
    #: Address of the fault record, in debug mode.
    FAULT_RECORD = 10
    #: `STOPPED` or `OVERRUN`, or the bytes of scratch memory that a body could not get. Of an
    #: exception that ended the body, minus the address of its description by Numba. Of a slice
    #: beyond dynamic shared memory, minus what `dynamic_failure` returns.
    FAILURE = 11
    #: Address of the description of the launch for a fault report, or 0.
    DESCRIPTION = 12
    #: Set to 1 where a handler of a signal stops the launch.
    STOP = 13
    #: Address of the function that an entry calls with its frame, by which signals find the launch;
    #: or 0.
    ENTER = 14
    #: Units of the first piece, after which the launch can be stopped.
    FIRST_UNITS = 15
    #: Address of the function that a long launch calls with its words, or 0.
    WATCH = 16
    #: Start of the launch in nanoseconds, once a thread has read the clock.
    BEGAN = 17
    #: Address of the storage of all blocks if they wait for each other, or 0.
    PARTS = 18


#: Bytes of the header.
HEADER_BYTES = 8 * (max(LaunchWord) + 1)
#: Values of `FAILURE` for a launch that was stopped, and for one that wrote beyond dynamic shared
#: memory.
STOPPED, OVERRUN = -1, -2
#: The largest end of a slice of dynamic shared memory in bytes, and its last line, that are known.
MAX_DYNAMIC_BYTES, MAX_DYNAMIC_LINE = (1 << 40) - 1, (1 << 20) - 1
#: Arrays and private values of a block start at multiples of this many bytes.
ALIGNMENT = 64
#: The state of a block that has come to its end; a launch begins with state 0.
FINISHED = -1


def dynamic_failure(line: int) -> int:
    """Return what a slice of dynamic shared memory beyond its end reports, except for its bytes.

    No address is as large.
    """
    return (1 << 61) | (line << 40)


def read_dynamic_failure(told: int) -> tuple[int, int] | None:
    """Return the line of such a slice and the bytes that it ends at; ``None`` for another failure.

    Examples
    --------
    >>> read_dynamic_failure(dynamic_failure(7) + 4096), read_dynamic_failure(0x7F0012345678)
    ((7, 4096), None)
    """
    if not told >> 61:
        return None
    return (told >> 40) & MAX_DYNAMIC_LINE, told & MAX_DYNAMIC_BYTES
