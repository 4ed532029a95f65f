"""The numbers of the CPU target that the C runtime has in common with it."""

from __future__ import annotations

from targets.cpu.codegen.code import (
    ALIGNMENT,
    FAILURE_WORD,
    FINISHED,
    FIRST_UNITS_WORD,
    HEADER_BYTES,
    OVERRUN,
    PARTS_WORD,
    SPACE_WORDS,
)
from targets.cpu.runtime.artifact import (
    LEAST_SEGMENT,
    LEAST_STEP_THREADS,
    SERIAL_THREADS,
    STEPS_PER_THREAD,
)
from targets.cpu.runtime.native_tables import SLOT_BYTES, PoolPlace

__all__ = ["numbers_header"]

#: The first word of the space in the header; the words before it are the units.
_SPACE = 2
_NUMBERS = {
    "STEP_UNITS": 0,
    "ALL_UNITS": 1,
    "SPACE": _SPACE,
    "SHARED_BYTES": _SPACE + SPACE_WORDS,
    "FAILURE": FAILURE_WORD,
    "FIRST_UNITS": FIRST_UNITS_WORD,
    "PARTS": PARTS_WORD,
    "HEADER_WORDS": HEADER_BYTES // 8,
    "OVERRUN": OVERRUN,
    "FINISHED": FINISHED,
    "ALIGNMENT": ALIGNMENT,
    "SERIAL_THREADS": SERIAL_THREADS,
    "STEPS_PER_THREAD": STEPS_PER_THREAD,
    "LEAST_STEP_THREADS": LEAST_STEP_THREADS,
    "LEAST_ROW": LEAST_SEGMENT,
    "POOL_SLOTS": int(PoolPlace.SLOTS),
    "POOL_SLOT_BYTES": SLOT_BYTES,
    "POOL_PARALLEL_FOR": int(PoolPlace.PARALLEL_FOR),
}


def numbers_header() -> str:
    """Return ``kerneldsl_numbers.h``."""
    rows = "".join(f"#define {name} ({value})\n" for name, value in _NUMBERS.items())
    return f"/* Numbers of the code that kerneldsl has written; not for programs. */\n{rows}"
