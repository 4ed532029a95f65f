"""A kernel in LLVM's textual form, and what is known of it for any architecture.

That includes tensor maps and threads that it adds to its launches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kerneldsl.contract import (
    CompileOptions,
    LaunchConfig,
    PassRemark,
    Specialization,
    UnusableCodeError,
)
from kerneldsl.contract.findings import BarrierFacts, Finding
from kerneldsl.contract.limits import Dim3
from kerneldsl.lowering.faults import FaultTable
from kerneldsl.utilities.dataclasses import dataclass

if TYPE_CHECKING:
    from kerneldsl.contract.tensor_maps import TensorMap

__all__ = [
    "DEFAULT_TILE_BLOCK",
    "NO_ADDITIONS",
    "LaunchAdditions",
    "LoweredKernel",
    "dump_additions",
    "linked_symbols",
    "restore_additions",
    "with_bounds",
]


@dataclass(frozen=True, slots=True)
class LaunchAdditions:
    """Additions of a compiled kernel to each of its launches."""

    #: Tensor maps, after the parameters of its arguments.
    tensor_maps: tuple[TensorMap, ...] = ()
    #: Threads of a block after the declared ones, along x.
    threads: int = 0
    #: Whether the code waits for the preceding kernel, so that it may be started early.
    is_early: bool = False

    def added_to(self, config: LaunchConfig) -> LaunchConfig:
        """Return a configuration with the additions."""
        if not self.threads:
            return config
        x, y, z = config.block_dim
        return replace(config, block_dim=(x + self.threads, y, z))


#: Additions of most kernels: none.
NO_ADDITIONS = LaunchAdditions()


def dump_additions(additions: LaunchAdditions) -> dict[str, Any]:
    """Write additions as a section of metadata; nothing if there are none."""
    if additions == NO_ADDITIONS:
        return {}
    maps = [[m.array, m.axes, m.box, m.swizzle] for m in additions.tensor_maps]
    return {"additions": {"maps": maps, "threads": additions.threads, "early": additions.is_early}}


def restore_additions(metadata: dict[str, Any], array_count: int) -> LaunchAdditions:
    """Read what :func:`dump_additions` wrote, of a kernel with so many arrays.

    Raises `UnusableCodeError` for anything else.
    """
    found = metadata.get("additions")
    if found is None:
        return NO_ADDITIONS
    from kerneldsl.contract.tensor_maps import TensorMap

    try:
        maps = tuple(
            TensorMap(int(array), tuple(map(int, axes)), tuple(map(int, box)), int(swizzle))
            for array, axes, box, swizzle in found["maps"]
        )
        made = LaunchAdditions(maps, int(found["threads"]), bool(found["early"]))
    except (LookupError, ValueError, TypeError) as error:
        raise UnusableCodeError(f"the additions cannot be read: {error!r}") from error
    if not all(_is_possible(each, array_count) for each in maps):
        raise UnusableCodeError(f"{maps} are no tensor maps of the kernel")
    return made


def _is_possible(wanted: TensorMap, array_count: int) -> bool:
    from kerneldsl.contract.tensor_maps import MAP_SWIZZLES, MAX_MAP_RANK

    return (
        0 <= wanted.array < array_count
        and 1 <= len(wanted.axes) == len(wanted.box) <= MAX_MAP_RANK
        and sorted(wanted.axes) == list(range(len(wanted.axes)))
        and all(1 <= extent <= 256 for extent in wanted.box)
        and wanted.swizzle in MAP_SWIZZLES
    )


@dataclass(frozen=True)
class LoweredKernel:
    """A kernel in LLVM's textual form, for any architecture."""

    #: The specialization that was lowered.
    specialization: Specialization
    #: Name of the entry.
    entry_name: str
    #: The module with the entry.
    entry_text: str
    #: The modules that it calls into.
    body_texts: tuple[str, ...]
    #: Meanings of the sites of a fault record, in debug mode.
    fault_table: FaultTable
    #: Seconds spent in ``prepare`` and ``numba``; 0 where the body had been lowered before.
    timings: Mapping[str, float]
    #: Remarks of the passes that do not depend on the architecture.
    remarks: tuple[PassRemark, ...]
    #: Warnings about the kernel.
    findings: tuple[Finding, ...]
    #: Facts about the kernel's barriers.
    barriers: BarrierFacts
    #: Additions of each launch to the configuration that the program declares.
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
    options, added = specialization.options, additions.threads
    if not specialization.traits.uses_tiles or (options.launch_bounds and not added):
        return options
    block_dim = specialization.block_dim or DEFAULT_TILE_BLOCK
    first, *others = options.launch_bounds or (math.prod(block_dim), *[1] * bool(added))
    return replace(options, launch_bounds=(first + added, *others))


# The block of a kernel with tiles if none is chosen.

DEFAULT_TILE_BLOCK: Final[Dim3] = (256, 1, 1)
