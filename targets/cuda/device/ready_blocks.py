"""Blocks of the default stream's that wait to be used there again.

What comes back in the default stream, used in no other, may be given out at once to whatever is put
into that stream next: the stream itself keeps the two uses apart. That needs no call of the driver,
whose allocation with its free takes longer than all of ours. Only a few blocks are kept, so that
the driver's pool, which joins neighbouring blocks and cuts large ones, has nearly everything.
"""

from __future__ import annotations

__all__ = ["MAX_BLOCK_BYTES", "ReadyBlocks"]

#: For larger blocks the time of a call does not matter.
MAX_BLOCK_BYTES = 1 << 26
#: So much is kept, in so many blocks and sizes; the next block makes room by giving up all.
_MAX_BYTES, _MAX_BLOCKS, _MAX_SIZES = 1 << 28, 64, 128


class ReadyBlocks:
    """Unused blocks by size.

    One method is called at a time, except for `take`, which a finalizer may call in the middle of
    another one.
    """

    __slots__ = ("_by_size", "_count", "_nbytes")

    def __init__(self) -> None:
        self._by_size: dict[int, list[int]] = {}
        self._count = self._nbytes = 0

    def take(self, nbytes: int) -> int:
        """Return the block of this size that came back last; 0 if there is none."""
        blocks = self._by_size.get(nbytes)
        if not blocks:
            return 0
        try:
            pointer = blocks.pop()
        except IndexError:  # a finalizer was faster
            return 0
        self._count -= 1
        self._nbytes -= nbytes
        return pointer

    def keep(self, pointer: int, nbytes: int) -> bool:
        """Keep a block; say whether there is room for one more."""
        blocks = self._by_size.get(nbytes)
        if blocks is None:
            self._by_size[nbytes] = [pointer]
        else:
            blocks.append(pointer)
        self._count += 1
        self._nbytes += nbytes
        return (
            self._count < _MAX_BLOCKS
            and self._nbytes < _MAX_BYTES
            and len(self._by_size) < _MAX_SIZES
        )

    def give_up(self) -> list[int]:
        """Return all blocks, and keep none."""
        by_size, self._by_size = self._by_size, {}
        self._count = self._nbytes = 0
        return [pointer for blocks in by_size.values() for pointer in blocks]
