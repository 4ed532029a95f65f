"""Any function of numbers, for each element of arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from kerneldsl.errors import ArgumentValueError
from stdlib_kernels.arrays import Array
from stdlib_kernels.elementwise.calls import checked_operands, map_call, result_dtypes
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.parameters import dtype_of, function_of

__all__ = ["map"]


@repeated_function
def map(
    f: Callable[..., Any],
    *arrays: Any,
    dtype: Any = None,
    out: Array | tuple[Array | None, ...] | None = None,
) -> Any:
    """Call a function for each element of arrays that are broadcast against each other.

    All of it is one kernel, which reads each element once and writes each result once.

    {parameters}
    f : function, or SymPy expression
        Of as many numbers as there are `arrays`, a plain function, a lambda or one under
        `kerneldsl.func`, which kernels can call; it returns a number, or a tuple of them. A
        function is compiled once; a new one of the same text is compiled anew. Of an expression,
        the arrays are its symbols in the order of their names.
    *arrays : array or number
        NumPy's, device arrays, or those of another library, one at least; of any rank and layout.
        bool, integer, float or complex. float16 and bfloat16 come to `f` as float32.
    dtype : dtype, or tuple of dtype, optional
        Of the results; by default what `f` gives in a kernel, but integers and floats no wider than
        NumPy's dtype for the arrays.
    out : array, or tuple of array, optional
        Where the results go, of their shape and dtype and of the arrays' kind; it may be one of the
        arrays.
    {returns: array, or tuple of array}
        Of the shape to which the arrays are broadcast, and of their kind.
    {raises of: ArgumentError}
        Where there is no array among `arrays`, they do not fit each other, or an argument is of
        another kind.
    kerneldsl.errors.KernelError
        Where `f` cannot be compiled.
    {see: numpy.vectorize, numpy.frompyfunc}

    Examples
    --------
    >>> import math
    >>> import numpy as np
    >>> from stdlib_kernels.elementwise import map
    >>> map(lambda x, y: math.sqrt(x * x + y * y), np.array([3.0, 5.0]), np.array([[4.0], [12.0]]))
    array([[ 5.        ,  6.40312424],
           [12.36931688, 13.        ]])
    >>> map(lambda x: (x // 3, x % 3), np.array([7, 8]))
    (array([2, 2]), array([1, 2]))
    """
    function = _function(f, arrays)
    like = checked_operands([(f"arrays[{n}]", each) for n, each in enumerate(arrays)])
    if dtype is None:
        dtypes = result_dtypes(function, arrays)
    else:
        asked = dtype if isinstance(dtype, tuple) else (dtype,)
        dtypes = tuple(dtype_of(each, None) for each in asked)
    is_tuple = len(dtypes) > 1
    outs = out if isinstance(out, tuple) else (out,) * (1 if out is not None else len(dtypes))
    if len(outs) != len(dtypes):
        raise ArgumentValueError(
            f"there are {len(outs)} arrays in out, and {len(dtypes)} results",
            value=len(outs),
            limit="There is an array, or None, for each result",
        )
    found = map_call(function, arrays, dtypes, outs, like)
    return tuple(found) if is_tuple or isinstance(out, tuple) else found[0]


def _function(f: Any, arrays: Sequence[Any]) -> Any:
    """Return what is called, of an expression a function of its symbols."""
    sympy = sys.modules.get("sympy")
    if sympy is None or not isinstance(f, sympy.Basic):
        return function_of("f", f)
    names = sorted(str(each) for each in f.free_symbols)  # map is the function above
    if len(names) != len(arrays):
        raise ArgumentValueError(
            f"the expression has the symbols {', '.join(names) or 'of none'}, and there "
            f"are {len(arrays)} arrays",
            value=len(arrays),
            limit="There is an array for each symbol, in the order of their names",
        )
    from kerneldsl.symbolic.element_functions import function_for

    return function_for(f, arrays)
