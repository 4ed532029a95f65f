"""Read what ``kd.from_expression`` is given as equations over indices, with sums written out."""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Mapping
from typing import Any

import sympy
from sympy.core.function import AppliedUndef

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import safe_repr
from kerneldsl.language.reserved import RESERVED_PREFIX
from kerneldsl.symbolic.printing import NAMES_IN_TEXT
from kerneldsl.symbolic.shifts import coordinates_of, indexed_functions

__all__ = ["axes_of", "name_of", "read_equations", "result_name", "with_indices"]

#: Terms of a sum that is written out.
_MAX_TERMS = 256


def with_indices(
    equations: list[tuple[Any, Any]], steps: Mapping[Any, Any]
) -> list[tuple[Any, Any]]:
    """Return equations with ``u[x + 1]`` for ``u(x + h)``, and with sums written out."""
    both = [each for pair in equations for each in pair if each is not None]
    coordinates = coordinates_of(both, steps)
    found = []
    for left, right in equations:
        if left is not None:
            _refuse_derivatives(left)
            left = indexed_functions(left, coordinates, steps)
            if not isinstance(left, sympy.Symbol | sympy.Indexed):
                raise ArgumentValueError(
                    f"the left side of an equation is {left}",
                    value=str(left),
                    limit="It must be the array for a result: a symbol, or an Indexed",
                    remedy="Solve the equation for it: sympy.solve(…)",
                )
        found.append((left, _written_out(indexed_functions(right, coordinates, steps))))
    return found


def _refuse_derivatives(left: Any) -> None:
    """Refuse an equation for a derivative, and say how its scheme is written."""
    for each in left.atoms(sympy.Derivative):
        by = {symbol for symbol, _ in each.variable_count}
        of = each.expr
        remedy = "Write an equation for the array of the results: sympy.Eq(o(x), …)"
        if isinstance(of, AppliedUndef):
            t = each.variables[0]
            rest = ", ".join(str(a) for a in of.args if not a.free_symbols & by) or str(t)
            name = of.func.__name__
            remedy = (
                f"Write the step of a scheme: sympy.Eq({name}_next({rest}), {name}({rest}) + "
                f"d{t} * …), of arrays for the values before and after it"
            )
        raise ArgumentValueError(
            f"the left side of an equation is {left}",
            value=str(left),
            limit="It must be the array for a result: a symbol, an Indexed or a function",
            remedy=remedy,
        )


def read_equations(expressions: Any) -> Iterator[tuple[Any, Any]]:
    """Yield left sides, ``None`` if there is none, and right ones."""
    if isinstance(expressions, Mapping):
        given: list[Any] = list(expressions.items())
    elif isinstance(expressions, list | tuple):
        given = list(expressions)
    else:
        given = [expressions]
    if not given:
        raise ArgumentValueError(
            "there is no expression", value=expressions, remedy="Give one at least"
        )
    for each in given:
        pair = each if isinstance(each, tuple) else (None, each)
        if isinstance(each, sympy.Eq):
            pair = (each.lhs, each.rhs)
        elif len(pair) != 2:
            _refuse_expression(each)
        left, right = pair
        if isinstance(right, int | float) and not isinstance(right, bool):
            right = sympy.sympify(right)
        if not isinstance(right, sympy.Expr | sympy.logic.boolalg.Boolean):
            _refuse_expression(right)
        if left is None and right in (sympy.true, sympy.false):
            raise ArgumentValueError(
                f"the expression is the constant {right}",
                value=bool(right),
                limit="SymPy evaluates Eq(o[i], u[i] > v[i]) at once: an array and a comparison "
                "are different",
                remedy='Name the result of a comparison in a dictionary: {"o": u[i] > v[i]}',
            )
        if isinstance(left, str):
            left = sympy.Symbol(left)
        yield left, right


def _refuse_expression(value: Any) -> None:
    raise ArgumentTypeError(
        f"an expression is {safe_repr(value)}, of type {type(value).__name__}",
        value=value,
        limit="Expressions are SymPy's: an expression, an equation, a list of these, or a "
        "dictionary from names to expressions",
        remedy="Make one with sympy.sympify(…); give the elements of a matrix as a list",
    )


def _written_out(expression: Any) -> Any:
    """Return an expression with its sums and products over fixed ranges written out."""
    for each in expression.atoms(sympy.Sum, sympy.Product):
        terms = 1
        for _, *limits in each.limits:
            ends = [sympy.sympify(end) for end in limits]
            if len(ends) != 2 or not all(end.is_Integer for end in ends):
                raise ArgumentValueError(
                    f"the range of {each} is not fixed",
                    value=str(each),
                    limit="A sum is written out, so both ends of its range are integers",
                    remedy="Replace the symbols in them by .subs(…)",
                )
            terms *= max(0, int(ends[1] - ends[0]) + 1)
        if terms > _MAX_TERMS:
            raise ArgumentValueError(
                f"{each} has {terms} terms",
                value=terms,
                limit=f"Sums of up to {_MAX_TERMS} terms are written out",
                remedy="Compute it by a kernel with a loop, or by stdlib_kernels.reduce",
            )
    return expression.doit() if expression.has(sympy.Sum, sympy.Product) else expression


def result_name(left: Any, number: int, count: int) -> str:
    if left is None:
        return "out" if count == 1 else f"out{number}"
    return name_of(left.base.label if isinstance(left, sympy.Indexed) else left)


def name_of(symbol: Any) -> str:
    """Return a symbol's name, or a name, as one that a parameter of a kernel can have.

    - raises `ArgumentValueError` if it cannot be one.
    """
    name = str(symbol)
    if not name.isidentifier():
        raise ArgumentValueError(
            f"the symbol {name!r} cannot be a parameter of a kernel",
            value=name,
            limit="Its name must be an identifier of Python",
            remedy="Replace it by a symbol of another name, with .subs(…)",
        )
    if keyword.iskeyword(name) or name in NAMES_IN_TEXT:
        name = f"{name}_"
    return f"_{name}" if name.startswith(RESERVED_PREFIX) else name


def axes_of(lefts: list[Any], indexed: list[Any]) -> tuple[Any, ...]:
    """Return the indices of an element, in order: those of the left sides, if these have some."""
    given = [each for each in lefts if isinstance(each, sympy.Indexed)]
    for each in given:
        axes = tuple(_label(index) for index in each.indices)
        if not all(a.is_Symbol for a in axes) or len(set(axes)) < len(axes):
            raise ArgumentValueError(
                f"the left side of an equation is {each}",
                value=str(each),
                limit="A result is stored at the indices themselves, u[i, j] for instance",
                remedy="Shift the right side instead",
            )
        if axes != tuple(map(_label, given[0].indices)):
            raise ArgumentValueError(
                f"results are stored at {given[0]} and {each}",
                value=str(each),
                limit="All results of a kernel are stored at the same indices",
                remedy="Make a kernel for each",
            )
    if given:
        return tuple(map(_label, given[0].indices))
    orders = {tuple(s for i in each.indices for s in _index_symbols(i)) for each in indexed}
    longest = max(orders, key=lambda order: (len(order), str(order)))
    for order in sorted(orders, key=str):
        if not _is_in_order(order, longest):
            raise ArgumentValueError(
                f"arrays are read by the indices {longest} and by {order}",
                value=(longest, order),
                limit="Without a left side the order of the axes is that of the indices",
                remedy="Write an equation: sympy.Eq(out[i, j], …)",
            )
    return longest


def _is_in_order(part: tuple[Any, ...], whole: tuple[Any, ...]) -> bool:
    rest = iter(whole)
    return all(each in rest for each in part)


def _label(index: Any) -> Any:
    return index.label if isinstance(index, sympy.Idx) else index


def _index_symbols(index: Any) -> list[Any]:
    found = {_label(each) for each in index.atoms(sympy.Idx, sympy.Symbol)}
    bounds = {
        s
        for each in index.atoms(sympy.Idx)
        for r in (each.lower, each.upper)
        if r is not None
        for s in r.free_symbols
    }
    return sorted(found - bounds, key=str)
