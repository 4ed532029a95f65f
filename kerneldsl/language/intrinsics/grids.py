"""Declare operations of all threads of a launch.

References
----------
CUDA C++ Programming Guide, section "Grid Synchronization" of "Cooperative Groups".
"""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Effect, Intrinsic, IntrinsicGroup, Scope, Typing

__all__ = ["grid_group"]  # what is listed here is of the language


class _GridGroup(IntrinsicGroup):
    """All threads of a launch. Write ``kd.grid_group().sync()``, as in numba.cuda."""

    def __call__(self) -> _GridGroup:
        """Return the group; it works only in a kernel."""
        return self


grid_group = _GridGroup(
    "grid_group",
    {
        "sync": Intrinsic(
            "grid_group.sync",
            "Wait until every thread of the launch arrives; their earlier writes are visible "
            "then. Write `kd.grid_group().sync()` in a kernel.",
            Typing.NOTHING,
            effect=Effect.BARRIER | Effect.FENCE,
            scope=Scope.GRID,
        ),
    },
)
