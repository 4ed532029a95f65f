"""The function that all that a kernel may be written from begins with."""

from __future__ import annotations

from kerneldsl.analysis.inline import inline_block_functions
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.transforms.split_assignments import split_assignments
from targets.cpu.passes.dead_branches import without_dead_branches

__all__ = ["flat_function"]


def flat_function(unit: FunctionUnit) -> FunctionUnit:
    """Return a kernel whose statements assign one value each, to which no branch is dead.

    Device functions that a block meets together are part of it.
    """
    return without_dead_branches(inline_block_functions(split_assignments(unit)))
