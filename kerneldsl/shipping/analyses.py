"""Results of analyses that a package ships with its kernels, so that no launch repeats them.

Each is a list of digests of what was analyzed, in the manifest. The work of kernels has a line for
each digest. Another version of kerneldsl, which may analyze otherwise, does not use them.
"""

from __future__ import annotations

from kerneldsl.analysis.work import KernelWork
from kerneldsl.cache.reasons import UncacheableError
from kerneldsl.contract import Dim3
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind
from kerneldsl.shipping.key import unit_digest, work_digest
from kerneldsl.shipping.packages import shipped_kernels_of

__all__ = ["needs_no_rewrite", "work_of"]


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
