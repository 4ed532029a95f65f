"""Results of analyses that a package ships with its kernels, so that no launch repeats them.

Each is a list of digests of what was analyzed, in the manifest. Another version of kerneldsl, which
may analyze otherwise, does not use them.
"""

from __future__ import annotations

from kerneldsl.cache.reasons import UncacheableError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind
from kerneldsl.shipping.key import unit_digest
from kerneldsl.shipping.packages import shipped_kernels_of

__all__ = ["has_uniform_barriers", "needs_no_rewrite"]


def has_uniform_barriers(unit: FunctionUnit) -> bool:
    """Return whether the kernel's package says that all threads reach the barriers."""
    shipped = shipped_kernels_of(unit.module)
    if shipped is None:
        return False
    try:
        return unit_digest(unit) in shipped.analyses("uniform")
    except UncacheableError:
        return False


def needs_no_rewrite(unit: FunctionUnit, kinds: tuple[Kind, ...]) -> bool:
    """Return whether the package says that arguments of some kinds leave a kernel as it is."""
    shipped = shipped_kernels_of(unit.module)
    if shipped is None:
        return False
    try:
        return unit_digest(unit, kinds) in shipped.analyses("unchanged")
    except UncacheableError:
        return False
