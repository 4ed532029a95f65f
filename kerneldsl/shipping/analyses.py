"""Results of analyses that a package ships with its kernels, so that no launch repeats them.

Each is a list of digests of what was analyzed, in the manifest. The work of kernels has a line for
each digest. Another version of kerneldsl, which may analyze otherwise, does not use them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerneldsl.analysis.work import KernelWork
from kerneldsl.cache.reasons import UncacheableError
from kerneldsl.contract import Dim3
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind
from kerneldsl.shipping.key import unit_digest, work_digest
from kerneldsl.shipping.packages import shipped_kernels_of

if TYPE_CHECKING:
    from kerneldsl.frontend.effects.effects import Effects

__all__ = ["effects_of", "name_of_effects", "needs_no_rewrite", "work_of"]

#: How names of lists begin that have kernels by the arrays that they read and write.
_EFFECTS = "effects "


def effects_of(unit: FunctionUnit) -> Effects | None:
    """Return what the package says of the arrays that a kernel reads and writes, if it does.

    Such a kernel assigns no array in place.
    """
    shipped = shipped_kernels_of(unit.module)
    if shipped is None:
        return None
    try:
        digest = unit_digest(unit)
    except UncacheableError:
        return None
    name = next((each for each in shipped.listed(_EFFECTS) if digest in shipped.analyses(each)), "")
    parts = [
        frozenset(int(each) for each in part.split(",") if each.isdecimal())
        for part in name.removeprefix(_EFFECTS).split(";")
    ]
    if len(parts) != 2 or not parts[0] | parts[1] <= frozenset(range(len(unit.parameters))):
        return None
    return parts[0], parts[1]


def name_of_effects(effects: Effects) -> str:
    """Return the name of the list with the kernels that read and write arrays of some parameters.

    Examples
    --------
    >>> name_of_effects((frozenset({0, 2}), frozenset({2})))
    'effects 0,2;2'
    """
    return _EFFECTS + ";".join(",".join(map(str, sorted(part))) for part in effects)


def needs_no_rewrite(unit: FunctionUnit, kinds: tuple[Kind, ...]) -> bool:
    """Return whether the package says that arguments of some kinds leave a kernel as it is."""
    shipped = shipped_kernels_of(unit.module)
    if shipped is None:
        return False
    try:
        return unit_digest(unit, kinds) in shipped.analyses("unchanged")
    except UncacheableError:
        return False


def work_of(
    unit: FunctionUnit, kinds: tuple[Kind, ...], block_dim: Dim3 | None
) -> KernelWork | None:
    """Return what the package says that a kernel does for one index, if it does."""
    shipped = shipped_kernels_of(unit.module)
    if shipped is None:
        return None
    try:
        found = shipped.work(work_digest(unit, kinds, block_dim))
        return None if found is None else KernelWork.from_json(found)
    except (UncacheableError, ValueError, TypeError, AttributeError):
        return None
