"""Comparisons of tuples, element by element without a conversion.

Numba converts both elements to a common type before it compares them. Of a uint64 and a signed
integer that is an int64, in which 2**64 - 1 equals -1.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from numba import types

__all__ = ["COMPARISONS_OF_TUPLES"]


def _element_comparison(compare: Any, context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    """Compare two elements as an operator of the kernel does."""
    function = context.typing_context.resolve_value_type(compare)
    sig = context.typing_context.resolve_function_type(function, kinds, {})
    operands = [
        context.cast(builder, value, kind, to)
        for value, kind, to in zip(values, kinds, sig.args, strict=True)
    ]
    return context.get_function(function, sig)(builder, operands)


def _pairs(builder: Any, sig: Any, args: Any) -> list[tuple[Any, Any]]:
    """Return the types and values of the elements that both tuples have."""
    both = zip(*(kind.types for kind in sig.args), strict=False)
    return [
        (kinds, [builder.extract_value(arg, place) for arg in args])
        for place, kinds in enumerate(both)
    ]


def _is_equal(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    one, two = sig.args
    found = context.get_constant(types.boolean, len(one.types) == len(two.types))
    if len(one.types) == len(two.types):
        for kinds, values in _pairs(builder, sig, args):
            same = _element_comparison(operator.eq, context, builder, kinds, values)
            found = builder.and_(found, same)
    return found


def _is_unequal(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.not_(_is_equal(context, builder, sig, args))


def _is_before(compare: Any, context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Compare the first elements that differ; without such, the lengths."""
    one, two = sig.args
    found = context.get_constant(types.boolean, compare(len(one.types), len(two.types)))
    for kinds, values in reversed(_pairs(builder, sig, args)):
        differs = _element_comparison(operator.ne, context, builder, kinds, values)
        result = _element_comparison(compare, context, builder, kinds, values)
        found = builder.select(differs, result, found)
    return found


#: Lowerings of Python's operators for two tuples.
COMPARISONS_OF_TUPLES: dict[Any, Callable[..., Any]] = {
    operator.eq: _is_equal,
    operator.ne: _is_unequal,
    **{
        compare: partial(_is_before, compare)
        for compare in (operator.lt, operator.le, operator.gt, operator.ge)
    },
}
