"""Findings about a kernel's branches and integers, with places and what to write instead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from kerneldsl.explain.explanation import BranchReport, Finding
from kerneldsl.explain.tally import AccessTally, Tallies
from kerneldsl.explain.text import short_number
from kerneldsl.ir.nonnegative import mark_indices
from kerneldsl.ir.operations import Function
from kerneldsl.ir.ranges import INTERVALS

__all__ = ["divergence", "index_arithmetic", "integer_division"]

#: Lanes at work, below which a branch or a loop is told of, and the warps that it must
#: concern.
_AT_WORK, _CONCERNED = 0.9, 0.05


def divergence(branches: Sequence[BranchReport]) -> Iterator[Finding]:
    """Yield the branches and loops in which lanes of a warp wait for others."""
    for each in branches:
        if each.depends_on_data or not each.warps:
            continue
        idle = 1.0 - each.share
        if each.is_loop:
            if each.share >= _AT_WORK:
                continue
            what = f"{100 * each.share:.3g} % of lanes are at work in the rounds of their warps"
            why = "A warp makes as many rounds as the lane with the most"
            remedy = "Give the threads of a warp loops of equal length, or sort by length"
        else:
            if each.divergent < _CONCERNED * each.warps or each.share >= _AT_WORK:
                continue
            what = (
                f"the lanes of {100 * each.divergent / each.warps:.3g} % of the warps part here, "
                f"and {100 * each.share:.3g} % of them are at work"
            )
            why = "A warp executes both sides, one after the other"
            remedy = "Let whole warps take one side: compare kd.threadIdx.x // 32, or compact first"
        yield Finding(
            "divergence", each.where, each.share, what, why, remedy, weight=32 * idle * each.warps
        )


def integer_division(tallies: Tallies) -> Iterator[Finding]:
    """Yield divisions and remainders of integers by what is no constant."""
    for each in tallies.divisions.values():
        remedy = (
            "Divide by a constant that the kernel captures, a power of two best, or let the grid's "
            "axes give the quotient and the remainder"
        )
        if each.fits and not each.is_narrow:
            remedy = (
                "Both are from 0 to 2**32 - 1 in this launch: np.uint32(…) around each of them "
                f"divides in 32 bits. {remedy}"
            )
        count = short_number(each.count)
        yield Finding(
            "integer division",
            each.site.where,
            each.count,
            f"{count} divisions or remainders of {each.dtype} by a value that is not a constant",
            "GPUs have no instruction for it: each takes some tens of them, and in 64 bits more",
            remedy,
            weight=32 * each.count,
        )


def index_arithmetic(function: Function, tallies: Tallies) -> Iterator[Finding]:
    """Yield, for each function, the indices that count from the end if they are negative.

    None of them is negative in the launch, but the code does not show it.
    """
    mark_indices(function, INTERVALS, wraparound=True)
    places: dict[Any, dict[Any, AccessTally]] = defaultdict(dict)
    for each in tallies.accesses.values():
        if not each.wraps and _wrapped(each):  # what is read and written at one place has one index
            places[each.site.unit][each.site.node, each.memory] = each
    for found in places.values():
        counts = {key: _wrapped(each) * each.lanes for key, each in found.items()}
        nodes = {node for node, _ in found}
        most = found[max(counts, key=lambda key: counts[key])]
        count = sum(counts.values())
        many = f" at {len(nodes)} places" if len(nodes) > 1 else ""
        yield Finding(
            "index arithmetic",
            most.site.where,
            count,
            f"{short_number(count)} indices{many} may be negative, for all that the code shows",
            "Each is compared with 0 to count from the end: some four 64-bit instructions, eight "
            "of a GPU's",
            "Where none ever is, as in this launch, promise it: @kd.kernel(wraparound=False)",
            weight=8 * count,
        )


def _wrapped(access: AccessTally) -> int:
    """Return how many indices of an access may be negative."""
    marks = [each.attributes.get("nonnegative", ()) for each in access.operations]
    return max(sum(not is_marked for is_marked in each) for each in marks)
