"""``kd.derivative``: the derivative of a kernel of element form, or of a function of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, UnsupportedConstructError
from kerneldsl.errors.values import a_type, safe_repr
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.kernels.decorators import func
from kerneldsl.kernels.kernel import DeviceFunction, Kernel
from kerneldsl.symbolic.element_kernels import ElementKernel
from kerneldsl.symbolic.expressions import ExpressionKernel, check_sympy
from kerneldsl.utilities.tracebacks import shorten_errors
from kerneldsl.utilities.written_functions import written_function

if TYPE_CHECKING:
    from sympy import Symbol

    from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["derivative"]


@shorten_errors
def derivative(function: Any, wrt: str | Symbol | Sequence[str | Symbol]) -> Any:
    """Differentiate an element-wise kernel, or a function of numbers, by one of its parameters.

    Each stored value is replaced by its derivative. For ``out[i] = a * x[i] ** 2`` this is ``2 * a
    * x[i]`` by "x", and ``x[i] ** 2`` by "a". Called functions are differentiated as well. SymPy
    computes the derivatives, and common subexpressions are computed once.

    Parameters
    ----------
    function : Kernel, DeviceFunction or function
        A kernel of `kerneldsl.from_expression`; a kernel that computes each element independently,
        with arithmetic, functions of math, branches and loops over fixed ranges; or a function for
        kernels that returns a number or a tuple of numbers.
    wrt : str or Symbol, or sequence of these
        The parameter: a number, or an array that is read at one element. With several, derivatives
        are taken one after the other: ``("x", "x")`` gives the second derivative.

    Returns
    -------
    Kernel or DeviceFunction
        It has the same parameters, and its text is `source`. Numbers in a kernel have the dtype of
        the arrays.

    Raises
    ------
    UnsupportedConstructError
        If an operation of the function has no derivative; the message has its line.
    ArgumentTypeError, ArgumentValueError
        If `function` or `wrt` is not one of these.
    ToolMissingError
        If SymPy is not installed.

    Notes
    -----
    Arrays are assumed not to overlap. At a jump of `abs`, `max` or a branch, the derivative is that
    of one side, or the mean of both.

    Examples
    --------
    >>> import math
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def wave(x, a, out):
    ...     i = kd.grid(1)
    ...     if i < out.size:
    ...         out[i] = math.sin(a * x[i])
    >>> slope = kd.derivative(wave, "x")
    >>> print(slope.source)
    def wave_by_x(x, a, out, *, dtype):
        i = kd.grid(1)
        if i < out.size:
            out[i] = dtype(a) * math.cos(dtype(a) * x[i])
    <BLANKLINE>
    >>> out = np.empty(3)
    >>> slope.forall(3)(np.zeros(3), 2.0, out)
    >>> out
    array([2., 2., 2.])
    """
    check_sympy()
    import sympy

    given = wrt if isinstance(wrt, list | tuple) else (wrt,)
    names = tuple(each.name if isinstance(each, sympy.Symbol) else each for each in given)
    if not names or not all(isinstance(each, str) for each in names):
        raise ArgumentTypeError(
            f"wrt is {safe_repr(wrt)}",
            value=wrt,
            limit="It is the name of a parameter, or several of them",
            remedy='Write kd.derivative(kernel, "x")',
        )
    found = function
    for name in names:
        found = _derivative(found, name)
    return found


def _derivative(function: Any, wrt: str) -> Any:
    if isinstance(function, ExpressionKernel):
        return _of_expressions(function, wrt)
    is_kernel = isinstance(function, Kernel)
    plain = function.function if isinstance(function, Kernel | DeviceFunction) else function
    if not isinstance(plain, FunctionType):
        raise ArgumentTypeError(
            f"{a_type(function)} was to be differentiated",
            value=function,
            limit="It is a kernel, or a function that kernels can call",
        )
    constants = getattr(function, "_constant_values", None)
    if isinstance(function, ElementKernel):
        constants = {"dtype": float}
    unit = make_unit(plain, is_device=not is_kernel, constants=constants)
    _check_parameter(wrt, unit.parameters, plain.__qualname__)
    name = f"{plain.__name__ if plain.__name__.isidentifier() else 'function'}_by_{wrt}"
    if is_kernel:
        return _of_kernel(function, unit, wrt, name)
    return _of_function(unit, wrt, name)


def _check_parameter(wrt: str, parameters: Sequence[str], name: str) -> None:
    if wrt not in parameters:
        raise ArgumentValueError(
            f"{name} has no parameter {wrt!r}",
            value=wrt,
            limit=f"What it can be differentiated by is {', '.join(parameters)}",
        )


def _of_expressions(kernel: ExpressionKernel, wrt: str) -> ExpressionKernel:
    """Differentiate the expressions themselves."""
    from kerneldsl.symbolic.derived_sources import differentiated

    system = kernel.system
    _check_parameter(wrt, system.inputs, kernel.__qualname__)
    symbols = [s for s, name in system.numbers.items() if name == wrt]
    symbols += [s for s, access in system.accesses.items() if access.array == wrt]
    if len(symbols) > 1:
        indices = tuple(map(str, system.axes))
        elements = ", ".join(each.text(indices) for each in system.reads(wrt))
        raise ArgumentValueError(
            f"{wrt} is read at {elements}",
            value=wrt,
            limit="The derivative of an element is by one element of an array",
            remedy="Differentiate by a number, or pass the neighbours as separate arrays",
        )
    values = [differentiated(each.value, symbols[0]) for each in system.outputs]
    return kernel.with_values(values, f"{kernel.__qualname__}_by_{wrt}")


def _of_kernel(kernel: Any, unit: FunctionUnit, wrt: str, name: str) -> ElementKernel:
    from kerneldsl.symbolic.derived_sources import derived_text, differentiated
    from kerneldsl.symbolic.frontend.reading import read_unit
    from kerneldsl.symbolic.sources import NAMESPACE

    reading = read_unit(unit, wrt)
    if not reading.stores:
        raise UnsupportedConstructError(
            f"{unit.qualname} stores nothing",
            where=unit.locate(unit.tree),
            limit="A derivative is of what a kernel stores in the elements of arrays",
        )
    symbols = [s for s, (array, _) in reading.loads.items() if array == wrt]
    symbols += [s for s, number in reading.numbers.items() if number == wrt]
    symbol = symbols[0] if symbols else None
    values = [differentiated(each.value, symbol) for each in reading.stores]
    text, needs_floats = derived_text(reading, values, name)
    function = written_function(name, text, NAMESPACE, __name__)
    read = {array for array, _ in reading.loads.values()}
    outputs = {each.array for each in reading.stores} - read
    options = kernel.options._replace(signatures=())
    return ElementKernel(function, options, sorted(outputs), needs_floats)


def _of_function(unit: FunctionUnit, wrt: str, name: str) -> Any:
    import sympy

    from kerneldsl.symbolic.derived_sources import differentiated
    from kerneldsl.symbolic.element_kernels import function_text
    from kerneldsl.symbolic.frontend.reading import one_of, read_unit
    from kerneldsl.symbolic.sources import NAMESPACE

    reading = read_unit(unit, wrt)
    if not reading.results or reading.loads or reading.stores:
        raise UnsupportedConstructError(
            f"{unit.qualname} is not a function of numbers",
            where=unit.locate(unit.tree),
            limit="A function that is differentiated takes numbers, and returns a number or a "
            "tuple of numbers",
        )
    found = one_of(reading.results)
    values = found if isinstance(found, tuple) else (found,)
    by = {number: symbol for symbol, number in reading.numbers.items()}
    symbols = [by.get(each, sympy.Dummy(each, real=True)) for each in unit.parameters]
    names = dict(zip(symbols, unit.parameters, strict=True))
    symbol = symbols[unit.parameters.index(wrt)]
    results = [differentiated(each, symbol) for each in values]
    text = function_text(name, names, results, casts=False)
    return func(written_function(name, text, NAMESPACE, __name__))
