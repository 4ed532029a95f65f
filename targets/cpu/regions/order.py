"""The order in which threads run."""

from __future__ import annotations

from kerneldsl.analysis.tile_shapes import is_tile_use
from kerneldsl.contract import Specialization
from kerneldsl.ir.operations import Operation, Region
from kerneldsl.language.intrinsics.intrinsic import Effect
from targets.cpu.intrinsics.table import Exchange, lowering_of

__all__ = ["loop_takes_any_order", "takes_any_order"]

#: Effects that threads may perform in any order.
_ANY_ORDER = Effect.BARRIER | Effect.ALLOCATE_SHARED | Effect.READ | Effect.WRITE


def takes_any_order(spec: Specialization) -> bool:
    """Return whether threads between two barriers may take turns after any instruction.

    They share what the CPU target does for atomics, for exchanges and in local arrays, one thread
    after the other.
    """
    return not spec.options.debug and not any(
        use.intrinsic.effect & ~_ANY_ORDER
        or isinstance(lowering_of(use.intrinsic), Exchange)
        or use.intrinsic.is_of_chain
        or is_tile_use(use)
        for use in spec.unit.all_uses()
    )


def loop_takes_any_order(region: Region) -> bool:
    """Return whether the same is true of what threads run in one loop."""
    return not any(map(_is_shared, region.walk()))


def _is_shared(operation: Operation) -> bool:
    if operation.name == "local.array":
        return not operation.attributes.get("is_copied")
    use = operation.attributes.get("use")
    return operation.name.startswith(("exchange.", "fault")) or (
        use is not None and bool(use.intrinsic.effect & (Effect.ATOMIC | Effect.FENCE))
    )
