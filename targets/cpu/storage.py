"""Where the arrays and private values of a block live: on the worker's stack, or in scratch."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["STACK_BYTES", "Storage"]

#: Bytes of a block's storage that are taken from the worker's stack; what is beyond goes to
#: scratch memory. Workers of a thread pool may have as little as half a megabyte of stack.
STACK_BYTES = 64 * 1024
_ALIGNMENT = 64


@dataclass
class Storage:
    """Places storage as it is asked for.

    Parameters
    ----------
    stack_bytes : int
        Already taken from the stack.
    scratch_bytes : int
        Already taken from scratch memory.
    """

    stack_bytes: int = 0
    scratch_bytes: int = 0

    def place(self, nbytes: int) -> int | None:
        """Reserve bytes; return their offset in scratch memory, or ``None`` for the stack."""
        rounded = -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        if self.stack_bytes + rounded <= STACK_BYTES:
            self.stack_bytes += rounded
            return None
        offset = self.scratch_bytes
        self.scratch_bytes += rounded
        return offset
