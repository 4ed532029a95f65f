"""``kd.from_expression``: a kernel that computes SymPy expressions over arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from kerneldsl.errors import ArgumentTypeError
from kerneldsl.errors.values import safe_repr
from kerneldsl.kernels.decorators import kernel
from kerneldsl.symbolic.dtypes import computing_dtype
from kerneldsl.symbolic.element_kernels import ElementKernel
from kerneldsl.utilities.formatting import format_count
from kerneldsl.utilities.modules import import_sympy
from kerneldsl.utilities.tracebacks import shorten_errors
from kerneldsl.utilities.written_functions import written_function

if TYPE_CHECKING:
    from kerneldsl.symbolic.systems import System

__all__ = ["ExpressionKernel", "check_sympy", "from_expression"]


def check_sympy() -> None:
    """Refuse to continue without SymPy.

    - raises `ToolMissingError` if SymPy is not installed.
    """
    import_sympy("Kernels of expressions and derivatives are made with SymPy")


@shorten_errors
def from_expression(
    expressions: Any,
    *,
    name: str = "expression",
    parameters: Sequence[Any] | None = None,
    ndim: int = 1,
    boundary: str | Sequence[str] | None = None,
    cval: float = 0.0,
    steps: Mapping[Any, Any] | None = None,
    **options: Any,
) -> ExpressionKernel:
    """Make a kernel that computes SymPy expressions for each element of arrays.

    Common subexpressions are computed once. Subexpressions without arrays are computed before the
    elements, and sums over fixed ranges are unrolled. Symbols are real numbers.

    Parameters
    ----------
    expressions : Expr, Eq, sequence of these, or mapping from str to Expr
        The results. Read arrays as ``u[i, j + 1]``, with ``u = sympy.IndexedBase("u")``; other
        symbols are numbers. Without any index, every symbol is an array or a number of each call.
        Functions ``u(x + h, y)``, as ``.as_finite_difference()`` returns them, are arrays as well.
        The left side of an equation names the array of a result and the order of the axes:
        ``sympy.Eq(v[i, j], …)``. Without one, results are ``out``, or ``out0``, ``out1``, …
    name : str, optional
        Name of the kernel.
    parameters : sequence of str or Symbol, optional
        Order of the inputs; by default arrays by name, then numbers by name.
    ndim : int, optional
        Rank of the arrays in launches, for expressions without an index. Calls take any rank.
    boundary : str or sequence of str, optional
        Values beyond the ends, for all axes or for each, by SciPy's names:

        - ``"reflect"``: ``d c b a | a b c d | d c b a``;
        - ``"mirror"``: ``d c b | a b c d | c b a``;
        - ``"nearest"``: ``a a a a | a b c d | d d d d``;
        - ``"wrap"``: ``a b c d | a b c d | a b c d``;
        - ``"constant"``: `cval`.
    cval : float, optional
        The value beyond the ends for "constant".
    steps : mapping, optional
        Distance of neighbours along a coordinate of functions. By default 1, or the symbol that is
        added to the coordinate.
    **options
        Options of :func:`kerneldsl.kernel`: `fastmath`, `block` and others.

    Returns
    -------
    ExpressionKernel
        A kernel, ``made.forall(*shape)(*inputs, *outputs)``, and a function: ``made(*inputs)``
        returns the results. ``made.source`` is its text.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If an expression cannot be computed. Examples are an unknown function, a symbol that is not
        a parameter, and a shift without a boundary mode. An index must be one of the left side,
        plus a shift.
    ToolMissingError
        If SymPy is not installed.

    References
    ----------
    SciPy documentation, ``scipy.ndimage``, section "Interpolation boundary handling".

    Examples
    --------
    >>> import numpy as np
    >>> import sympy
    >>> import kerneldsl as kd
    >>> x, h, rate = sympy.symbols("x h rate")
    >>> u, u_next = sympy.Function("u"), sympy.Function("u_next")
    >>> second = sympy.Derivative(u(x), x, 2).as_finite_difference([x - h, x, x + h])
    >>> heat = kd.from_expression(sympy.Eq(u_next(x), u(x) + rate * second), boundary="wrap")
    >>> heat(np.array([0.0, 4.0, 0.0, 0.0]), h=1.0, rate=0.25)
    array([1., 2., 1., 0.])
    """
    check_sympy()
    from kerneldsl.symbolic.shifts import read_name
    from kerneldsl.symbolic.systems import read_system

    name = read_name(name)
    system = read_system(
        expressions,
        ndim=ndim,
        parameters=parameters,
        boundary=boundary,
        cval=cval,
        steps=steps,
    )
    return ExpressionKernel(system, name, options)


class ExpressionKernel(ElementKernel):
    """A kernel of SymPy expressions. Made by :func:`kerneldsl.from_expression`.

    It is launched like every kernel. Calling it as a function returns the results for NumPy or
    device arrays.

    Attributes
    ----------
    system : System
        The expressions.

    Examples
    --------
    >>> import numpy as np
    >>> import sympy
    >>> import kerneldsl as kd
    >>> x = sympy.Symbol("x")
    >>> square = kd.from_expression(x**2)
    >>> square(np.array([1.0, 3.0]))
    array([1., 9.])
    """

    def __init__(self, system: System, name: str, options: Mapping[str, Any]) -> None:
        from kerneldsl.symbolic.printing import needs_floats
        from kerneldsl.symbolic.sources import NAMESPACE, kernel_text
        from kerneldsl.symbolic.systems import System

        if type(system) is not System:
            raise ArgumentTypeError(
                f"a kernel of expressions cannot be made of {safe_repr(system)}",
                value=system,
                limit="Its system is what from_expression has read",
                remedy="Call kd.from_expression with the expressions",
            )
        text = kernel_text(system, name)
        function = written_function(name, text, NAMESPACE, __name__)
        function.__doc__ = system.text()
        outputs = [each.name for each in system.outputs if each.name not in system.inputs]
        is_float = any(needs_floats(each.value) for each in system.outputs)
        if options.get("space") is not None:
            raise ArgumentTypeError(
                f"the kernel {name} was given a space",
                value=options["space"],
                limit="The one compile-time parameter of an expression's kernel is dtype, which its"
                " arguments show",
                remedy="Omit space: forall chooses the block; or write block=…",
            )
        make: Any = kernel
        made = make(**{"wraparound": False, **options})(function)
        super().__init__(function, made.options, outputs, is_float)
        self.system = system
        self._name = name
        self._given_options = dict(options)
        self._forms: dict[Any, ExpressionKernel] = {}
        self._ranks = system.ranks

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        """Compute the results for arrays, which are broadcast against each other.

        Parameters
        ----------
        *args, **named : array or number
            The inputs, by position or name: NumPy arrays, device arrays, arrays of other libraries,
            and numbers, of any real dtype.
        out : array or tuple of array, optional
            Arrays for the results, with the broadcast shape.

        Returns
        -------
        array, or tuple of array
            The results, with NumPy's dtype for the arrays; float64 for non-integer results of
            integers.

        Raises
        ------
        ArgumentTypeError, ArgumentValueError
            If arguments do not fit the expression, or arrays each other.
        """
        from kerneldsl.symbolic.expression_calls import called

        return called(self, args, named, out)

    def _find_dtype(self, given: Mapping[str, Any]) -> Any:
        from kerneldsl.symbolic.integers import check_constants

        for name, value in given.items():
            rank = self._ranks.get(name)
            if rank is not None and getattr(value, "ndim", 0) != rank:
                self._refuse_rank(name, value, rank)
        found = super()._find_dtype(given)
        integers = computing_dtype(self._read_of(given), needs_floats=False)
        check_constants(self.system, self.__qualname__, integers, given)
        return found

    def _refuse_rank(self, name: str, value: Any, rank: int) -> NoReturn:
        """Refuse an argument of a launch with more or fewer axes than the kernel indexes."""
        if self.system.is_elementwise:
            remedy = (
                f"Call {self.__qualname__}(…) itself, which takes numbers and arrays of any shapes;"
                " or make a kernel for such arrays: kd.from_expression(…, ndim=…)"
            )
        else:
            remedy = "Reshape it" if rank else "Pass a number"
        raise ArgumentTypeError(
            f"parameter {name!r} of {self.__qualname__} was given "
            + _of_rank(getattr(value, "ndim", 0)),
            value=value,
            limit=f"It is {_of_rank(rank)} in this kernel",
            remedy=remedy,
        )

    def of_form(self, system: System) -> ExpressionKernel:
        """Return the kernel of the same expressions for arrays of other shapes."""
        if system is self.system:
            return self
        accesses, numbers = tuple(system.accesses.items()), tuple(system.numbers.values())
        key = (len(system.axes), accesses, numbers, system.outputs)
        found = self._forms.get(key)
        if found is None:
            found = ExpressionKernel(system, self._name, self._given_options)
            self._forms[key] = found
        return found

    def with_values(self, values: Sequence[Any], name: str) -> ExpressionKernel:
        """Return a kernel of the same parameters that computes other values of the results."""
        return ExpressionKernel(self.system.with_values(values), name, self._given_options)

    def __reduce__(self) -> Any:
        return ExpressionKernel, (self.system, self._name, self._given_options)


def _of_rank(rank: int) -> str:
    return f"an array of {format_count(rank, 'axis', 'axes')}" if rank else "a number"
