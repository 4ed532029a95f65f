"""Tile operations of the region IR, spread over the threads of a block.

A thread has its elements of a tile in a local array, which LLVM keeps in registers once the loops
over it are unrolled. :class:`~kerneldsl.ir.tiles.layout.Layout` says which elements they are. A
tile is in shared memory if other threads read its elements (:mod:`.placement`).
"""
