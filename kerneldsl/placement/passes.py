"""Optimizing passes of all targets, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerneldsl.errors import ArgumentValueError
from kerneldsl.language.other_names import closest_name
from kerneldsl.placement.registry import get_target, target_names
from kerneldsl.utilities.environment import pass_names

if TYPE_CHECKING:
    from kerneldsl.contract import PassInfo

__all__ = ["check_pass_names", "optimizing_passes"]


def optimizing_passes() -> tuple[PassInfo, ...]:
    """Return the passes of each target, in the order in which they run."""
    found = {
        each.name: each for name in target_names() for each in get_target(name).compiler.passes()
    }
    return tuple(found.values())


def check_pass_names(text: str) -> None:
    """Raise `ArgumentValueError` if ``KERNELDSL_DISABLE_PASSES`` names an unknown pass."""
    known = [each.name for each in optimizing_passes()]
    for name in pass_names(text):
        if name not in known:
            near = closest_name(name, known)
            raise ArgumentValueError(
                f"KERNELDSL_DISABLE_PASSES names the pass {name!r}, which does not exist",
                value=name,
                limit=f"The passes are {', '.join(known)}",
                remedy=f"The closest name is {near}" if near else "kerneldsl passes describes them",
            )
