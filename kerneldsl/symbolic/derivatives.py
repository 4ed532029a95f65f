"""``kd.derivative``: the derivative of a kernel of element form, or of a function of numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import sympy
from sympy.codegen import cfunctions

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, UnsupportedConstructError
from kerneldsl.errors.values import a_type, safe_repr
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.kernels.decorators import func
from kerneldsl.kernels.kernel import DeviceFunction, Kernel
from kerneldsl.symbolic.element_kernels import ElementKernel
from kerneldsl.symbolic.expressions import ExpressionKernel, check_sympy
from kerneldsl.symbolic.frontend.readings import Reading, Store
from kerneldsl.symbolic.frontend.values import negated
from kerneldsl.symbolic.printing import Printer, needs_floats
from kerneldsl.symbolic.sources import FreshNames, value_lines
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
        A kernel of `kerneldsl.from_expression`, or another kernel that computes each element
        independently. It may contain arithmetic, functions of math, branches and loops over fixed
        ranges. Or a function for kernels that returns a number or a tuple of numbers.
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
            limit="It must be the name of a parameter, or several of them",
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
            f"{a_type(function)} cannot be differentiated",
            value=function,
            limit="It must be a kernel, or a function that kernels can call",
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
            limit="An element of the result may depend on one element of the array only",
            remedy="Differentiate by a number, or pass the neighbours as separate arrays",
        )
    values = [differentiated(each.value, symbols[0]) for each in system.outputs]
    return kernel.with_values(values, f"{kernel.__qualname__}_by_{wrt}")


def _of_kernel(kernel: Any, unit: FunctionUnit, wrt: str, name: str) -> ElementKernel:
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


# Derivatives of expressions of real numbers are in forms that can be computed.
def derived_text(reading: Reading, values: list[Any], name: str) -> tuple[str, bool]:
    """Return the text of a kernel, and whether what it computes of integers may be no integer.

    - `reading`: a kernel.
    - `values`: expressions that are stored in place of the values.
    - `name`: name of the kernel.
    - raises `UnsupportedConstructError` where a value has no word in the language, or an array is
      read after it was written.
    """
    lines = _Text(reading).lines(values, name)
    return "\n".join(lines) + "\n", any(map(needs_floats, values))


class _Text:
    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._fresh = FreshNames(*reading.unit.parameters)
        self._names = {**reading.numbers, **reading.places}
        for symbol, letter in zip(reading.indices, "ijk", strict=False):
            self._names[symbol] = self._fresh(letter)
        whole = Printer(self._names, casts=False)
        for symbol, (array, index) in reading.loads.items():
            # An index may hold elements that were read before.
            text = f"{array}[{', '.join(map(whole.text, index))}]"
            self._names[symbol] = whole._names[symbol] = text  # type: ignore[index]
        self._whole = whole

    def lines(self, values: list[Any], name: str) -> Iterator[str]:
        reading = self._reading
        yield f"def {self._fresh(name)}({', '.join(reading.unit.parameters)}, *, dtype):"
        if reading.indices:
            indices = ", ".join(self._names[each] for each in reading.indices)
            yield f"    {indices} = kd.grid({len(reading.indices)})"
        pairs = list(zip(reading.stores, values, strict=True))
        self._check_order(reading.stores)
        open_path: tuple[Any, ...] = ()
        for path, group in groupby(pairs, key=lambda pair: pair[0].path):
            same = 0
            while same < min(len(path), len(open_path)) and path[same] == open_path[same]:
                same += 1
            for depth in range(same, len(path)):
                is_else = (
                    depth == same
                    and len(open_path) > same
                    and path[depth] == negated(open_path[same])
                )
                margin = "    " * (depth + 1)
                yield f"{margin}else:" if is_else else f"{margin}if {self._condition(path[depth])}:"
            open_path = path
            yield from ("    " * (len(path) + 1) + each for each in self._group(list(group)))

    def _condition(self, condition: Any) -> str:
        places = [*self._reading.places, *self._reading.numbers]
        return Printer(self._names, places).condition(condition)

    def _group(self, pairs: list[tuple[Store, Any]]) -> Iterator[str]:
        """Yield what is computed and stored under one condition."""
        names = dict(self._names)
        last = {(store.array, store.place): n for n, (store, _) in enumerate(pairs)}
        kept = [pairs[n] for n in sorted(last.values())]
        values = [value for _, value in kept]
        used = Counter(
            each for value in values for each in sympy.preorder_traversal(value) if each.is_Symbol
        )
        for symbol, (array, _) in self._reading.loads.items():
            if used[symbol] > 1:
                variable = self._fresh(f"{array}_0")
                yield f"{variable} = {names[symbol]}"
                names[symbol] = variable
        printer = Printer(names, [*self._reading.places, *self._reading.numbers])
        try:
            for value in values:  # refused as it is read, before parts have names
                self._whole.text(value)
            lines, results = value_lines(values, names, self._fresh, printer)
        except ArgumentValueError as error:
            raise UnsupportedConstructError(
                f"the derivative of what is stored here cannot be computed: {error.what}",
                where=self._reading.unit.locate(kept[0][0].node),
                value=error.value,
                limit=error.limit,
                remedy="Write the derivative by hand",
            ) from error
        yield from lines
        read = {array for array, _ in self._reading.loads.values()}
        if len(results) > 1 and any(store.array in read for store, _ in kept):
            for n, text in enumerate(results):
                results[n] = self._fresh(f"r{n}")
                yield f"{results[n]} = {text}"
        for (store, _), text in zip(kept, results, strict=True):
            index = ", ".join(map(self._whole.text, store.place))
            yield f"{store.array}[{index}] = {text}"

    def _check_order(self, stores: list[Store]) -> None:
        """Refuse a value of elements that are written under another condition before."""
        for n, store in enumerate(stores):
            symbols = store.value.free_symbols
            read = {self._reading.loads[s][0] for s in symbols if s in self._reading.loads}
            for earlier in stores[:n]:
                apart = any(negated(c) in store.path for c in earlier.path)
                if earlier.array in read and earlier.path != store.path and not apart:
                    raise UnsupportedConstructError(
                        f"{earlier.array} is read after it may have been written",
                        where=self._reading.unit.locate(store.node),
                        limit="A derivative is of values that are read before they are written",
                        remedy="Store the result in another array",
                    )


# -- derivatives of real expressions --------------------------------------------------------------


#: Terms of sinc's series, which has the precision of a float64 if it is used.
_SINC_TERMS = 9


def differentiated(value: Any, symbol: Any) -> Any:
    """Return the derivative of an expression by a symbol, almost everywhere.

    - `value`: an expression of real numbers. The derivative of a condition is 0.
    - `symbol`: ``None`` is in no expression.

    Examples
    --------
    >>> x, a = sympy.symbols("x a", positive=True)
    >>> differentiated(x**a, x), differentiated(abs(a - x), x)
    (a*x**(a - 1), -sign(a - x))
    """
    if not isinstance(value, sympy.Expr) or symbol not in value.free_symbols:
        return sympy.S.Zero
    if value == symbol:
        return sympy.S.One
    parts = [differentiated(each, symbol) for each in value.args]
    if value.is_Add:
        return sympy.Add(*parts)
    if value.is_Mul:
        args = value.args
        return sympy.Add(
            *(sympy.Mul(*args[:n], part, *args[n + 1 :]) for n, part in enumerate(parts) if part)
        )
    if isinstance(value, sympy.Piecewise):
        pieces = ((differentiated(each, symbol), test) for each, test in value.args)
        return sympy.Piecewise(*pieces)
    if type(value) not in _RULES and not hasattr(value, "fdiff"):
        return value.diff(symbol)
    return sympy.Add(*(_partial(value, n) * part for n, part in enumerate(parts) if part))


def _partial(value: Any, n: int) -> Any:
    """Return the derivative of a function, or a power, by one of its arguments."""
    rule = _RULES.get(type(value))
    return value.fdiff(n + 1) if rule is None else rule(*value.args)[n]


def _of_power(base: Any, exponent: Any) -> tuple[Any, Any]:
    by_base = exponent * base ** (exponent - 1)
    by_exponent = base**exponent * sympy.log(base)
    # x**0 is 1 at 0 too, and 0**a is 0 for every a > 0; the products are 0 times infinity there.
    if not base.is_zero and not base.is_nonzero:
        is_zero = sympy.Eq(base, 0)
        constant = sympy.And(is_zero, sympy.Eq(exponent, 0))
        by_base = sympy.Piecewise((0, constant), (by_base, True))
        by_exponent = sympy.Piecewise((0, sympy.And(is_zero, exponent > 0)), (by_exponent, True))
    return by_base, by_exponent


def _of_sinc(x: Any) -> tuple[Any]:
    # The difference of the two quotients has no digits left near 0.
    t = sympy.Dummy(real=True)
    terms = range(1, _SINC_TERMS + 1)
    series = sum((-1) ** k * 2 * k * t ** (2 * k - 1) / sympy.factorial(2 * k + 1) for k in terms)
    series = sympy.horner(series, t).xreplace({t: x})
    quotients = (sympy.cos(x) - sympy.sin(x) / x) / x
    return (sympy.Piecewise((series, sympy.Abs(x) < 1), (quotients, True)),)


#: Derivatives by each argument, where SymPy's are of complex numbers, of distributions, or NaN.
_RULES: Final[Mapping[Any, Callable[..., tuple[Any, ...]]]] = MappingProxyType(
    {
        sympy.Pow: _of_power,
        sympy.Abs: lambda x: (sympy.sign(x),),
        sympy.sign: lambda _: (sympy.S.Zero,),
        sympy.Heaviside: lambda *_: (sympy.S.Zero, sympy.S.Zero),
        sympy.sinc: _of_sinc,
        cfunctions.Cbrt: lambda x: (1 / (3 * cfunctions.Cbrt(x) ** 2),),
    }
)
