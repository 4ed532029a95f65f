"""Test whether a package of this process ships code; few programs have one."""

from __future__ import annotations

from kerneldsl.utilities.modules import imported

__all__ = ["may_be_shipped"]


def may_be_shipped() -> bool:
    """Return whether a package may have loaded kernels that it ships, without importing anything.

    A package that loads its kernels imports the module that is looked at.
    """
    return imported("kerneldsl.shipping.packages") is not None
