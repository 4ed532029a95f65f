"""Conversions between dtypes as kernels convert, for the slow references."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["UndefinedConversionError", "cast"]


class UndefinedConversionError(Exception):
    """A float was converted to an integer type that does not hold it, which each machine does
    in its own way."""


def cast(value: Any, dtype: Any) -> Any:
    """Convert a number, or each of an array, as C does: integers wrap, floats round to nearest.

    Raises
    ------
    UndefinedConversionError
        For a NaN, or a float that the integer type does not hold.
    """
    found = value if isinstance(value, np.generic) else np.asarray(value)[()]
    wanted = np.dtype(dtype)
    if found.dtype.kind == "f" and wanted.kind in "iu":
        limits = np.iinfo(wanted)
        for number in np.ravel(found):
            if not (np.isfinite(number) and limits.min <= int(number) <= limits.max):
                raise UndefinedConversionError(f"{number!r} to {wanted}")
    if "float8" in str(found.dtype):  # float64 holds each, and ml_dtypes converts not to all others
        found = found.astype(np.float64)
    return found.astype(wanted)
