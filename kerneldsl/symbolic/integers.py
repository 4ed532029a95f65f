"""The integers of an expression, against the range of the integers of its arrays.

Integer arrays are computed in int64, or uint64, and a result is stored in the arrays' dtype. What
does not fit there would be stored modulo its range; NumPy refuses it, but in comparisons, which
have an answer for every integer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import sympy
from sympy.core.relational import Relational

from kerneldsl.errors import ArgumentValueError
from kerneldsl.symbolic.dtypes import dtype_name
from kerneldsl.symbolic.printing import needs_floats
from kerneldsl.symbolic.systems import System

__all__ = ["check_constants", "check_numbers", "with_decided_comparisons"]


class _Leaf(NamedTuple):
    """An integer or symbol of a value.

    `is_stored` is false in comparisons. `is_term` is true if its sign may be that of the sum or
    product it is in, since ``x - 1`` and ``x + (-1)`` are the same for SymPy.
    """

    value: Any
    is_stored: bool
    is_term: bool


@lru_cache(256)
def _leaves(value: Any) -> tuple[_Leaf, ...]:
    """Return the integers and symbols of a value of integers, in a fixed order."""
    found = set()
    waiting = [_Leaf(value, not needs_floats(value), False)]
    while waiting:
        each, is_stored, is_term = waiting.pop()
        if each.is_Symbol or each.is_Integer:
            found.add(_Leaf(each, is_stored, is_term))
            continue
        is_stored = is_stored and not each.is_Relational
        args = each.args[:1] if each.is_Pow and each.exp.is_Integer else each.args
        waiting += [_Leaf(a, is_stored, each.is_Add or each.is_Mul) for a in args]
    return tuple(sorted(found, key=str))


@lru_cache(256)
def _decide_comparisons(value: Any, dtype: np.dtype[Any]) -> Any:
    """Replace comparisons with integers beyond a dtype by constants."""
    found = {}
    for each in value.atoms(Relational):
        if needs_floats(each):
            continue
        is_beyond = [side.is_Integer and not _fits(side, dtype) for side in each.args]
        if any(is_beyond):
            # Every integer of the dtype compares with it as 0 does.
            sides = (s if b else sympy.S.Zero for s, b in zip(each.args, is_beyond, strict=True))
            found[each] = each.func(*sides)
    return value.xreplace(found) if found else value


def with_decided_comparisons(system: System, dtype: Any) -> System:
    """Return a system in which comparisons with integers beyond a dtype are constants.

    `dtype` is that in which integers of the arrays are computed; a float if there are none.
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return system
    values = [_decide_comparisons(each.value, dtype) for each in system.outputs]
    is_same = all(v is each.value for v, each in zip(values, system.outputs, strict=True))
    return system if is_same else system.with_values(values)


def check_constants(system: System, name: str, dtype: Any, given: Mapping[str, Any]) -> None:
    """Refuse integers of expressions that do not fit the integers of a launch.

    - `system`: the expressions.
    - `name`: name of the kernel.
    - `dtype`: in which integers of the arrays are computed; a float if there are none.
    - `given`: arguments of the launch, or their kinds, by their names.
    - raises `ArgumentValueError` where one does not.
    """
    for result, leaf, limits in _limited(system, dtype, given):
        if leaf.value.is_Integer:
            n = int(leaf.value)
            if not (leaf.is_term and _fits(-n, limits)):
                _check(f"{name}: {result}", str(n), n, limits)
    cval, dtype = system.cval, np.dtype(dtype)
    if "constant" not in system.boundary or dtype.kind == "f":
        return
    if not (cval.is_integer() and _fits(cval, dtype)):
        raise ArgumentValueError(
            f"{name}: cval is {cval!r}, and the arrays are of integers",
            value=cval,
            limit=f"The values beyond their ends then have the dtype {dtype}",
            remedy="Convert the arrays: array.astype(np.float64)",
        )


def check_numbers(system: System, name: str, dtype: Any, given: Mapping[str, Any]) -> None:
    """Refuse integers that a call gives for symbols, as :func:`check_constants` does constants."""
    numbers = {n: int(v) for n, v in given.items() if isinstance(v, int | np.integer)}
    if not numbers:
        return
    names = {**{s: a.array for s, a in system.accesses.items()}, **system.numbers}
    for result, leaf, limits in _limited(system, dtype, given):
        symbol = names.get(leaf.value)
        if symbol in numbers:
            n = numbers[symbol]
            _check(f"{name}: {result}", f"{symbol} = {n}", n, limits)


def _limited(
    system: System, dtype: Any, given: Mapping[str, Any]
) -> Iterator[tuple[str, _Leaf, np.dtype[Any]]]:
    """Yield integers and symbols of results, with the dtype that must hold them."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return
    # If one value may be no integer, all comparisons are of floats.
    is_whole = not any(needs_floats(each.value) for each in system.outputs)
    for output in system.outputs:
        stored = dtype
        if output.name in given:
            text = dtype_name(given[output.name])
            stored = np.dtype(text) if text.startswith(("int", "uint")) else dtype
        for leaf in _leaves(output.value):
            if leaf.is_stored or is_whole:
                yield output.name, leaf, stored if leaf.is_stored else dtype


def _fits(value: Any, dtype: np.dtype[Any]) -> bool:
    limits = np.iinfo(dtype)
    return bool(limits.min <= value <= limits.max)


def _check(result: str, text: str, value: int, dtype: np.dtype[Any]) -> None:
    if _fits(value, dtype):
        return
    limits = np.iinfo(dtype)
    wider = "np.int64" if _fits(value, np.dtype(np.int64)) else "np.float64"
    raise ArgumentValueError(
        f"{result} is computed with {text}, which does not fit {dtype}",
        value=value,
        limit=f"{dtype} holds {limits.min} to {limits.max}, and numbers take the arrays' dtype",
        remedy=f"Convert the arrays: array.astype({wider})",
    )
