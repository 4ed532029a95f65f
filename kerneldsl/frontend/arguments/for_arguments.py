"""Rewrite a kernel for the kinds of its arguments.

Most kernels stay as they are. A launch of cached code imports only the rewrites that it needs.
"""

from __future__ import annotations

from collections.abc import Sequence

from kerneldsl.frontend.arguments.quick_tests import may_have_rows
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import ArrayKind, Kind, TupleKind

__all__ = ["rewrite_for"]


def rewrite_for(unit: FunctionUnit, kinds: Sequence[Kind]) -> FunctionUnit:
    """Return a kernel with members by number and rows as loops.

    Parameters
    ----------
    unit : FunctionUnit
        The kernel.
    kinds : sequence of Kind
        Kinds of its arguments.

    Returns
    -------
    FunctionUnit
        The unit itself where nothing changes; the same one for the same kinds.

    Raises
    ------
    UnsupportedConstructError
        As :func:`~kerneldsl.frontend.arguments.rows.expand.expand_rows`.
    """
    has_tuples = any(isinstance(kind, TupleKind) for kind in kinds)
    if has_tuples:
        from kerneldsl.frontend.arguments.members import number_members

        unit = number_members(unit, kinds)
    ranks = (kind.ndim for kind in kinds if isinstance(kind, ArrayKind))
    if may_have_rows(unit, max(ranks, default=0), has_tuples=has_tuples):
        from kerneldsl.frontend.arguments.rows.expand import expand_rows

        unit = expand_rows(unit, kinds)
    return unit
