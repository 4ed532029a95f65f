"""Cumulative sums, products, maxima and minima, and scans by a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stdlib_kernels.checks import Array, Out, check_array
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.operations import add, identity_of, larger, multiply, smaller
from stdlib_kernels.parameters import accumulator_dtype, computing_dtype, dtype_of
from stdlib_kernels.reduce.folding import Rule, rule_of
from stdlib_kernels.scan.calls import scan_call

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "scan"]


def _total(name: str, said: str, op: Any, examples: tuple[str, str, str]) -> Any:
    """Return the scan that adds or multiplies."""

    def total(
        x: Array,
        axis: int | None = None,
        dtype: Any = None,
        out: Out = None,
        *,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Any:
        return _cumulated(x, axis, dtype, out, exclusive, reverse, op)

    total.__name__ = total.__qualname__ = name
    total.__doc__ = f"""{said} the elements up to and including each element.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int, optional
        The axis along which the function works; by default the array is flattened in C order.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.
    exclusive : bool
        Whether the result for an element does not include that element. The first result is then
        that of no elements.
    reverse : bool
        Whether to go from the last element to the first.
    dtype : dtype, optional
        Dtype of the computation and of the result. By default int64 for booleans and signed
        integers, uint64 for unsigned ones, and the dtype of the array for others.

    Returns
    -------
    array
        Same kind and shape as `x`, or shape ``(x.size,)`` without an axis. `out` if it is given.
        Integers wrap around as in NumPy. Floats are combined in another order than NumPy's, the
        same at every launch; float16 and bfloat16 as float32.

    See Also
    --------
    numpy.{name}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.scan import {name}
    >>> {name}(np.array([3, 1, 4, 1, 5], np.uint8)).tolist()
    {examples[0]}
    >>> {name}(np.array([[3, 1], [4, 1]]), axis=1, exclusive=True).tolist()
    {examples[1]}
    >>> {name}(np.array([3, 1, 4]), reverse=True).tolist()
    {examples[2]}
    """
    return repeated_function(total)


cumsum = _total("cumsum", "Add up", add, ("[3, 4, 8, 9, 14]", "[[0, 3], [0, 4]]", "[8, 5, 4]"))
_PRODUCTS = ("[3, 3, 12, 12, 60]", "[[1, 3], [1, 4]]", "[12, 4, 4]")
cumprod = _total("cumprod", "Multiply", multiply, _PRODUCTS)


def _extreme(name: str, kinds: tuple[str, str], op: Any, none: str, example: str) -> Any:
    """Return the scan for the largest or the smallest element."""

    def extreme(
        x: Array,
        axis: int | None = None,
        *,
        out: Out = None,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Any:
        return _cumulated(x, axis, None, out, exclusive, reverse, op)

    extreme.__name__ = extreme.__qualname__ = name
    extreme.__doc__ = f"""Find the {kinds[0]} of the elements up to and including each element.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int, optional
        The axis along which the function works; by default the array is flattened in C order.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.
    exclusive : bool
        Whether the result for an element does not include that element. The first result is then
        that of no elements.
    reverse : bool
        Whether to go from the last element to the first.

    Returns
    -------
    array
        Same kind and shape as `x`, or shape ``(x.size,)`` without an axis. `out` if it is given.
        From a NaN on, all results are NaN. Of no elements, it is the {kinds[1]} number of the
        dtype, or {none}.

    See Also
    --------
    numpy.ufunc.accumulate

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.scan import {name}
    >>> {name}(np.array([3, 1, 4, 1, 5])).tolist()
    {example}
    """
    return repeated_function(extreme)


cummax = _extreme("cummax", ("largest", "smallest"), larger, "-inf", "[3, 3, 4, 4, 5]")
cummin = _extreme("cummin", ("smallest", "largest"), smaller, "inf", "[3, 1, 1, 1, 1]")


@repeated_function
def scan(
    x: Array,
    op: Callable[[Any, Any], Any],
    identity: Any,
    axis: int | None = None,
    *,
    dtype: Any = None,
    out: Out = None,
    exclusive: bool = False,
    reverse: bool = False,
) -> Any:
    """Combine the elements up to and including each element by a function.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int, optional
        The axis along which the function works; by default the array is flattened in C order.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.
    exclusive : bool
        Whether the result for an element does not include that element. The first result is then
        that of no elements.
    reverse : bool
        Whether to go from the last element to the first.
    op : function
        A function of two values that kernels can call: a plain function, a lambda, or a function
        decorated with `kerneldsl.func`.
        It must be associative; the first value comes from earlier elements.
        A function is compiled once. A new function with the same text is compiled again.
    identity : number
        A value with which `op` does not change any other: 0 for a sum, 1 for a product, -inf for
        a maximum of floats. It may be combined with elements several
        times.
    dtype : dtype, optional
        Dtype of the computation and of the result; by default that of the array.

    Returns
    -------
    array
        Same kind and shape as `x`, or shape ``(x.size,)`` without an axis. `out` if it is given.
        float16 and bfloat16 are combined as float32. Results of `op` are converted to the dtype.

    Raises
    ------
    kerneldsl.errors.KernelError
        If `op` cannot be compiled.

    See Also
    --------
    numpy.ufunc.accumulate

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.scan import scan
    >>> scan(np.array([8, 2, 3]), lambda a, b: a | b, 0).tolist()
    [8, 10, 11]
    """
    check_array("x", x, halves=True)
    result = dtype_of(dtype, x.dtype)
    return scan_call(rule_of(op, identity, result), x, axis, result, out, exclusive, reverse)


#: Maximum and minimum by a branch, which a host predicts. An instruction would wait for the
#: previous one.
_EXTREMES = {
    larger: lambda a, b: a if a > b or a != a else b,  # noqa: PLR0124 - NaN alone differs
    smaller: lambda a, b: a if a < b or a != a else b,  # noqa: PLR0124
}


def _cumulated(
    x: Array, axis: int | None, dtype: Any, out: Out, exclusive: bool, reverse: bool, op: Any
) -> Any:
    """Scan by an operation of NumPy's."""
    is_extreme = op in _EXTREMES
    check_array("x", x, halves=True)
    usual = x.dtype if is_extreme else accumulator_dtype(x.dtype)
    result = dtype_of(dtype, usual, kinds="biufc" if is_extreme else "iufc")
    number = computing_dtype(result)
    combine = op if number.kind == "c" else _EXTREMES.get(op, op)
    rule = Rule(combine, identity_of(op, number), number.type)
    return scan_call(rule, x, axis, result, out, exclusive, reverse)
