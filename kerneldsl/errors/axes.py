"""The error of an axis that an array does not have, which is NumPy's, too.

The other errors are imported before NumPy is, and so are apart from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.errors.base import compose
from kerneldsl.errors.launches import ArgumentValueError

__all__ = ["AxisError"]


class AxisError(ArgumentValueError, np.exceptions.AxisError):
    """An array has no such axis.

    Parameters
    ----------
    axis : int
        The axis, as it was given.
    ndim : int
        How many the array has.
    """

    def __init__(self, what: str, *, axis: int, ndim: int, **fields: Any) -> None:
        super().__init__(what, **{"value": axis, **fields})
        # NumPy's class takes the message for itself, and leaves that of `args` as it was.
        self.args = (compose(what, self.where, self.limit, self.remedy, self.chain),)
        self.axis, self.ndim = axis, ndim

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> Any:
        rebuild, (kind, args, fields) = super().__reduce__()
        return rebuild, (kind, args, {**fields, "axis": self.axis, "ndim": self.ndim})
