"""Memory that the machine code of the pool of threads and Python share.

The memory is zeros at first, and again in a forked child, which has none of the threads: the next
shared launch starts them again.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["INSTALL", "SLOT_BYTES", "Place", "SlotPlace", "state_bytes"]

#: The function of the pool's code that writes the address of ``parallel_for`` into the memory.
INSTALL = "install_pool"
#: What different threads write is in different pairs of cache lines, which processors fetch.
_LINES = 128


class Place(IntEnum):
    """Offsets in bytes."""

    #: Launches that have been shared so far: a thread that waits looks at it.
    BELL = 0
    #: 2**32 where threads may join a launch, and how many have.
    GATE = _LINES
    #: Whether a launch is shared now, and whether the threads have been started.
    IS_BUSY = 2 * _LINES
    IS_STARTED = 2 * _LINES + 8
    #: The launch: its entry, what the entry is given, and in how many parts its steps are.
    ENTRY = 3 * _LINES
    LAUNCH = 3 * _LINES + 8
    PARTS = 3 * _LINES + 16
    #: Whether the thread that launched sleeps, and its semaphore.
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
    #: Of the thread: whether it sleeps, its semaphore, its number, and the pool's memory.
    IS_ASLEEP = _LINES
    SEMAPHORE = _LINES + 16
    NUMBER = _LINES + 64
    STATE = _LINES + 72


SLOT_BYTES = 2 * _LINES


def state_bytes(threads: int) -> int:
    """Return the size of the memory for so many threads."""
    return Place.SLOTS + threads * SLOT_BYTES
