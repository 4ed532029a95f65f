"""Hidden arguments by which every function of a kernel knows the launch.

The fault record, this thread's place in the grid (or in the extent), its size, and what to do at
the kernel's guard.
"""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.lowering.numba_internals.calling import HiddenArgumentsCallConv

__all__ = [
    "FAULT",
    "GUARD",
    "GUARD_ASKED",
    "GUARD_PASSED",
    "GUARD_TESTED",
    "INDEX",
    "SIZE",
    "STATUS_PASSES",
    "KernelCallConv",
]

#: Positions of the hidden arguments, after the pointer for the result.
FAULT = 1
INDEX = 2
SIZE = 5
GUARD = 8

#: The status of a kernel that was asked whether the index passes its guard, and does.
STATUS_PASSES = 2

#: What to do at the guard: test it; go on, as it is known to be passed; return whether it is.
GUARD_TESTED, GUARD_PASSED, GUARD_ASKED = 0, 1, 2

_COORDINATES = ("index0", "index1", "index2", "size0", "size1", "size2")


class KernelCallConv(HiddenArgumentsCallConv):
    """Status, result pointer, launch, arguments."""

    hidden = (
        ("fault", ir.IntType(8).as_pointer()),
        *((name, ir.IntType(64)) for name in _COORDINATES),
        ("guard", ir.IntType(32)),
    )
