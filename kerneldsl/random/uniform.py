"""Uniform numbers of a counter: the upper bits of its words, as a multiple of a power of two.

All are in [0, 1), which contains 0 and not 1. A number of p bits is one of the 2**p multiples of
2**-p, each equally likely. None is rounded, so every target gives the same bits. A float64 has 53
bits of two words; float32, float16 and bfloat16 have 24, 11 and 8 bits of one word.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from kerneldsl.kernels.decorators import func
from kerneldsl.random.philox import philox

with contextlib.suppress(ImportError):  # an optional package
    import ml_dtypes

__all__ = [
    "uniform2_float64",
    "uniform4_float32",
    "uniform_bfloat16",
    "uniform_float16",
    "uniform_float32",
    "uniform_float64",
    "unit_float32",
    "unit_float64",
]


@func
def unit_float32(word: Any) -> Any:
    """Return the upper 24 bits of a uint32 as a float32 in [0, 1).

    Examples
    --------
    >>> float(unit_float32(0x80000000)), float(unit_float32(0xFF))
    (0.5, 0.0)
    """
    return np.float32(np.uint32(word) >> np.uint32(8)) * np.float32(2.0**-24)


@func
def unit_float64(low: Any, high: Any) -> Any:
    """Return the upper 53 bits of two uint32, ``high`` above ``low``, as a float64 in [0, 1).

    Examples
    --------
    >>> float(unit_float64(0, 0x80000000)), float(unit_float64(0x7FF, 0))
    (0.5, 0.0)
    """
    bits = (np.uint64(high) << np.uint64(32)) | np.uint64(low)
    return np.float64(bits >> np.uint64(11)) * np.float64(2.0**-53)


@func
def uniform_float32(seed: Any, index: Any, subsequence: Any = 0) -> Any:
    """Return a uniform float32 in [0, 1): :func:`unit_float32` of the first word.

    Parameters
    ----------
    seed, index, subsequence : int
        As of :func:`~kerneldsl.random.philox.philox`.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def fill(seed, out):
    ...     i = kd.grid(1)
    ...     out[i] = kd.random.uniform_float32(seed, i)
    >>> out = np.empty(100_000, np.float32)
    >>> fill.forall(out.size)(2024, out)
    >>> bool(0 <= out.min() and out.max() < 1), round(float(out.mean()), 2)
    (True, 0.5)
    """
    return unit_float32(philox(seed, index, subsequence)[0])


@func
def uniform4_float32(seed: Any, index: Any, subsequence: Any = 0) -> Any:
    """Return four uniform float32 in [0, 1), one of each word, for the work of one.

    The first is :func:`uniform_float32` of the same arguments.
    """
    words = philox(seed, index, subsequence)
    return (
        unit_float32(words[0]),
        unit_float32(words[1]),
        unit_float32(words[2]),
        unit_float32(words[3]),
    )


@func
def uniform_float64(seed: Any, index: Any, subsequence: Any = 0) -> Any:
    """Return a uniform float64 in [0, 1): :func:`unit_float64` of the first two words."""
    words = philox(seed, index, subsequence)
    return unit_float64(words[0], words[1])


@func
def uniform2_float64(seed: Any, index: Any, subsequence: Any = 0) -> Any:
    """Return two uniform float64 in [0, 1), of the first and of the last two words.

    The first is :func:`uniform_float64` of the same arguments.
    """
    words = philox(seed, index, subsequence)
    return unit_float64(words[0], words[1]), unit_float64(words[2], words[3])


@func
def uniform_float16(seed: Any, index: Any, subsequence: Any = 0) -> Any:
    """Return a uniform float16 in [0, 1): the upper 11 bits of the first word.

    A float16 of :func:`uniform_float32` would be rounded, and sometimes to 1.
    """
    upper = philox(seed, index, subsequence)[0] >> np.uint32(21)
    return np.float16(np.float32(upper) * np.float32(2.0**-11))


@func
def uniform_bfloat16(seed: Any, index: Any, subsequence: Any = 0) -> Any:
    """Return a uniform bfloat16 in [0, 1): the upper 8 bits of the first word.

    As every use of ``kd.bfloat16`` it needs the package ml_dtypes.
    """
    upper = philox(seed, index, subsequence)[0] >> np.uint32(24)
    return ml_dtypes.bfloat16(np.float32(upper) * np.float32(2.0**-8))
