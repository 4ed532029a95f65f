"""Which axis of an extent runs along x, so that neighbouring threads touch neighbouring elements.

The last axis does, unless more bytes are then read and written side by side with the axes in their
own order: for arrays in Fortran order, or where a kernel indexes ``a[j, i]`` under ``i, j =
kd.grid(2)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from kerneldsl.abi import array_parameters
from kerneldsl.analysis.work import Access, BodyWork
from kerneldsl.language.kinds import ArrayKind, Kind
from kerneldsl.target import Promises

__all__ = ["Oriented", "orient"]


class Oriented(NamedTuple):
    """A body's work once the axes are decided.

    Parameters
    ----------
    body : BodyWork
        Its accesses lie to each other as neighbours along x do.
    kinds : tuple of Kind
        Of the arguments, with "C" for the layout of those whose accesses were turned over.
    is_first : bool
        Whether the first axis of the extent runs along x, then the second; else the last does.
    """

    body: BodyWork
    kinds: tuple[Kind, ...]
    is_first: bool


def orient(last: BodyWork, first: BodyWork, kinds: Sequence[Kind], promises: Promises) -> Oriented:
    """Choose the axis along x.

    Parameters
    ----------
    last, first : BodyWork
        What the body does where the last, and where the first, axis runs along x, its arrays
        taken for C-contiguous ones.
    kinds : sequence of Kind
        Of the arguments.
    promises : Promises
        What holds of them.

    Returns
    -------
    Oriented
    """
    # An array whose first axis is contiguous is a C-contiguous one with all indices turned over, so
    # that its accesses are those of the other order of axes.
    turned = _turned(kinds, promises)
    if len(last.accesses) != len(first.accesses):  # one text may be two places in one order only
        return Oriented(last, tuple(kinds), is_first=False)
    pairs = list(zip(last.accesses, first.accesses, strict=True))
    along_last = [b if a.parameter in turned else a for a, b in pairs]
    along_first = [a if a.parameter in turned else b for a, b in pairs]
    is_first = _side_by_side(along_first, kinds) > _side_by_side(along_last, kinds)
    accesses = along_first if is_first else along_last
    seen = tuple(
        replace(kind, layout="C") if position in turned and isinstance(kind, ArrayKind) else kind
        for position, kind in enumerate(kinds)
    )
    return Oriented(last._replace(accesses=tuple(accesses)), seen, is_first)


def _turned(kinds: Sequence[Kind], promises: Promises) -> set[int]:
    """Positions of arrays whose first axis is the contiguous one."""
    return {
        array.position
        for number, array in enumerate(array_parameters(kinds))
        if array.kind is kinds[array.position]  # and no element of a tuple
        and array.kind.ndim > 1
        and (array.kind.layout == "F" or promises.array(number).unit_axis == 0)
    }


def _side_by_side(accesses: Sequence[Access], kinds: Sequence[Kind]) -> float:
    """Bytes for each index that neighbours along x access next to each other."""
    total = 0.0
    for access in accesses:
        kind = kinds[access.parameter]
        if access.pattern == "contiguous" and isinstance(kind, ArrayKind):
            total += access.count * kind.element.nbytes
    return total
