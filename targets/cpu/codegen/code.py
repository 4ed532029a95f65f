"""The machine code of a kernel, and the entry that it is called by.

The entry has the signature of a Numba generalized ufunc's inner loop, so that every threading
layer of Numba can run it over ranges: ``void(char **range, int64 *count, int64 *steps, char
*launch)``. `launch` points to a header of int64 words, then to the kernel's parameter buffer:

====  ==========================================================
word  meaning
====  ==========================================================
0     units of work a step of the range has
1     units of work of the launch
2–7   the space: segment and extents, or grid and extent
8     bytes of dynamic shared memory
9     address of the first and the last address of the kernel's machine code, or 0
10    address of the fault record, in debug mode
11    set to the bytes of scratch memory that a body could not get; to -1 where it was stopped; to
      -2 where it wrote beyond dynamic shared memory; to minus the address of what Numba says of an
      exception that ended it, or minus what `dynamic_failure` gives
12    address of what a fault says of the launch, or 0
13    set to 1 where a handler of a signal stops the launch
14    address of what an entry calls with its frame, by which signals find the launch; or 0
15    units that are run before the launch is asked whether it is stopped, at first
16    address of what a launch that takes long calls with its own, or 0
17    when the launch began, in nanoseconds, once a thread has read the clock
18    address of the storage of all blocks, where they wait for each other, or 0
====  ==========================================================
"""

from __future__ import annotations

from typing import Any

from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "ALIGNMENT",
    "BEGAN_WORD",
    "CODE_WORD",
    "DESCRIPTION_WORD",
    "ENTER_WORD",
    "FAILURE_WORD",
    "FINISHED",
    "FIRST_UNITS_WORD",
    "HEADER_BYTES",
    "MAX_DYNAMIC_BYTES",
    "MAX_DYNAMIC_LINE",
    "OVERRUN",
    "PARTS_WORD",
    "SPACE_WORDS",
    "STATE_BYTES",
    "STOPPED",
    "STOP_WORD",
    "WATCH_WORD",
    "Compiled",
    "dynamic_failure",
    "read_dynamic_failure",
]

#: Bytes of the header; the parameter buffer follows.
HEADER_BYTES = 8 * 19
#: Words of the header that describe the space.
SPACE_WORDS = 6
#: Which word says why a launch is incomplete.
FAILURE_WORD = 11
#: What it says where the launch was stopped, and if it wrote beyond dynamic shared memory.
STOPPED, OVERRUN = -1, -2
#: The largest end of a slice of dynamic shared memory in bytes, and its last line, that are known.
MAX_DYNAMIC_BYTES, MAX_DYNAMIC_LINE = (1 << 40) - 1, (1 << 20) - 1
CODE_WORD, DESCRIPTION_WORD, STOP_WORD, ENTER_WORD, FIRST_UNITS_WORD = 9, 12, 13, 14, 15
WATCH_WORD, BEGAN_WORD, PARTS_WORD = 16, 17, 18

#: Arrays and private values of a block start at multiples of this many bytes.
ALIGNMENT = 64
#: Bytes of the number of a state, an int64.
STATE_BYTES = 8
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


@dataclass(frozen=True)
class Compiled:
    """Machine code of one body."""

    #: Object that returns LLVM's module and the assembly: Numba's code library, or a substitute.
    library: Any
    #: Of the entry.
    address: int
    #: Symbol of the entry.
    entry_name: str
    #: What owns the code; ``None`` where the library does.
    loaded: Any = None
