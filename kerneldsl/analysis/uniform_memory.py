"""Find why memory that threads read at one place may give them different values.

Of a kernel the barrier intervals show it. A device function that is called has no barrier: all of
it is in the interval of its call, and what is doubtful of an argument there is doubtful within.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Set as AbstractSet

from kerneldsl.analysis.aliases import Root, is_own
from kerneldsl.analysis.effects import Accesses
from kerneldsl.analysis.intervals import Intervals
from kerneldsl.language.intrinsics.intrinsic import Scope

__all__ = ["CalleeMemory", "KernelMemory", "Memory"]

_OWN = "a thread's own array"
_SHARED = "memory that each block has for itself"
_WRITTEN = "memory that may be written before the next or after the last barrier"


class Memory(ABC):
    """Asked about the memory that an expression reads."""

    def __init__(self, accesses: Accesses) -> None:
        self.accesses = accesses

    def doubt(self, roots: AbstractSet[Root], at: ast.AST) -> str | None:
        """Return what memory it is, in words, if threads may read different values there.

        It is asked of an expression or statement that may read the memory of these roots.
        """
        if not roots:
            return None
        if any(map(is_own, roots)):
            return _OWN
        return self.conflict(roots, at)

    @abstractmethod
    def conflict(self, roots: AbstractSet[Root], at: ast.AST) -> str | None:
        """Return what :meth:`doubt` does, for memory that is not a thread's own."""


class KernelMemory(Memory):
    """Memory as a kernel reads it."""

    def __init__(
        self,
        accesses: Accesses,
        intervals: Intervals,
        *,
        arguments_may_overlap: bool,
        scope: Scope = Scope.BLOCK,
    ) -> None:
        super().__init__(accesses)
        self._intervals = intervals
        self._arguments_may_overlap = arguments_may_overlap
        self._scope = scope

    def conflict(self, roots: AbstractSet[Root], at: ast.AST) -> str | None:
        """Return what memory it is, if it may be written in the interval."""
        if self._scope > Scope.BLOCK and any(isinstance(root, str) for root in roots):
            return _SHARED
        written = self._intervals.written(at)
        if roots & written:
            return _WRITTEN
        # A parameter that is never looked into is a number.
        reads_argument = any(isinstance(r, int) and self.accesses.is_indexed(r) for r in roots)
        writes_argument = any(isinstance(root, int) for root in written)
        if self._arguments_may_overlap and reads_argument and writes_argument:
            return _WRITTEN
        return None


class CalleeMemory(Memory):
    """Memory as a device function reads it in one of its calls.

    `doubts` says of parameters, by position, what is doubtful of the arguments' memory.
    """

    def __init__(self, accesses: Accesses, doubts: dict[int, str]) -> None:
        super().__init__(accesses)
        self._doubts = doubts

    def conflict(self, roots: AbstractSet[Root], at: ast.AST) -> str | None:
        """Return what memory it is, if it is doubtful at the call."""
        del at
        found = (self._doubts.get(root) for root in roots if isinstance(root, int))
        return next((doubt for doubt in found if doubt is not None), None)
