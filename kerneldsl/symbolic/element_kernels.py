"""Kernels with numbers of the dtype of their arrays, which each launch shows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from kerneldsl.errors import ArgumentError
from kerneldsl.kernels.constants import ParameterizedKernel
from kerneldsl.kernels.decorators import func
from kerneldsl.kernels.kernel import KernelOptions
from kerneldsl.launch.arguments.arguments import bind
from kerneldsl.launch.arguments.binding import kinds_of
from kerneldsl.launch.request import named_kinds
from kerneldsl.symbolic.dtypes import computing_dtype, dtype_name, has_dtype, read_dtype
from kerneldsl.symbolic.equations import name_of
from kerneldsl.symbolic.printing import Printer, needs_floats
from kerneldsl.symbolic.sources import NAMESPACE, FreshNames, value_lines
from kerneldsl.utilities.written_functions import written_function

__all__ = ["ElementKernel", "element_function", "function_for", "function_text"]

#: Combinations of arguments' kinds that are remembered.
_MAX_KINDS = 256


class ElementKernel(ParameterizedKernel):
    """A kernel of element form with the compile-time parameter ``dtype``.

    It is the dtype in which numbers of the text take part. What a launch does not say of it is
    found in the launch's arguments: that of the arrays, so that float32 stays float32.

    Parameters
    ----------
    function : function
        With parameters for arrays and numbers, and the keyword-only ``dtype``.
    options : KernelOptions
        Of the kernel.
    outputs : collection of str
        Parameters that are written and not read, which say nothing of the dtype.
    needs_floats : bool
        Whether what is computed from integers may be no integer.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        options: KernelOptions,
        outputs: Iterable[str],
        needs_floats: bool,
    ) -> None:
        super().__init__(function, options)
        code = function.__code__
        self._parameters = code.co_varnames[: code.co_argcount]
        self._outputs = frozenset(outputs)
        self._needs_floats = needs_floats
        #: Results for arguments of some kinds, which launches pass repeatedly.
        self._taken: dict[Hashable, tuple[Hashable, dict[str, Any]]] = {}

    def _take(
        self, named: dict[str, Any], args: tuple[Any, ...] = ()
    ) -> tuple[Hashable, dict[str, Any]]:
        if "dtype" in named:
            return super()._take({"dtype": read_dtype(named.pop("dtype"))})
        given = self._given(args, named)
        kinds = tuple([(name, *_kind_of(value)) for name, value in given.items()])
        found = self._taken.get(kinds)
        if found is None:
            shows_all = all(map(has_dtype, given.values()))
            found = super()._take({"dtype": self._find_dtype(given if shows_all else _read(given))})
            if shows_all:
                if len(self._taken) >= _MAX_KINDS:
                    self._taken.clear()
                self._taken[kinds] = found
        return found

    def _given(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a launch by their names, or what a signature says in their place.

        Where nothing is given, that is the signature that the kernel declares.
        """
        names = self._parameters
        kinds = named_kinds(args, len(names))
        if kinds is None and not args and self.options.signatures:
            kinds = self.options.signatures[0]
        found = dict(zip(names, args if kinds is None else kinds, strict=False))
        return found | {name: named[name] for name in names if name in named}

    def _find_dtype(self, given: Mapping[str, Any]) -> Any:
        """Return the dtype for arguments, or kinds, by their names."""
        return computing_dtype(self._read_of(given), needs_floats=self._needs_floats)

    def _read_of(self, given: Mapping[str, Any]) -> list[Any]:
        return [value for name, value in given.items() if name not in self._outputs]

    def _for(self, args: tuple[Any, ...]) -> Any:
        """Return the kernel with the dtype for arguments or a signature."""
        return self._kernel_of(*self._take({}, args))

    def artifact(self, *args: Any, **options: Any) -> Any:
        """Return the compiled code itself, with its forms, entry name and timings."""
        return self._for(args).artifact(*args, **options)

    def specialization(self, *args: Any, **options: Any) -> Any:
        """Return what :meth:`artifact` would compile, and what would do it."""
        return self._for(args).specialization(*args, **options)

    def launched(self, *args: Any, **options: Any) -> Any:
        """Return what a launch over an extent may compile, planned as the launch would be."""
        return self._for(args).launched(*args, **options)

    def __reduce__(self) -> Any:
        from kerneldsl.kernels.pickling import reduce_function

        return reduce_function(
            self, self.function, self.options, tuple(self._outputs), self._needs_floats
        )


def _kind_of(value: Any) -> tuple[Any, ...]:
    """Return what is the same of all values for which the same dtype is found, if they show one."""
    return value.__class__, getattr(value, "dtype", None), getattr(value, "ndim", 0)


def _read(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the kinds of arguments as a launch reads them; nothing if it will refuse them."""
    try:
        kinds = kinds_of(bind(tuple(given), tuple(given.values())).codes)
    except ArgumentError:
        return {}
    return dict(zip(given, kinds, strict=True))


# Functions of numbers, written from SymPy expressions, which kernels and Python can call.


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
    """Return an expression's function for values; its numbers have the dtype of these."""
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
