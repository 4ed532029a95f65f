"""Errors for axes, and how to pass an array of a dtype that is not taken without a loss."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from kerneldsl.errors.base import compose
from kerneldsl.errors.kernels import ArgumentValueError

__all__ = ["AxisError", "conversion", "odd_dtype"]


def conversion(name: str, dtype: np.dtype[Any], wanted: Sequence[str]) -> str:
    """Return the remedy for an array of another dtype.

    Parameters
    ----------
    name : str
        How the message calls the array.
    dtype : numpy.dtype
        What it has.
    wanted : sequence of str
        Names of the dtypes that are taken.

    Examples
    --------
    >>> conversion("x", np.dtype("int16"), ["float32", "float64"])
    'Convert it, with x.astype(np.float32) for instance'
    """
    if dtype.names:
        return f"Pass one of its fields, such as {name}[{dtype.names[0]!r}]"
    if not dtype.isnative:
        native = dtype.newbyteorder("=")
        if native.name in wanted:
            return f"Convert it, with {name}.astype(np.{native.name})"
        return conversion(f"{name}.astype({native.str!r})", native, wanted)
    if dtype.kind in "Mm" and "int64" in wanted:
        return f"Pass {name}.view(np.int64), and convert the result by .view({dtype.str!r})"
    if dtype.kind in "SUT":
        return f"Pass numbers of equal order, np.unique({name}, return_inverse=True)[1]"
    of_numpy = [np.dtype(each) for each in wanted if hasattr(np, each)]
    if dtype.kind != "c":  # a complex number is wider, and holds no more
        of_numpy = [each for each in of_numpy if each.kind != "c"] or of_numpy
    by_size = sorted(of_numpy, key=lambda each: (each.itemsize, "buifc".index(each.kind)))
    widest = f"np.{by_size[-1]}" if by_size else f"kd.{wanted[-1]}"
    if dtype.kind == "c" and not any(each.kind == "c" for each in by_size):
        return f"Pass its parts, {name}.real and {name}.imag, or abs({name})"
    holding = next((each.name for each in by_size if np.can_cast(dtype, each)), None)
    if holding is not None:
        return f"Convert it, with {name}.astype(np.{holding}) for instance"
    if dtype == np.uint64 and "int64" in wanted:
        return f"Convert it, with {name}.astype(np.int64), which holds values below 2**63"
    if dtype.kind in "biufc" or dtype.name == "bfloat16":
        is_rounded = not by_size or by_size[-1].kind not in "biu"
        kept = "which rounds" if is_rounded else f"if {by_size[-1]} holds all its values"
        return f"Pass {name}.astype({widest}), {kept}"
    return f"Convert it to numbers, with {name}.astype({widest}) for instance"


def odd_dtype(dtype: np.dtype[Any], known: Sequence[str]) -> tuple[str, str, str]:
    """Return how to show a dtype that neither kernels nor device arrays have, why, and the remedy.

    `known` are the names of the dtypes of numbers that they have.
    """
    shown, kind = str(dtype), dtype.kind
    limit = f"Kernels take the dtypes {', '.join(known)}, and records of them"
    remedy = conversion("array", dtype, known)
    if not dtype.isnative:
        limit = f"Kernels take numbers of {sys.byteorder}-endian byte order here"
        native = (
            "array.dtype.newbyteorder('=')" if dtype.names else repr(dtype.newbyteorder("=").name)
        )
        remedy = f"Convert it with array.astype({native})"
    elif kind in "Mm":
        limit = "Dates and durations have one unit, from years to attoseconds"
        remedy = f"Convert it with array.astype('{kind}8[s]'), or another unit"
    elif dtype.names is not None:
        limit = "Fields of records are numbers, bools, records, or arrays of those, at places that "
        limit += "do not overlap"
        fields = ", ".join(f"array[{n!r}]" for n in dtype.names[:4])
        remedy = f"Pass each field as an array of its own: {fields}"
    return shown if dtype.isnative else f"{shown} of foreign byte order", limit, remedy


# This class is in a separate module because the other errors are imported before NumPy.
class AxisError(ArgumentValueError, np.exceptions.AxisError):
    """The array has no such axis.

    Parameters
    ----------
    axis : int
        The axis.
    ndim : int
        Number of axes of the array.
    """

    __module__ = "kerneldsl"  # its public name

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
