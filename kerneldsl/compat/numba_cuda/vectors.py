"""Vectors that arrays have no elements of: device functions that make named tuples.

Vectors of two and four numbers of up to 16 bytes are kerneldsl's own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kerneldsl.kernels.made_functions import made_functions

__all__ = ["ALIASES", "NAMES"]


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


_CLASSES = {1: X1, 3: X3, 4: X4}
#: Words of CUDA C++ for element types.
_WORDS = {
    **{"char": "int8", "short": "int16", "int": "int32", "long": "int64", "longlong": "int64"},
    **{"uchar": "uint8", "ushort": "uint16", "uint": "uint32", "ulong": "uint64"},
    **{"ulonglong": "uint64", "float": "float32", "double": "float64"},
}
_VECTORS = [
    (dtype, count)
    for dtype in dict.fromkeys(_WORDS.values())
    for count in _CLASSES
    if count < 4 or dtype.endswith("64")
]
NAMES = [f"{dtype}x{count}" for dtype, count in _VECTORS]
#: Names as CUDA C++ has them, to those.
ALIASES = {
    f"{word}{count}": f"{dtype}x{count}"
    for word, dtype in _WORDS.items()
    for count in _CLASSES
    if f"{dtype}x{count}" in NAMES
}


def _text(dtype: str, count: int) -> str:
    axes = "xyzw"[:count]
    members = ", ".join(f"np.{dtype}({axis})" for axis in axes)
    head = f"def {dtype}x{count}({', '.join(axes)}):"
    return f'{head}\n    """Make a vector of {dtype} numbers."""\n    return X{count}({members})\n'


_TEXT = "\n".join(_text(*each) for each in _VECTORS)
_MADE = made_functions(_TEXT, __name__, NAMES, {"np": np, "X1": X1, "X3": X3, "X4": X4})
globals().update(_MADE)
globals().update({name: _MADE[own] for name, own in ALIASES.items()})
