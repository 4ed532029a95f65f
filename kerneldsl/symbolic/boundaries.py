"""Indices beyond the ends of an axis, as device functions, for extents of any size.

The names and what they mean are SciPy's. Kernels call these where an axis may be shorter than a
stencil is wide; else a comparison is enough, which :mod:`kerneldsl.symbolic.sources` writes.

References
----------
SciPy documentation, ``scipy.ndimage``, section "Interpolation boundary handling".
"""

from __future__ import annotations

from typing import Any

from kerneldsl.kernels.decorators import func

__all__ = ["MODES", "mirror", "reflect", "wrap"]

#: What may be said of an axis.
MODES = ("reflect", "mirror", "nearest", "wrap", "constant")


@func
def wrap(i: Any, n: Any) -> Any:
    """Return the index in an axis of `n` elements that goes on with its first one.

    Examples
    --------
    >>> [wrap(i, 3) for i in range(-3, 5)]
    [0, 1, 2, 0, 1, 2, 0, 1]
    """
    return i % n


@func
def reflect(i: Any, n: Any) -> Any:
    """Return the index in an axis that is mirrored at the edges of its last elements.

    Examples
    --------
    >>> [reflect(i, 3) for i in range(-3, 5)]
    [2, 1, 0, 0, 1, 2, 2, 1]
    """
    k = i % (2 * n)
    return k if k < n else 2 * n - 1 - k


@func
def mirror(i: Any, n: Any) -> Any:
    """Return the index in an axis that is mirrored at the centres of its last elements.

    Examples
    --------
    >>> [mirror(i, 3) for i in range(-3, 5)], mirror(-1, 1)
    ([1, 2, 1, 0, 1, 2, 1, 0], 0)
    """
    k = i % max(2 * n - 2, 1)
    return k if k < n else 2 * n - 2 - k
