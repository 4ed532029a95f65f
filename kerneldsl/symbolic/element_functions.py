"""Functions of numbers, written from SymPy expressions, which kernels and Python can call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from kerneldsl.kernels.decorators import func
from kerneldsl.symbolic.dtypes import computing_dtype, dtype_name
from kerneldsl.symbolic.equations import name_of
from kerneldsl.symbolic.printing import Printer, needs_floats
from kerneldsl.symbolic.sources import NAMESPACE, FreshNames, value_lines
from kerneldsl.utilities.written_functions import written_function

__all__ = ["element_function", "function_for", "function_text"]


@lru_cache(256)
def element_function(expression: Any, dtype: Any) -> Any:
    """Return a function of an expression's symbols, in the order of their names.

    Parameters
    ----------
    expression : Expr
        A value.
    dtype : type or None
        What its numbers are converted to; ``None`` leaves them as they are.

    Returns
    -------
    DeviceFunction
        Plain Python can call it, too.

    Raises
    ------
    ArgumentValueError
        Where the language has no word for a part of it.

    Examples
    --------
    >>> import numpy as np
    >>> import sympy
    >>> x, y = sympy.symbols("x y")
    >>> float(element_function(x / y + 1, np.float32)(3.0, 2.0))
    2.5
    """
    symbols = sorted(expression.free_symbols, key=str)
    names = {each: name_of(each) for each in symbols}
    text = function_text("expression", names, [expression], casts=dtype is not None)
    return func(written_function("expression", text, {**NAMESPACE, "dtype": dtype}, __name__))


def function_for(expression: Any, values: Sequence[Any]) -> Any:
    """Return an expression's function for arrays and numbers, whose dtype its numbers take."""
    if any(dtype_name(each).startswith("complex") for each in values):
        return element_function(expression, None)
    dtype = computing_dtype(values, needs_floats=needs_floats(expression))
    return element_function(expression, dtype)


def function_text(
    name: str, parameters: Mapping[Any, str], values: Sequence[Any], *, casts: bool
) -> str:
    """Return the text of a function of symbols, which returns a value or a tuple of them."""
    names = dict(parameters)
    fresh = FreshNames(*names.values())
    lines, results = value_lines(list(values), names, fresh, Printer(names, casts=casts))
    body = "".join(f"    {each}\n" for each in (*lines, f"return {', '.join(results)}"))
    return f"def {fresh(name)}({', '.join(parameters.values())}):\n{body}"
