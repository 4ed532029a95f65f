"""Exponential numbers of a counter, of mean 1: ``-ln u``.

*float32*: ``u = (word + 1) / 2**32`` in (0, 1], of a word each, so that the largest number is 22.2.
The logarithm is the polynomial of :mod:`~kerneldsl.random.rounded`, so that all targets give
the same bits, within 2 ulp of the exact ones. *float64*: ``u = 1 - unit_float64`` in (0, 1] and the
logarithm of the target's mathematical library.

References
----------
Luc Devroye, "Non-Uniform Random Variate Generation", Springer (1986), section II.2: inversion.
"""

from __future__ import annotations

import math
from typing import Any

from kerneldsl.kernels.decorators import func
from kerneldsl.random.philox import philox
from kerneldsl.random.rounded import negative_logarithm
from kerneldsl.random.uniform import unit_float64

__all__ = [
    "exponential2_float64",
    "exponential4_float32",
    "exponential_float32",
    "exponential_float64",
]


@func
def _of_word(word: Any) -> Any:
    return negative_logarithm(word)


@func
def _of_two(low: Any, high: Any) -> Any:
    return -math.log(1.0 - unit_float64(low, high))


@func
def exponential_float32(seed: Any, index: Any, subsequence: Any = 0) -> Any:
    """Return an exponential float32 of mean 1, of the first word.

    Parameters
    ----------
    seed, index, subsequence : int
        As of :func:`~kerneldsl.random.philox.philox`.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def waiting(seed, mean, out):
    ...     i = kd.grid(1)
    ...     out[i] = mean * kd.random.exponential_float32(seed, i)
    >>> out = np.empty(100_000, np.float32)
    >>> waiting.forall(out.size)(2024, np.float32(3), out)
    >>> round(float(out.mean()), 1)
    3.0
    """
    return _of_word(philox(seed, index, subsequence)[0])


@func
def exponential4_float32(seed: Any, index: Any, subsequence: Any = 0) -> Any:
    """Return four exponential float32, one of each word, for the work of one.

    The first is :func:`exponential_float32` of the same arguments.
    """
    words = philox(seed, index, subsequence)
    return _of_word(words[0]), _of_word(words[1]), _of_word(words[2]), _of_word(words[3])


@func
def exponential_float64(seed: Any, index: Any, subsequence: Any = 0) -> Any:
    """Return an exponential float64 of mean 1, of the first two words."""
    words = philox(seed, index, subsequence)
    return _of_two(words[0], words[1])


@func
def exponential2_float64(seed: Any, index: Any, subsequence: Any = 0) -> Any:
    """Return two exponential float64, of the first and of the last two words.

    The first is :func:`exponential_float64` of the same arguments.
    """
    words = philox(seed, index, subsequence)
    return _of_two(words[0], words[1]), _of_two(words[2], words[3])
