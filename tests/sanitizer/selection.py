"""Which conformance cases the sanitizer sees: every barrier case, every intrinsic at least once.

All of them are small. What they cost is instrumented loading and launching, so an intrinsic that a
barrier case uses already brings no case of its own.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from kerneldsl.language.intrinsics.intrinsic import Typing
from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.language.intrinsics.tiles import element_words
from tests.conformance.kernels import CASES
from tests.support.cases import Case
from tests.support.python_kernels import unit_of, uses_of

__all__ = ["BARRIER_TOPICS", "WORDS", "intrinsics_of", "sanitized_cases"]

#: Words that are made when types are found, of expressions of tiles.
_OF_EXPRESSIONS = {element_words.cast, element_words.each}
#: All intrinsics but those of which the normal form of a kernel shows nothing.
WORDS = frozenset(
    name
    for name, row in INTRINSICS.items()
    if row.typing is not Typing.CONSTANT and row not in _OF_EXPRESSIONS
)

#: Topics whose cases are all about barriers, and about memory that a block shares.
BARRIER_TOPICS = (
    "barriers",
    "barrier_shapes",
    "barrier_values",
    "barrier_functions",
    "synchronization",
    "memory",
)


@cache
def intrinsics_of(kernel: Any) -> frozenset[str]:
    """Names of the intrinsics that a case's kernel and its device functions call.

    Functions of libdevice, which touch no memory, are left out.
    """
    names = (use.intrinsic.name for use in uses_of(unit_of(kernel)))
    return frozenset(name for name in names if not name.startswith("libdevice."))


def _size(case: Case) -> tuple[bool, int]:
    """Return whether an array ends inside a word of 32 bits, and the number of elements.

    An atomic operation on 8 or 16 bits reads the word around them, and initcheck tells of the bytes
    behind the array that nobody has written.
    """
    arguments = case.arguments(np.random.default_rng(0))
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    return any(a.nbytes % 4 for a in arrays), sum(a.size for a in arrays)


@cache
def sanitized_cases() -> tuple[Case, ...]:
    """The barrier cases, then the smallest case of each intrinsic that they leave out.

    Cases whose arrays are whole words go first.

    Returns
    -------
    tuple of Case
        In the suite's order.
    """
    chosen = {c.name for c in CASES if c.name.partition(".")[0] in BARRIER_TOPICS}
    used = {c.name: intrinsics_of(c.kernel) for c in CASES}
    covered = frozenset().union(*(used[name] for name in chosen))
    for case in sorted(CASES, key=_size):
        if not used[case.name] <= covered:
            chosen.add(case.name)
            covered |= used[case.name]
    return tuple(c for c in CASES if c.name in chosen)
