"""Refuse a kernel that uses what its target has no lowering for, before anything is compiled."""

from __future__ import annotations

from collections.abc import Callable, Container

from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Typing

__all__ = ["refuse_missing"]


def refuse_missing(
    unit: FunctionUnit, target: str, lowered: Callable[[], Container[str]], table: str
) -> None:
    """Raise `UnsupportedConstructError` for the first intrinsic that a target does not lower.

    `lowered` returns the names of those that it does, beside ids and libdevice's. They are kept in
    `table`, which is imported for kernels that use one.
    """
    for reached in unit.reachable():
        missing = {
            name: use.intrinsic
            for name, use in reached.uses.items()
            if use.intrinsic.typing is not Typing.CONSTANT  # nothing is left of its calls
            and not use.intrinsic.is_index
            and not use.intrinsic.name.startswith("libdevice.")
            and use.intrinsic.name not in lowered()
        }
        if missing:
            name, intrinsic = next(iter(missing.items()))
            raise UnsupportedConstructError(
                f"kd.{intrinsic.name} has no lowering on the target {target!r}",
                where=reached.locate_use(name),
                value=intrinsic.name,
                limit="A target runs the operations that its table of lowerings has",
                remedy=f"Add a row for {intrinsic.name!r} to {table}, write the operation "
                "with others, or launch on a target that has it",
            )
