"""Rules of numeric promotion: which type an operation gives for operands of some types.

They are Numba's, but that integers stay integers where Numba makes floats of uint64 beside a
signed type (``docs/adr/0031-integers-stay-integers.md``). Types are names of
:data:`~kerneldsl.language.element_types.ELEMENT_TYPES`. Where a function here returns ``None`` it
does not know: there is no such operation, or Numba's choice follows no rule that is worth a line.
What it does return is the answer of every target's typing, which a test holds for all types.

References
----------
Numba documentation, "Numba Enhancement Proposals", NBEP 1 ("Changes in integer typing"); NumPy,
"Data type promotion in NumPy".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import permutations
from typing import TypeAlias

from kerneldsl.language.element_types import ELEMENT_TYPES, numpy_dtype

__all__ = [
    "result_of_function",
    "result_of_operator",
    "result_of_range",
    "result_of_unary",
    "unified",
]

_Rule: TypeAlias = Callable[..., str | None]

#: With float32 these give float32; other integers, which float32 cannot hold, give float64. (It
#: could hold uint16: Numba's conversions have no path from there.)
_FIT_FLOAT32 = frozenset({"bool", "int8", "int16", "uint8", "float32", "complex64"})
#: More types than these are not unified: the order in which Numba does it would matter too much.
_MAX_UNIFIED = 4


def result_of_operator(op: str, left: str, right: str) -> str | None:
    """Return the type of ``left op right``, also of the assignment in place.

    Parameters
    ----------
    op : str
        As Python writes it: ``"+"``, ``"//"``, ``"<<"``.
    left, right : str
        Names of element types.

    Returns
    -------
    str or None

    Examples
    --------
    >>> result_of_operator("+", "float32", "int64"), result_of_operator("+", "float32", "int16")
    ('float64', 'float32')
    >>> result_of_operator("|", "uint64", "int64"), result_of_operator("|", "bool", "bool")
    ('int64', 'bool')
    >>> result_of_operator("*", "int8x4", "float64"), result_of_operator("/", "int8x4", "int8x4")
    ('int8x4', None)
    """
    rule = _OPERATORS.get(op)
    if rule is None:
        return None
    if vectors := [name for name in (left, right) if ELEMENT_TYPES[name].is_vector]:
        return _of_vectors(op, rule, vectors, {left, right}.difference(vectors))
    return rule(left, right) if _are_numbers(left, right) else None


def result_of_unary(op: str, operand: str) -> str | None:
    """Return the type of ``-x``, ``+x``, ``~x`` or ``not x``.

    Examples
    --------
    >>> result_of_unary("~", "int16"), result_of_unary("~", "bool"), result_of_unary("-", "bool")
    ('int64', 'bool', 'int64')
    """
    if op == "not" or (op == "~" and operand == "bool"):
        return "bool"
    if (row := ELEMENT_TYPES[operand]).is_vector:
        return operand if result_of_unary(op, row.fields[0].dtype) else None
    if _is_whole(operand):
        return ELEMENT_TYPES[operand].arithmetic
    return None if op == "~" or not _are_numbers(operand) else operand


def result_of_function(name: str, arguments: Sequence[str]) -> str | None:
    """Return the type of a call of a builtin, or of a function of :mod:`math` or NumPy.

    Parameters
    ----------
    name : str
        As :func:`kerneldsl.frontend.library_names.name_of_function` gives it.
    arguments : sequence of str
        Types of the arguments; all are positional.

    Examples
    --------
    >>> result_of_function("math.floor", ["float64"]), result_of_function("int", ["uint8"])
    ('int64', 'uint8')
    >>> result_of_function("min", ["int8", "uint16"])
    'int32'
    """
    library, _, last = name.rpartition(".")
    if library in ("numpy", "numba") and last in ELEMENT_TYPES:
        return last if len(arguments) == 1 else None
    count, rule = _FUNCTIONS.get(name, (0, None))
    is_fitting = len(arguments) == count or (count == _TWO_OR_MORE and len(arguments) > 1)
    is_fitting = is_fitting and _are_numbers(*arguments)
    return rule(*arguments) if rule is not None and is_fitting else None


def result_of_range(arguments: Sequence[str]) -> str | None:
    """Return the type of the items of ``range(…)``.

    Examples
    --------
    >>> result_of_range(["int32"]), result_of_range(["int64", "int32"]), result_of_range(["uint8"])
    ('int32', 'int64', 'uint64')
    """
    rows = [ELEMENT_TYPES[name] for name in arguments]
    if rows and all(row.is_unsigned for row in rows):
        return "uint64"
    if rows and all(row.is_signed or row.name == "bool" for row in rows):
        return "int64" if "int64" in arguments else "int32"
    return None


def unified(types: Sequence[str]) -> str | None:
    """Return the type of a variable that holds values of these types, and of ``min`` of them.

    Examples
    --------
    >>> unified(["int64", "float32"]), unified(["uint64", "int8"]), unified(["int8", "int8"])
    ('float64', 'int64', 'int8')
    """
    different = list(dict.fromkeys(types))
    if not 0 < len(different) <= _MAX_UNIFIED:
        return None
    results = {_unified_in_order(order) for order in permutations(different)}
    return results.pop() if len(results) == 1 else None


def _unified_in_order(types: Sequence[str]) -> str | None:
    found: str | None = types[0]
    for each in types[1:]:
        found = None if found is None else _unified_pair(found, each)
    return found


@cache
def _unified_pair(one: str, two: str) -> str | None:
    import numpy as np

    if one == two:
        return one
    pair = {one, two}
    if not _are_numbers(*pair):
        return None
    if any(ELEMENT_TYPES[name].is_narrow for name in pair) and any(map(_is_whole, pair)):
        return None  # it differs between orders, and for some there is none
    if _has_both_signs(*pair):
        return "int64"
    return str(np.result_type(*(numpy_dtype(_computed_in(name)) for name in pair)))


# ------------------------------------------------------------------------------------- the rules


def _of_vectors(op: str, rule: _Rule, vectors: list[str], others: set[str]) -> str | None:
    """Return the type of an operation on the numbers of one type of vectors, and on real ones."""
    vector, item = vectors[0], ELEMENT_TYPES[vectors[0]].fields[0].dtype
    if any(name != vector for name in vectors) or (op == "/" and _is_whole(item)):
        return None
    rows = [ELEMENT_TYPES[name] for name in others]
    if any(not row.is_number or row.is_complex or row.is_narrow for row in rows):
        return None
    return None if rule(item, item) is None else vector


def _are_numbers(*names: str) -> bool:
    """Return whether types are numbers, and no records or vectors of them."""
    return all(ELEMENT_TYPES[name].is_number for name in names)


def _is_whole(name: str) -> bool:
    """Return whether a type is an integer or bool."""
    return ELEMENT_TYPES[name].is_integer or name == "bool"


def _has_both_signs(*names: str) -> bool:
    """Return whether types are integers, uint64 and a signed one among them."""
    return (
        "uint64" in names
        and all(map(_is_whole, names))
        and any(ELEMENT_TYPES[name].is_signed for name in names)
    )


def _computed_in(name: str) -> str:
    """Return the type that a float of 16 bits is computed in; of any other type itself."""
    row = ELEMENT_TYPES[name]
    return row.arithmetic if row.is_narrow else name


def _whole(*types: str) -> str:
    """Return the integer type of arithmetic on integers: unsigned where all of them are.

    A bool beside a uint64 is a uint64; beside other types it is an int64.
    """
    numbers = [name for name in types if name != "bool"] if "uint64" in types else types
    found = {ELEMENT_TYPES[name].arithmetic for name in numbers}
    return found.pop() if len(found) == 1 else "int64"


def _floating(*types: str) -> str:
    """Return the floating-point or complex type that all of these are converted to."""
    is_single = {_computed_in(name) for name in types} <= _FIT_FLOAT32
    if any(ELEMENT_TYPES[name].is_complex for name in types):
        return "complex64" if is_single else "complex128"
    return "float32" if is_single else "float64"


def _arithmetic(left: str, right: str) -> str:
    if _is_whole(left) and _is_whole(right):
        return _whole(left, right)
    return left if left == right else _floating(left, right)


def _divide(left: str, right: str) -> str:
    return "float64" if _is_whole(left) and _is_whole(right) else _arithmetic(left, right)


def _remainder(left: str, right: str) -> str | None:
    return None if _has_complex(left, right) else _arithmetic(left, right)


def _power(left: str, right: str) -> str | None:
    if _is_whole(left) and _is_whole(right):
        return _whole(left, right)
    if ELEMENT_TYPES[left].is_float and _is_whole(right):
        return _computed_in(left)
    return _arithmetic(left, right)


def _shift(left: str, right: str) -> str | None:
    return _whole(left) if _is_whole(left) and _is_whole(right) else None


def _bitwise(left: str, right: str) -> str | None:
    if not (_is_whole(left) and _is_whole(right)):
        return None
    return "bool" if left == right == "bool" else _whole(left, right)


def _has_complex(*types: str) -> bool:
    return any(ELEMENT_TYPES[name].is_complex for name in types)


def _real(*types: str) -> str | None:
    """Return the type of a function of :mod:`math`: integers alone give float64."""
    if _has_complex(*types):
        return None
    return "float64" if all(map(_is_whole, types)) else _floating(*types)


def _rounded(name: str) -> str | None:
    if _has_complex(name):
        return None
    return _whole(name) if _is_whole(name) else "int64"


def _is_number(name: str) -> str | None:
    return None if _has_complex(name) else "bool"


def _copysign(one: str, two: str) -> str | None:
    return None if _has_complex(one, two) else _floating(one, two)


def _math_power(base: str, exponent: str) -> str | None:
    if exponent == "bool" or _has_complex(base, exponent):
        return None
    return "float64" if _is_whole(exponent) else _floating(base, exponent)


def _math_remainder(one: str, two: str) -> str | None:
    if _is_whole(one) != _is_whole(two):
        return "float64" if not _has_complex(one, two) else None
    return _real(one, two)


def _absolute(name: str) -> str | None:
    row = ELEMENT_TYPES[name]
    if row.is_complex:
        return row.arithmetic
    return None if name == "bool" else name


def _to_int(name: str) -> str | None:
    if _has_complex(name):
        return None
    return name if ELEMENT_TYPES[name].is_integer else "int64"


def _to_float(name: str) -> str | None:
    if name == "bool" or _has_complex(name):
        return None
    return _real(name)


def _round(name: str) -> str | None:
    if _has_complex(name):
        return None
    return name if name == "uint64" else "int64"


def _extremum(function: str, *types: str) -> str | None:
    """Return the type of the largest or smallest number, which is exact for integers."""
    if _has_complex(*types):
        return None
    if not _has_both_signs(*types):
        return unified(types)
    return "uint64" if function == "max" else "int64"


_max, _min = partial(_extremum, "max"), partial(_extremum, "min")


def _ufunc_of_reals(*types: str) -> str | None:
    """Return the type of a universal function that computes in floating point."""
    if _has_complex(*types):
        return None
    floats = [_computed_in(name) for name in types if not _is_whole(name)]
    if floats:
        return "float64" if "float64" in floats else "float32"
    return "float32" if all(ELEMENT_TYPES[name].nbytes <= 2 for name in types) else "float64"


def _ufunc_of_numbers(*types: str) -> str | None:
    """Return the type of a universal function that integers stay integers in."""
    if all(map(_is_whole, types)):
        return None if set(types) == {"bool"} else unified(types)
    return _ufunc_of_reals(*types)


def _ufunc_extremum(function: str, *types: str) -> str | None:
    if _has_both_signs(*types):
        return _extremum(function, *types)
    return _ufunc_of_numbers(*types)


def _ufunc_of_floats(name: str) -> str | None:
    """Return the type of a universal function that NumPy's versions differ in for integers."""
    return None if _is_whole(name) else _ufunc_of_reals(name)


def _ufunc_absolute(name: str) -> str | None:
    return _absolute(_computed_in(name))


def _ufunc_predicate(name: str) -> str:
    return "bool"


_OPERATORS: dict[str, _Rule] = {
    **dict.fromkeys(("+", "-", "*"), _arithmetic),
    "/": _divide,
    **dict.fromkeys(("//", "%"), _remainder),
    "**": _power,
    **dict.fromkeys(("<<", ">>"), _shift),
    **dict.fromkeys(("&", "|", "^"), _bitwise),
}
_TWO_OR_MORE = -2


def _named(library: str, names: str, count: int, rule: _Rule) -> dict[str, tuple[int, _Rule]]:
    return {f"{library}{name}": (count, rule) for name in names.split()}


#: Function to the number of its arguments and the rule of its result.
_FUNCTIONS: dict[str, tuple[int, _Rule]] = {
    "abs": (1, _absolute),
    "bool": (1, _ufunc_predicate),
    "float": (1, _to_float),
    "int": (1, _to_int),
    "round": (1, _round),
    "max": (_TWO_OR_MORE, _max),
    "min": (_TWO_OR_MORE, _min),
    **_named(
        "math.",
        "acos acosh asin asinh atan atanh cbrt cos cosh degrees erf erfc exp exp2 expm1 fabs gamma "
        "lgamma log log10 log1p log2 radians sin sinh sqrt tan tanh",
        1,
        _real,
    ),
    **_named("math.", "ceil floor trunc", 1, _rounded),
    **_named("math.", "isfinite isinf isnan", 1, _is_number),
    **_named("math.", "atan2 hypot", 2, _real),
    "math.copysign": (2, _copysign),
    "math.fmod": (2, _math_remainder),
    "math.pow": (2, _math_power),
    **_named(
        "numpy.",
        "arccos arccosh arcsin arcsinh arctan arctanh cbrt cos cosh deg2rad degrees exp exp2 expm1 "
        "fabs log log10 log1p log2 rad2deg radians rint sin sinh sqrt tan tanh",
        1,
        _ufunc_of_reals,
    ),
    **_named("numpy.", "ceil floor trunc", 1, _ufunc_of_floats),
    **_named("numpy.", "isfinite isinf isnan", 1, _ufunc_predicate),
    "numpy.absolute": (1, _ufunc_absolute),
    **_named("numpy.", "arctan2 copysign hypot", 2, _ufunc_of_reals),
    **_named("numpy.", "fmod power", 2, _ufunc_of_numbers),
    **_named("numpy.", "fmax maximum", 2, partial(_ufunc_extremum, "max")),
    **_named("numpy.", "fmin minimum", 2, partial(_ufunc_extremum, "min")),
}
