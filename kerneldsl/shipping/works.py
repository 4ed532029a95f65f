"""The work of kernels that a package ships, so that no launch counts it again.

Another version of kerneldsl, which may count otherwise, does not use it.
"""

from __future__ import annotations

from kerneldsl.analysis.work import KernelWork
from kerneldsl.cache.reasons import UncacheableError
from kerneldsl.contract import Dim3
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind
from kerneldsl.shipping.key import work_digest
from kerneldsl.shipping.packages import shipped_kernels_of

__all__ = ["work_of"]


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
