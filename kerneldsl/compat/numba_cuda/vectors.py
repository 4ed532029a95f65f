"""Vectors that arrays have no elements of: device functions that make named tuples.

Vectors of two and four numbers of up to 16 bytes are kerneldsl's own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kerneldsl.kernels.made_functions import made_functions
from kerneldsl.language.other_names import VALUE_ALIASES, VALUE_VECTORS


class X1(NamedTuple):
    """A vector of one number."""

    x: Any


class X3(NamedTuple):
    """A vector of three numbers."""

    x: Any
    y: Any
    z: Any


class X4(NamedTuple):
    """A vector of four numbers."""

    x: Any
    y: Any
    z: Any
    w: Any


def _text(dtype: str, count: int) -> str:
    axes = "xyzw"[:count]
    members = ", ".join(f"np.{dtype}({axis})" for axis in axes)
    head = f"def {dtype}x{count}({', '.join(axes)}):"
    return f'{head}\n    """Make a vector of {dtype} numbers."""\n    return X{count}({members})\n'


_TEXT = "\n".join(_text(*each) for each in VALUE_VECTORS.values())
_MADE = made_functions(
    _TEXT, __name__, list(VALUE_VECTORS), {"np": np, "X1": X1, "X3": X3, "X4": X4}
)
globals().update(_MADE)
globals().update({name: _MADE[own] for name, own in VALUE_ALIASES.items()})
