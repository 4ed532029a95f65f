"""Run a launch with blocks that wait for each other: each to the next barrier, again and again.

What a block keeps meanwhile is in its part of one piece of memory
(:mod:`targets.cpu.regions.grid_barriers`), which begins with the state from which it goes on.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kerneldsl.contract import LaunchConfig
from kerneldsl.errors import BarrierDivergenceError
from targets.cpu.codegen.code import ALIGNMENT, FINISHED, PARTS_WORD
from targets.cpu.runtime.faults import raise_incomplete

if TYPE_CHECKING:
    from targets.cpu.runtime.artifact import CpuArtifact

__all__ = ["run_in_passes"]


def run_in_passes(
    run: Callable[[], None],
    header: ctypes.Array[ctypes.c_char],
    blocks: int,
    artifact: CpuArtifact,
    config: LaunchConfig,
) -> None:
    """Call `run`, which runs the entry over all blocks, until they have come to their end.

    - raises `OutOfMemoryError`: there is no memory for what the blocks keep.
    - raises `BarrierDivergenceError`: some blocks wait, and others have ended or wait elsewhere,
      where a GPU would wait permanently. Analysis refuses kernels in which that could be; arguments
      that overlap may deceive it.
    """
    assert artifact.part_bytes is not None
    each = -(-(artifact.part_bytes + config.shared_bytes) // ALIGNMENT) * ALIGNMENT
    try:
        memory = np.empty(blocks * each + ALIGNMENT, np.uint8)
    except MemoryError:
        raise_incomplete(artifact, blocks * each, config.shared_bytes)
    start = -memory.ctypes.data % ALIGNMENT
    states = memory[start : start + blocks * each].reshape(blocks, each)[:, :8].view(np.int64)
    states[...] = 0
    ctypes.c_int64.from_buffer(header, 8 * PARTS_WORD).value = memory.ctypes.data + start
    while True:
        run()
        state = states[0, 0]
        if not (states == state).all():
            unit = artifact.specialization.unit
            raise BarrierDivergenceError(
                f"not all blocks of {unit.qualname} have come to the same barrier of the grid",
                where=unit.locate(unit.tree),
                limit="Every thread of a launch must reach it",
                remedy="Give it arguments that do not overlap in memory",
            )
        if state == FINISHED:
            return
