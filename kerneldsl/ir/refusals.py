"""Constructs that a kernel cannot have, in the words of this project.

The front end raises a :class:`Refusal` where an operation has no type. The reader says where. The
first line of any other error is the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import errors, types

from kerneldsl.frontend.operators import SYMBOLS
from kerneldsl.frontend.parts import Part
from kerneldsl.ir.operations import SourcePlace
from kerneldsl.utilities.formatting import format_count

__all__ = [
    "LaterRefusal",
    "Refusal",
    "as_refusal",
    "attribute_refusal",
    "call_refusal",
    "carried_refusal",
    "condition_refusal",
    "index_refusal",
    "loop_refusal",
    "memory_refusal",
    "object_refusal",
    "operator_refusal",
    "store_refusal",
    "tuple_index_refusal",
    "undefined_refusal",
    "unify_refusal",
    "unpacking_refusal",
    "words",
]

#: The remedy for an error of Numba's that is not known here.
NUMBAS_TEXT = "error.details has the compiler's own text"


class Refusal(errors.TypingError):  # type: ignore[misc]
    """An error and its remedy. Its source is known once it is placed."""

    def __init__(
        self,
        what: str,
        remedy: str = NUMBAS_TEXT,
        *,
        is_of_value: bool = False,
        is_known: bool = True,
        array: Any = None,
        limit: str | None = None,
    ) -> None:
        super().__init__(f"{what}. {remedy}")
        self.what = what
        self.remedy = remedy
        self.limit = limit
        #: Whether the error concerns an assigned value, not its target.
        self.is_of_value = is_of_value
        #: The type of a new array that needs memory.
        self.array = array
        #: Whether the text is this project's, not Numba's.
        self.is_known = is_known
        #: The place of an operation that was written as code when this was found.
        self.place: SourcePlace | None = None
        #: Further facts about an operand.
        self.reason = ""
        #: The expression or statement.
        self.source: Part | None = None

    def at(self, source: Part) -> Refusal:
        """Return the refusal with its place: the innermost one counts."""
        self.source = self.source or source
        return self


# -- texts of Numba -------------------------------------------------------------------------------

#: Colour codes of a terminal; Numba puts them into its messages where colorama is installed.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: A typing rule of the language. It may be in the text of an operator that Numba tried.
_OWN_RULE = re.compile(r"^(?:.*TypingError: )?kerneldsl\.([\w.]+): (.*)", re.MULTILINE)
#: Texts in errors of implementations that need memory for an array.
_OF_MEMORY = (
    *("NRT required but not enabled", "array_allocate", "'_allocate'"),
    "Only accept returning of array passed into the function",
)
_HEADINGS = ("Failed in ", "File ", "During: ", ">>>")


def as_refusal(error: BaseException) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if any(each in str(error) for each in _OF_MEMORY):
        return memory_refusal()
    remedy = getattr(error, "remedy", NUMBAS_TEXT)
    return rule_refusal(error) or Refusal(reason_of(error), remedy, is_known=False)


def rule_refusal(error: BaseException) -> Refusal | None:
    """Return what a typing rule of the language says of an argument, if it is one's error.

    The second sentence is the remedy.
    """
    found = _OWN_RULE.search(_text_of(error))
    if found is None:
        return None
    what, _, remedy = found[2].strip().rstrip(".").partition(". ")
    return Refusal(
        f"kd.{found[1]}: {what}", remedy or "Convert the argument to a type that it takes"
    )


def reason_of(error: BaseException) -> str:
    """Return the first line of an error that is no heading."""
    lines = (line.strip() for line in _text_of(error).splitlines())
    said = (line.rstrip(".") for line in lines if line and not line.startswith(_HEADINGS))
    return next(said, "the compiler gave no reason")


def _text_of(error: BaseException) -> str:
    return _COLOUR.sub("", str(getattr(error, "msg", None) or error))


# -- types ----------------------------------------------------------------------------------------


def words(kind: Any) -> str:
    """Return a type of Numba's in the notation of signatures.

    Examples
    --------
    >>> words(types.Array(types.float32, 2, "C", readonly=True)), words(types.literal(3))
    ('float32[:, ::1]', 'int64')
    >>> words(types.UniTuple(types.int64, 2)), words(types.Tuple((types.int64, types.float32)))
    ('tuple(int64 x 2)', 'tuple(int64, float32)')
    """
    plain = types.unliteral(kind)
    match plain:
        case types.Array() if not isinstance(plain, types.NestedArray):
            axes = [":"] * plain.ndim
            if plain.ndim and plain.layout in "CF":
                axes[-1 if plain.layout == "C" else 0] = "::1"
            return f"{plain.dtype}[{', '.join(axes)}]"
        case types.UniTuple():
            return f"tuple({words(plain.dtype)} x {plain.count})"
        case types.Tuple():
            return f"tuple({', '.join(map(words, plain.types))})"
        case types.NumberClass():
            return "type"
    return next((name for kinds, name in _OF_PYTHON if isinstance(plain, kinds)), str(plain))


_OF_PYTHON: tuple[tuple[Any, str], ...] = (
    (types.UnicodeType, "str"),
    (types.NoneType, "None"),
    (types.RangeType, "range"),
    (types.SliceType, "slice"),
)


# -- values ---------------------------------------------------------------------------------------


def memory_refusal(array: Any = None) -> Refusal:
    return Refusal(
        "an expression over whole arrays needs memory for its result, which a kernel cannot "
        "allocate",
        "Assign it to a row, o[i] = … or t[:] = … of a kd.local.array, or write a loop over the "
        "elements",
        array=array,
    )


def condition_refusal(kind: Any) -> Refusal:
    return Refusal(
        f"an array, {words(kind)}, is used as a condition",
        "Write the condition of an element, as in x[i] != 0, or of the size, as in x.size > 0",
    )


class LaterRefusal(Refusal):
    """A variable is read that has no type yet; a later reading of the loop may know it."""


def undefined_refusal(name: str, made_by: type[Refusal] = Refusal) -> Refusal:
    return made_by(f"the variable {name} is not defined here", f"Assign {name} first")


def unify_refusal(one: Any, two: Any, name: str = "") -> Refusal:
    """Return the refusal of two types of a variable, of a result or of a conditional expression."""
    kinds = words(one), words(two)
    if name == "return":
        return Refusal(
            f"a device function returns values of different types, {', '.join(kinds)}",
            "Return one type on every path",
        )
    # NumPy has no type that holds both, or one that Numba lacks.
    if any(_is_narrow(each) for each in (one, two)):
        narrow, other = kinds if _is_narrow(one) else kinds[::-1]
        of = f"variable {name}" if name.isidentifier() and name != "if" else _CONDITIONAL
        return Refusal(
            f"the {of} is {narrow} on one path and {other} on another, and no type holds both",
            "Convert each to one type, as in np.float32(value)",
        )
    if name in ("", "if"):
        first, second = sorted(kinds)
        return Refusal(
            f"a {_CONDITIONAL} is {first} on one path and {second} on another",
            "Give it values of one type, or write if and else",
        )
    return Refusal(
        f"the variable {name} is {kinds[0]} on one path and {kinds[1]} on another",
        f"Give {name} values of one type, or use two variables",
    )


_CONDITIONAL = "conditional expression"


def _is_narrow(kind: Any) -> bool:
    return str(kind) in ("float16", "bfloat16")


#: Words for Python's names of types of objects.
_PYTHONS_OWN = {"type": "a class", "builtin_function_or_method": "a function of Python's"}


def object_refusal(value: Any) -> Refusal:
    """Return the refusal of an object that has no type."""
    if isinstance(value, int):
        return Refusal(f"Int value is too large: {value}")
    name = type(value).__name__
    what = _PYTHONS_OWN.get(name, f"an object of type {name}")
    return Refusal(
        f"{what} cannot be used in a kernel",
        "Use numbers, arrays and tuples of them; do the rest outside the kernel",
    )


def attribute_refusal(kind: Any, name: str) -> Refusal:
    """Return the refusal of an attribute; of a named tuple `kind` is the name of its class."""
    if isinstance(kind, types.Module):
        return Refusal(
            f"{kind.pymod.__name__}.{name} is not available in a kernel",
            "Write it with operations on single elements, or do it outside the kernel",
        )
    return Refusal(
        f"a value of type {words(kind)} has no attribute {name!r}",
        "Write 64 - kd.clz(abs(x)) for an int64"
        if name == "bit_length"
        else "Check the spelling and the argument's type",
    )


def field_refusal(kind: Any, name: str) -> Refusal:
    """Return the refusal of an assignment to a field, or an attribute, of what is no record."""
    return Refusal(
        f"the attribute {name!r} of {words(kind)} is assigned; only records have such fields",
        "Assign to a variable, to an element, or to a field of a record",
    )


def loop_refusal(kind: Any) -> Refusal:
    return Refusal(
        f"a for loop iterates over {words(kind)}", "Loop over range(n), a tuple or an array"
    )


def carried_refusal(name: str) -> Refusal:
    """Return the refusal of a variable that a loop over tiles carries."""
    return Refusal(
        f"{name} keeps its value from one iteration of kd.tiles to another, or after the loop",
        "Assign it in each iteration before it is read; to combine results of tiles, store them, "
        "or use kd.atomic",
        limit="Blocks take the iterations of kd.tiles in any order",
    )


def unpacking_refusal(kind: Any, targets: int) -> Refusal:
    """Return the refusal of a value, or of a tuple, for so many names."""
    indices = "kd.grid(1) gives one index, kd.grid(2) two and kd.grid(3) three"
    if not isinstance(kind, types.BaseTuple):
        return Refusal(
            f"one value, {words(kind)}, is unpacked into several names",
            f"Assign it to one name; {indices}",
        )
    return Refusal(
        f"{kind.count} values are unpacked into {targets} names",
        f"Give each value a name; {indices}",
    )


# -- elements -------------------------------------------------------------------------------------


def tuple_index_refusal() -> Refusal:
    return Refusal("a tuple is indexed beyond its elements", "Use an index below its length")


_INDICES = (types.Integer, types.SliceType, types.NoneType, types.EllipsisType)


def index_refusal(owner: Any, index: Any) -> Refusal | None:
    """Return the refusal of an index; ``None`` if its form is one that arrays have."""
    if isinstance(owner, types.Number | types.Boolean):
        return Refusal(
            f"a number of type {words(owner)} is indexed like an array",
            "Pass an array, such as np.array([number]), or leave the index out",
        )
    if isinstance(owner, types.RangeType):
        return Refusal("a range is indexed", "Compute its number, start + k * step")
    if isinstance(owner, types.UnicodeType):
        return Refusal(
            "a str is indexed",
            "Pass the codes of its characters, np.frombuffer(text.encode(), np.uint8)",
        )
    if not isinstance(owner, types.Array):
        return None
    parts = index.types if isinstance(index, types.BaseTuple) else (index,)
    other = next((each for each in parts if not isinstance(each, (*_INDICES, types.Array))), None)
    if other is not None:
        return Refusal(
            f"an array is indexed by a value of type {words(other)}",
            "Index by an integer: // divides integers, int(…) makes one of a float",
        )
    if sum(isinstance(each, types.Integer | types.SliceType) for each in parts) <= owner.ndim:
        return None
    if owner.ndim == 0:
        return Refusal(
            "an array without an axis is indexed by a number",
            "Read and write it as a[()], or pass it with an axis: a.reshape(1)",
        )
    return Refusal(
        f"an array of type {words(owner)} is indexed with "
        f"{format_count(len(parts), 'index', 'indices')}",
        "Use one index for each axis, or pass an array of that rank",
    )


#: The remedy for dates and durations.
_OF_TIMES = (
    "Bring both to one unit before the launch, array.astype('M8[s]') or array.astype('m8[s]'); "
    "durations are added, multiplied by integers and divided"
)


def store_refusal(owner: Any, index: Any, value: Any) -> Refusal:
    """Return the refusal of an assignment to an element."""
    is_array = isinstance(owner, types.Array)
    if is_array and not owner.mutable:
        is_field = isinstance(owner, types.NestedArray)
        written = "an array in a record that is an argument" if is_field else "a captured array"
        passed = "an array of one record, array[:1]," if is_field else "the array"
        return Refusal(
            f"cannot assign to an element of {written}, which is a constant",
            f"Pass {passed} as an argument",
        )
    found = index_refusal(owner, index)
    if found is not None:
        return found
    if is_array and isinstance(value, types.Array):
        return Refusal(
            f"an array, {words(value)}, is stored in one element",
            "Use one index for each axis of the array that is read, or loop over its elements",
            is_of_value=True,
        )
    return Refusal(
        f"a value of type {words(value)} is stored in an element of {words(owner)}",
        _OF_TIMES
        if is_array and _is_time(owner.dtype)
        else "Store a number: it is converted to the type of the elements",
    )


def _is_time(kind: Any) -> bool:
    return any(name in str(kind) for name in ("time64[", "delta64["))


# -- operations -----------------------------------------------------------------------------------

_OPERATORS = {each.__name__: symbol for each, symbol in SYMBOLS.items()} | {"contains": "in"}


def operator_refusal(name: str, kinds: tuple[Any, ...]) -> Refusal:
    """Return the refusal of an operator, by its name in ``operator``."""
    if name == "getitem":
        return index_refusal(*kinds) or Refusal(
            f"unsupported index type in an expression: {', '.join(map(words, kinds))} "
            "(value, index)",
            "Index arrays by integers, and tuples by constants",
        )
    if name == "setitem":
        return store_refusal(*kinds)
    if name not in _OPERATORS:
        return call_refusal(name, kinds)
    return Refusal(
        f"in a kernel, the operator {_OPERATORS[name]} does not take "
        f"{' and '.join(map(words, kinds))}",
        "Work element by element"
        if any(isinstance(each, types.Array) for each in kinds)
        else _OF_TIMES
        if any(map(_is_time, kinds))
        else "Convert the operands to numbers that it takes",
    )


#: Replacements for functions, and for methods of arrays.
_REMEDIES = {
    "print": "Print numbers, tuples of numbers and constant texts: single elements of an array",
    **dict.fromkeys(
        ("argsort", "sort"), "Sort before the launch, or in a tile, t.sort(), or kd.block.sort(x)"
    ),
    "astype": "Convert elements, as in np.float32(x[i]), or the array before the launch",
    "item": "Index the array: x[0], or x[i, j]",
}
_MAKERS = frozenset(
    f"{name}{like}" for name in ("zeros", "ones", "empty", "full") for like in ("", "_like")
) | {"arange", "array", "copy", "linspace"}


def call_refusal(
    name: str, kinds: tuple[Any, ...], named: Mapping[str, Any] | None = None
) -> Refusal:
    """Return the refusal of a call of a function of Python, NumPy or ``math``."""
    if name in _MAKERS:
        return Refusal(
            f"np.{name} allocates memory, which a kernel cannot",
            "Write kd.local.array(shape, dtype), with a constant shape, and fill it in a loop; "
            "or make the array before the launch, and pass it",
        )
    if name == "pow" and len(kinds) > 2:
        return Refusal(
            "in a kernel, pow takes two arguments",
            "Write a loop of products and remainders for a power modulo a number",
        )
    function = getattr(np, name, None)
    if isinstance(function, np.ufunc) and len(kinds) != function.nin and not named:
        return Refusal(
            f"in a kernel, {name} was given {len(kinds)} argument{'s' * (len(kinds) != 1)}",
            f"Call {name} with {function.nin}",
        )
    keywords = [f"{keyword}={words(kind)}" for keyword, kind in (named or {}).items()]
    listed = ", ".join((*map(words, kinds), *keywords))
    return Refusal(
        f"in a kernel, {name} cannot be called with ({listed})",
        _REMEDIES[name]
        if name in _REMEDIES
        else "Write a loop over the elements"
        if any(isinstance(each, types.Array) for each in kinds) or "axis" in (named or {})
        else f"Call {name} with scalars that it takes, or write it out",
    )
