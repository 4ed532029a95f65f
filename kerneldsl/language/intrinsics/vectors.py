"""Declare the vector types: two or four numbers that are read, computed with and stored as one.

References
----------
CUDA C++ Programming Guide, section "Built-in Vector Types"; PTX ISA, section "Vectors".
"""

from __future__ import annotations

from kerneldsl.language.element_types import vector_names
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Typing

__all__ = [
    "float32x2",
    "float32x4",
    "float64x2",
    "int8x2",
    "int8x4",
    "int16x2",
    "int16x4",
    "int32x2",
    "int32x4",
    "int64x2",
    "uint8x2",
    "uint8x4",
    "uint16x2",
    "uint16x4",
    "uint32x2",
    "uint32x4",
    "uint64x2",
]


def _vector(name: str) -> Intrinsic:
    dtype, _, count = name.partition("x")
    return Intrinsic(
        name,
        f"Make a vector of {'two' if count == '2' else 'four'} {dtype} numbers; also the dtype of "
        "arrays of such vectors.",
        Typing.VECTOR,
        tuple("xyzw"[: int(count)]),
    )


_VECTORS = {name: _vector(name) for name in vector_names()}

float32x2, float32x4 = _VECTORS["float32x2"], _VECTORS["float32x4"]
float64x2 = _VECTORS["float64x2"]
int8x2, int8x4 = _VECTORS["int8x2"], _VECTORS["int8x4"]
int16x2, int16x4 = _VECTORS["int16x2"], _VECTORS["int16x4"]
int32x2, int32x4 = _VECTORS["int32x2"], _VECTORS["int32x4"]
int64x2 = _VECTORS["int64x2"]
uint8x2, uint8x4 = _VECTORS["uint8x2"], _VECTORS["uint8x4"]
uint16x2, uint16x4 = _VECTORS["uint16x2"], _VECTORS["uint16x4"]
uint32x2, uint32x4 = _VECTORS["uint32x2"], _VECTORS["uint32x4"]
uint64x2 = _VECTORS["uint64x2"]
