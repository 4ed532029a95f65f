"""A kernel in LLVM's textual form, and what is known of it for any architecture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kerneldsl.contract import CompileOptions, PassRemark, Specialization
from kerneldsl.contract.findings import BarrierFacts, Finding
from kerneldsl.contract.limits import Dim3
from kerneldsl.lowering.faults import FaultTable
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.compile.additions import NO_ADDITIONS, LaunchAdditions

__all__ = ["DEFAULT_TILE_BLOCK", "LoweredKernel", "linked_symbols", "with_bounds"]


@dataclass(frozen=True)
class LoweredKernel:
    """A kernel in LLVM's textual form, for any architecture."""

    #: What was lowered.
    specialization: Specialization
    #: Name of the entry.
    entry_name: str
    #: The module with the entry.
    entry_text: str
    #: The modules that it calls into.
    body_texts: tuple[str, ...]
    #: Debug mode: what the sites of a fault record mean.
    fault_table: FaultTable
    #: Seconds spent in ``prepare`` and ``numba``; 0 where the body had been lowered before.
    timings: Mapping[str, float]
    #: What the passes did that do not depend on the architecture.
    remarks: tuple[PassRemark, ...]
    #: What to warn of in the kernel.
    findings: tuple[Finding, ...]
    #: What is known of its barriers.
    barriers: BarrierFacts
    #: What each launch has beyond what the program declares.
    additions: LaunchAdditions = NO_ADDITIONS


def linked_symbols(specialization: Specialization) -> frozenset[str]:
    """Return the names of the functions of other code that a kernel may call."""
    codes = specialization.unit.linked_functions().values()
    return frozenset(code.symbol for code in codes)


def with_bounds(
    specialization: Specialization, additions: LaunchAdditions = NO_ADDITIONS
) -> CompileOptions:
    """Return the options; of a kernel with tiles with the one block that it is launched with.

    The assembler then gives a thread no more registers than the block can have.
    """
    options = specialization.options
    if not specialization.traits.uses_tiles or options.launch_bounds is not None:
        return options
    block_dim = specialization.block_dim or DEFAULT_TILE_BLOCK
    threads = math.prod(block_dim) + additions.threads
    return replace(options, launch_bounds=(threads, 1) if additions.threads else (threads,))


# The block of a kernel with tiles where nobody chooses one.

DEFAULT_TILE_BLOCK: Final[Dim3] = (256, 1, 1)
