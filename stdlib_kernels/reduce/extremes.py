"""The largest and the smallest elements, and whether any or all are nonzero."""

from __future__ import annotations

from typing import Any

import numpy as np

from stdlib_kernels.arrays import finish
from stdlib_kernels.checks import Array, Out, check_array, check_out
from stdlib_kernels.elementwise.calls import Number
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.operations import add, identity_of, larger, smaller
from stdlib_kernels.parameters import computing_dtype, wrong_value
from stdlib_kernels.reduce.folding import Axis, Rule, begin, check_not_empty, fold, fold_call
from stdlib_kernels.reduce.lanes import are_lanes_faster, launch_extremes
from stdlib_kernels.reduce.masking import is_masked, masked

__all__ = ["all", "any", "count_nonzero", "max", "min"]


def _extreme(name: str, kind: str, op: Any, example: str) -> Any:
    """Return the reduction to the largest or the smallest element."""

    def extreme(
        x: Array,
        axis: Axis = None,
        out: Out = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Array | Number = True,
    ) -> Any:
        check_array("x", x, halves=True)
        if initial is None:
            check_not_empty(name, x, axis)
            if is_masked(where):
                limit = "It is the result if where selects no element"
                raise wrong_value("initial", initial, limit, "Pass initial together with where")
        number = computing_dtype(x.dtype)
        identity = identity_of(op, number)
        if initial is not None:
            rule = Rule(op, identity, number.type).beginning_with(initial)
            return fold_call(rule, masked(x, where, identity), axis, x.dtype, out, keepdims)
        call = begin(x, axis, x.dtype, out, keepdims)
        if not call.result.size:
            return call.deliver()
        if are_lanes_faster(call.arrangement, call.result):
            launch_extremes(call.arrangement, call.result, number, op)
        else:
            fold(Rule(op, identity, number.type), call.arrangement, call.result)
        return call.deliver()

    extreme.__name__ = extreme.__qualname__ = name
    extreme.__doc__ = f"""Find the {kind} element of an array, of all or along axes.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int or tuple of int, optional
        The axes to reduce; by default all.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.
    keepdims : bool
        Whether the result keeps the reduced axes, with an extent of 1.
    initial : number, optional
        A value that is combined with the result at the end.
    where : bool array, optional
        Selects elements; by default all. Same kind as `x`, and broadcast against `x`.

    Returns
    -------
    NumPy scalar or array, or device array
        Same kind as `x`; `out` if it is given.
        NaN is {op.__name__} than every number. Between 0 and -0 either is returned. Complex
        numbers are compared by their real parts, then by their imaginary parts.

    Raises
    ------
    kerneldsl.errors.ArgumentValueError
        If the reduced axes have no elements.

    See Also
    --------
    numpy.{name}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import {name}
    >>> {name}(np.array([[3, 1, 4], [1, 5, 9]]), axis=1).tolist()
    {example}
    """
    return repeated_function(extreme)


max = _extreme("max", "largest", larger, "[4, 9]")
min = _extreme("min", "smallest", smaller, "[1, 1]")


def _is_not_zero(v: Any, w: Any, parameter: Any) -> Any:
    return v != 0


def _truth_of(name: str, some: str, op: Any, of_none: bool) -> Any:
    """Return the reduction to booleans; an `out` may hold them as numbers, as in NumPy."""

    def truth(
        x: Array,
        axis: Axis = None,
        out: Out = None,
        keepdims: bool = False,
        *,
        where: Array | Number = True,
    ) -> Any:
        check_array("x", x, halves=True)
        taken = masked(x, where, int(of_none))
        if out is not None:
            check_array("out", out, halves=True)
        if out is None or out.dtype == np.bool_:
            return _truth(op, np.bool_, taken, axis, out, keepdims)
        found: Any = _truth(op, np.bool_, taken, axis, None, keepdims)
        flags = np.asarray(found) if isinstance(found, np.generic) else found
        check_out(out, like=taken, shape=tuple(flags.shape), dtype=out.dtype)
        return finish(flags, like=taken, out=out)

    truth.__name__ = truth.__qualname__ = name
    truth.__doc__ = f"""Return whether {some} nonzero, of all or along axes.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int or tuple of int, optional
        The axes to reduce; by default all.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.
    keepdims : bool
        Whether the result keeps the reduced axes, with an extent of 1.
    where : bool array, optional
        Selects elements; by default all. Same kind as `x`, and broadcast against `x`.

    Returns
    -------
    NumPy scalar or array, or device array
        Same kind as `x`; `out` if it is given.
        A bool; for no elements, {of_none}. An `out` of another dtype receives 0 and 1.

    See Also
    --------
    numpy.{name}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import {name}
    >>> {name}(np.array([[{int(of_none)}, 0], [3, 2]]), axis=1).tolist()
    [False, True]
    """
    return repeated_function(truth)


any = _truth_of("any", "any element is", larger, of_none=False)
all = _truth_of("all", "all elements are", smaller, of_none=True)


@repeated_function
def count_nonzero(x: Array, axis: Axis = None, *, out: Out = None, keepdims: bool = False) -> Any:
    """Count the nonzero elements, of all or along axes.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int or tuple of int, optional
        The axes to reduce; by default all.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.
    keepdims : bool
        Whether the result keeps the reduced axes, with an extent of 1.

    Returns
    -------
    NumPy scalar or array, or device array
        Same kind as `x`; `out` if it is given.
        An int64.

    See Also
    --------
    numpy.count_nonzero

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import count_nonzero
    >>> count_nonzero(np.array([[1, 0], [3, 2]]), axis=1).tolist()
    [1, 2]
    """
    return _truth(add, np.int64, x, axis, out, keepdims)


def _truth(op: Any, dtype: Any, x: Array, axis: Axis, out: Out, keepdims: bool) -> Any:
    check_array("x", x, halves=True)
    result, number = np.dtype(dtype), computing_dtype(x.dtype).type
    rule = Rule(op, identity_of(op, result), number, lift=_is_not_zero)
    return fold_call(rule, x, axis, result, out, keepdims)
