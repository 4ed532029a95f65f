"""The error for an axis that an array does not have; it is also NumPy's error.

It is in a separate module because the other errors are imported before NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.errors.base import compose
from kerneldsl.errors.kernels import ArgumentValueError

__all__ = ["AxisError"]


class AxisError(ArgumentValueError, np.exceptions.AxisError):
    """The array has no such axis.

    Parameters
    ----------
    axis : int
        The axis.
    ndim : int
        Number of axes of the array.
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
