"""Take the lengths of arrays from the extent of ``forall`` where a launch found them equal.

A thread tests whether its index is in the extent. A kernel usually tests it again: ``if i <
x.size``. ptxas computes the smaller of the two lengths for that, in three instructions, and waits
for both. Of equal lengths one is enough.
"""

from __future__ import annotations

from kerneldsl.contract import Promises, Report

__all__ = ["share_extents"]


def share_extents(arrays: frozenset[int], promises: Promises, report: Report) -> frozenset[int]:
    """Add the numbers of the arrays with first axes that are as long as the extent."""
    found = {number for number, each in enumerate(promises.arrays) if each.is_extent}
    report("array", "given the lengths of the extent", len(found))
    return arrays | found
