"""The transpose of a matrix, through tiles in shared memory."""

from __future__ import annotations

from typing import Any

from stdlib_kernels.arrays import Array, check_array
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.movement.permuting import permuted

__all__ = ["transpose"]


@repeated_function
def transpose(a: Array, *, out: Array | None = None) -> Any:
    """Transpose a matrix into new memory.

    {parameters}
    a : ndarray or device array of shape (m, n)
        Of any layout; bool, integer, float or complex.
    out : array of shape (n, m), optional
        Where the result goes, of `a`'s dtype and kind; it must not overlap `a`.
    {returns: array of shape (n, m)}
        Of `a`'s dtype and kind, C-contiguous; `out`, where it is given.
    {raises of: ArgumentError}
        Where `a` is no matrix, or `out` does not fit.
    {see: numpy.transpose : gives a view instead.}
    {examples}
    >>> transpose(np.array([[1, 2, 3], [4, 5, 6]])).tolist()
    [[1, 4], [2, 5], [3, 6]]
    """
    check_array("a", a, halves=True, ndim=2)
    return permuted(a, (1, 0), out)
