"""Choose the axis of an extent that the rows of the CPU run along.

Neighbouring indices of a row should access neighbouring elements. Rows run along the last axis of
``forall``'s extent, unless more bytes lie side by side along the first. That is so if a kernel
indexes ``a[y, x]`` with ``x, y = kd.grid(2)``, or in Fortran order.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from kerneldsl.analysis.work import KernelWork
from kerneldsl.contract import Specialization
from kerneldsl.planner.work import orient

__all__ = ["RowAxis", "row_axis"]

RowAxis: TypeAlias = Literal["first", "last"]


def row_axis(spec: Specialization, work: KernelWork) -> RowAxis:
    """Return the axis of the extent that the rows of an element kernel run along, by its work.

    Without ``forall``, x is the first axis of the grid, whatever is touched.
    """
    rank = spec.mode.forall_ndim
    if rank is None or rank == 1 or spec.options.debug:
        return "last"
    last, first = (work.body(x_is_last=is_last) for is_last in (True, False))
    return "first" if orient(last, first, spec.kinds, spec.promises).is_first else "last"
