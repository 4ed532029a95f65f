"""Operations that differ between the threads of a block in their results."""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Scope

__all__ = ["VARYING"]

#: What differs between the threads of a block.
VARYING = {
    "threadIdx.x": Scope.THREAD,
    "threadIdx.y": Scope.THREAD,
    "threadIdx.z": Scope.THREAD,
    "local.array": Scope.THREAD,
}
