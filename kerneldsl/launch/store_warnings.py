"""Warnings of stores that lose something, when a kernel is made for arguments."""

from __future__ import annotations

import warnings

from kerneldsl.analysis.lossy_stores import LossyStore, lossy_stores
from kerneldsl.contract import Specialization
from kerneldsl.errors import KernelWarning
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import leaf_kinds

__all__ = ["warn_of_lossy_stores"]


def warn_of_lossy_stores(specialization: Specialization) -> None:
    """Warn of each store of a float in an integer array, with its place in the kernel."""
    if not _may_have_any(specialization):
        return
    for store in lossy_stores(specialization.unit, specialization.kinds):
        where = store.unit.locate(store.node)
        # Without a registry: it is shown for each compilation, whatever was shown before.
        warnings.warn_explicit(_text(store), KernelWarning, where.filename, where.lineno)


def _may_have_any(specialization: Specialization) -> bool:
    """Return whether there is an integer array at all; a launch waits for the answer."""
    if any(
        getattr(kind, "ndim", None) is not None and kind.element.is_integer
        for kind in leaf_kinds(specialization.kinds)
    ):
        return True
    units = specialization.unit.reachable()
    dtypes = (use.static.get("dtype") for unit in units for use in unit.uses.values())
    return any(name in ELEMENT_TYPES and ELEMENT_TYPES[name].is_integer for name in dtypes)


def _text(store: LossyStore) -> str:
    where = store.unit.locate(store.node)
    return (
        f"{store.unit.qualname}: a value of type {store.value} is stored in an element of type "
        f"{store.element}, which cuts off its fraction. If that is meant, write int(…) around it; "
        f"else make the array one of {store.value}, as array.astype(np.{store.value}) does.\n  at "
        + where.render().replace("\n", "\n  ")
    )
