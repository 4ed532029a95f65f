"""A generated program: text, launch, and what its arguments are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.arrays import poisoned

__all__ = ["DATA_SETS", "Array", "Overlap", "Program", "Scalar"]

#: Each program is compiled once and launched with so many sets of arguments.
DATA_SETS = 2


@dataclass(frozen=True)
class Array:
    """An array parameter.

    Parameters
    ----------
    name, dtype : str
        Its name and dtype.
    shapes : tuple of tuple of int
        Its shape in each set of arguments.
    role : str
        ``"input"``, ``"output"`` (poisoned) or ``"counter"`` (small integers, updated by atomics).
    """

    name: str
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    role: str = "input"

    def make(self, rng: np.random.Generator, data_set: int) -> np.ndarray:
        """Return the array: whole-range or small integers, floats with NaN, infinities and -0."""
        shape = self.shapes[data_set]
        if self.role == "output":
            return poisoned(shape, self.dtype)
        if self.dtype.startswith("float"):
            values = rng.standard_normal(shape) * 10.0 ** rng.integers(-2, 4)
            if rng.integers(2):
                special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 3.0, 1e30])
                values = np.where(rng.random(shape) < 0.2, rng.choice(special, shape), values)
            return np.asarray(values).astype(self.dtype)
        limits = np.iinfo(self.dtype)
        low, high = (limits.min, limits.max) if rng.integers(3) == 0 else (-4, 12)
        if self.role == "counter":
            low, high = 0, 9
        return rng.integers(max(low, limits.min), high, shape, self.dtype, endpoint=True)


@dataclass(frozen=True)
class Overlap:
    """An array parameter that is an earlier one, or a part of it.

    Parameters
    ----------
    name, dtype : str
        Its name and dtype.
    of : str
        The earlier one.
    cuts : tuple of tuple of slice
        The part in each set of arguments, of no slice if it is all of it.
    is_transposed, is_apart : bool
        Whether the axes are exchanged, and whether it is a copy in the last set of arguments.
    """

    name: str
    dtype: str
    of: str
    cuts: tuple[tuple[slice, ...], ...]
    is_transposed: bool = False
    is_apart: bool = False

    def make(self, base: np.ndarray, data_set: int) -> np.ndarray:
        """Return the part."""
        found = base[self.cuts[data_set]] if self.cuts[data_set] else base
        if self.is_transposed:
            found = found.T
        return found.copy() if self.is_apart and data_set == DATA_SETS - 1 else found


@dataclass(frozen=True)
class Scalar:
    """A scalar parameter and its value in each set of arguments.

    A dtype of ``"int64"`` is passed as a Python int, ``"float64"`` as a float, any other as a
    NumPy scalar.
    """

    name: str
    dtype: str
    values: tuple[Any, ...]

    def make(self, data_set: int) -> Any:
        """Return the argument."""
        value = self.values[data_set]
        return value if self.dtype in ("int64", "float64") else getattr(np, self.dtype)(value)


@dataclass(frozen=True)
class Program:
    """A generated program.

    Parameters
    ----------
    seed : int
        What it was generated from.
    text : str
        Source of the constants, the device functions and ``kernel``.
    parameters : tuple of Array, Overlap or Scalar
        Of ``kernel``.
    grid, block : tuple of int or None
        An explicit launch; without them, `extents` are launched by ``forall``.
    extents : tuple of tuple of int or None
        In each set of arguments: the indices that the kernel works on, x last. With `grid`, the
        results are the same for every grid and block that cover them.
    shared_bytes : int
        Dynamic shared memory of a block.
    is_divergent : bool
        Whether a barrier stands under a condition that varies between the threads of a block: the
        program must be refused.
    features : frozenset of str
        What it was made of.
    """

    seed: int
    text: str
    parameters: tuple[Array | Overlap | Scalar, ...]
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    extents: tuple[tuple[int, ...], ...] | None = None
    shared_bytes: int = 0
    is_divergent: bool = False
    features: frozenset[str] = frozenset()

    def arguments(self, data_set: int) -> list[Any]:
        """Return fresh arguments."""
        rng = np.random.default_rng((self.seed, data_set))
        found: dict[str, Any] = {}
        for each in self.parameters:
            if isinstance(each, Array):
                found[each.name] = each.make(rng, data_set)
            elif isinstance(each, Overlap):
                found[each.name] = each.make(found[each.of], data_set)
            else:
                found[each.name] = each.make(data_set)
        return list(found.values())
