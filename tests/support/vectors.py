"""Vectors of two or four numbers for the slow references: NumPy's arrays of so many."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from kerneldsl.language.element_types import ELEMENT_TYPES, vector_names
from tests.support.arrays import poisoned

__all__ = ["VECTORS", "Vector", "VectorArray", "VectorMaker", "view"]


class Vector:
    """One vector; an operation of it and another, or a number, is that of each part."""

    #: An operation of a NumPy scalar and a vector is the vector's.
    __array_ufunc__ = None

    def __init__(self, parts: np.ndarray) -> None:
        self.parts = parts
        #: Which debug mode compares an index with.
        self.shape = (len(parts),)
        for name, part in zip("xyzw", parts, strict=False):
            setattr(self, name, part)

    def __getitem__(self, place: int) -> Any:
        return self.parts[place]

    def __len__(self) -> int:
        return len(self.parts)

    def _combined(self, operation: Any, *others: Any) -> Vector:
        kind = self.parts.dtype
        given = [other.parts if isinstance(other, Vector) else kind.type(other) for other in others]
        return Vector(np.asarray(operation(self.parts, *given)).astype(kind))


def _define(name: str, operation: Any) -> None:
    def forward(self: Vector, other: Any) -> Vector:
        return self._combined(operation, other)

    def backward(self: Vector, other: Any) -> Vector:
        return self._combined(lambda a, b: operation(b, a), other)

    setattr(Vector, f"__{name}__", forward)
    setattr(Vector, f"__r{name}__", backward)


_BINARY = "add sub mul truediv floordiv mod pow lshift rshift and or xor"
for _name in _BINARY.split(" "):
    _define(_name, getattr(operator, f"__{_name}__"))


def _define_unary(name: str, operation: Any) -> None:
    setattr(Vector, f"__{name}__", lambda self: self._combined(operation))


for _name in ("neg", "pos", "invert", "abs"):
    _define_unary(_name, getattr(operator, _name))


class VectorArray:
    """An array of vectors, over one of numbers whose last axis are the parts."""

    def __init__(self, base: np.ndarray) -> None:
        self.base = base
        self.shape = base.shape[:-1]
        self.size, self.ndim = int(np.prod(self.shape)), base.ndim - 1

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        found = self.base[index]
        return Vector(found.copy()) if found.ndim == 1 else VectorArray(found)

    def __setitem__(self, index: Any, vector: Vector) -> None:
        assert vector.parts.dtype == self.base.dtype
        self.base[index] = vector.parts


class VectorMaker:
    """Stands for ``kd.float32x4`` and its like: makes a vector, and is a dtype."""

    def __init__(self, name: str) -> None:
        fields = ELEMENT_TYPES[name].fields
        self.dtype, self.count = np.dtype(fields[0].dtype), len(fields)

    def __call__(self, *parts: Any) -> Vector:
        return Vector(np.array([np.asarray(part).astype(self.dtype) for part in parts]))

    def undefined(self, shape: Any) -> VectorArray:
        outer = shape if isinstance(shape, tuple) else (shape,)
        return VectorArray(poisoned((*outer, self.count), self.dtype))


def view(array: np.ndarray, maker: VectorMaker) -> VectorArray:
    """Return the vectors along the last axis, without what remains at its end."""
    whole = array.shape[-1] // maker.count
    parts = array[..., : whole * maker.count].reshape(*array.shape[:-1], whole, maker.count)
    assert np.shares_memory(parts, array) or not parts.size
    return VectorArray(parts)


#: By the names that a kernel knows them by.
VECTORS = {name: VectorMaker(name) for name in vector_names()}
