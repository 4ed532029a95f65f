"""The order in which threads run."""

from __future__ import annotations

from kerneldsl.ir.operations import Operation, Region
from kerneldsl.language.intrinsics.intrinsic import Effect

__all__ = ["loop_takes_any_order"]


def loop_takes_any_order(region: Region) -> bool:
    """Return whether the threads of a loop may take turns after any instruction.

    They share what the CPU target does for atomics, for exchanges and in local arrays, one thread
    after the other.
    """
    return not any(map(_is_shared, region.walk()))


def _is_shared(operation: Operation) -> bool:
    if operation.name == "local.array":
        return not operation.attributes.get("is_copied")
    use = operation.attributes.get("use")
    return operation.name.startswith(("exchange.", "fault")) or (
        use is not None and bool(use.intrinsic.effect & (Effect.ATOMIC | Effect.FENCE))
    )
