"""Captured values: the objects from outside a function that may become compile-time constants.

A launch reads each of them again: from globals, a closure, or an attribute. Readers are objects and
not functions. So a native launcher can see what they would do, and look at the same place without
calling them.
"""

from __future__ import annotations

import builtins
import enum
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from kerneldsl.frontend.frozen import FrozenArrays, WatchedArrays, freeze, private_copy
from kerneldsl.frontend.unit import Captured
from kerneldsl.language.element_types import DTYPE_NAMES, ELEMENT_TYPES, element_name
from kerneldsl.language.intrinsics.intrinsic import Typing

__all__ = [
    "CAPTURABLE",
    "AttributeReader",
    "CellReader",
    "ConstantArray",
    "GlobalReader",
    "ItemReader",
    "Reader",
    "compiled_value",
    "constant_problem",
    "holds_functions",
    "is_constant",
    "is_function",
    "make_captured",
    "plain_value",
    "same_value",
    "steady_reader",
]

#: Kinds of values that a kernel can capture, in words.
CAPTURABLE = (
    "A kernel can capture numbers, booleans, strings, None, tuples of these, NumPy scalars, "
    "IntEnum and IntFlag members, NumPy arrays, modules, @kd.func functions, Numba @njit "
    "functions, and tuples of functions"
)
_INT64 = np.iinfo(np.int64)
#: Read in the place of an array that has been written, or made writable, and of a function that has
#: other code.
_WRITTEN = object()


class ConstantArray(np.ndarray[Any, Any]):
    """An array that a kernel declares to be constant: it is in a GPU's constant memory."""


def is_constant(value: object) -> bool:
    """Return whether a value is of a type that can be a compile-time constant.

    A value that is, but has something wrong with it, is reported by :func:`constant_problem`.
    """
    if isinstance(value, tuple):
        return all(is_constant(v) for v in value)
    if isinstance(value, enum.Enum):
        return isinstance(value, enum.IntEnum | enum.IntFlag)
    return value is None or isinstance(
        value, int | float | complex | str | np.bool_ | np.number | np.datetime64 | np.ndarray
    )


def holds_functions(value: object) -> bool:
    """Return whether a value is a tuple with functions among its items, and else constants."""
    if not isinstance(value, tuple) or is_constant(value):
        return False
    return all(is_constant(v) or is_function(v) or holds_functions(v) for v in value)


def is_function(value: object) -> bool:
    """Return whether a kernel may be able to call a value; ``threadIdx.x`` is a number there."""
    return callable(value) and getattr(value, "typing", None) is not Typing.INDEX


def constant_problem(value: object) -> tuple[str, str] | None:
    """Say what is wrong with a constant, and the remedy; ``None`` where nothing is."""
    if isinstance(value, tuple):
        return next((p for v in value if (p := constant_problem(v)) is not None), None)
    if isinstance(value, np.ndarray):
        if value.dtype.names and element_name(value.dtype) is not None:
            return None
        if value.dtype.name not in DTYPE_NAMES:
            return (
                f"is an array of dtype {value.dtype}",
                f"Use one of {', '.join(DTYPE_NAMES)}",
            )
        if ELEMENT_TYPES[value.dtype.name].is_narrow:
            return f"is an array of dtype {value.dtype}", "Pass it as an argument"
    elif isinstance(value, np.generic):
        if value.dtype.name not in DTYPE_NAMES:
            from kerneldsl.language.times import is_time_name

            return (
                f"is a NumPy scalar of dtype {value.dtype}",
                "Pass it as an argument"
                if is_time_name(value.dtype.name)
                else f"Use one of {', '.join(DTYPE_NAMES)}",
            )
        if ELEMENT_TYPES[value.dtype.name].is_narrow:
            return f"is a NumPy scalar of dtype {value.dtype}", "Pass it as an argument"
    elif isinstance(value, int) and not _INT64.min <= value <= _INT64.max:
        return (
            f"is {int(value)}, which does not fit a 64-bit signed integer",
            "Use np.uint64 for a value up to 2**64 - 1",
        )
    return None


def _is_whole_read_only(array: np.ndarray) -> bool:
    """Return whether no code can write the memory of an array, by itself or what it is a view of.

    The writable array below a view counts where somebody else holds it. ``np.arange(6).reshape(2,
    3)`` is a view too, of an array without a name.
    """
    if array.flags.writeable:
        return False
    view: Any = array
    while isinstance(view.base, np.ndarray):
        if view.base.flags.writeable and _base_holders(view) > _ITS_VIEW_ALONE:
            return False
        view = view.base
    if view.base is None:
        return True
    try:
        return memoryview(view.base).readonly
    except TypeError:  # memory of another library, which can
        return False


def _base_holders(view: np.ndarray) -> int:
    """Count the references to the array below a view, those of this call among them."""
    return sys.getrefcount(view.base)


_ITS_VIEW_ALONE = _base_holders(np.empty(1)[:])


def plain_value(value: Any) -> Any:
    """Return a constant as targets take it: a member of an IntEnum or IntFlag is its integer."""
    if isinstance(value, tuple):
        plain = tuple(plain_value(v) for v in value)
        return value if all(a is b for a, b in zip(plain, value, strict=True)) else plain
    if type(value) in (bool, int, float) or isinstance(value, np.generic):
        return value
    if isinstance(value, int):
        return int(value)
    return float(value) if isinstance(value, float) else value


def compiled_value(captured: Captured) -> Any:
    """Return a captured constant as targets compile it: plain, with copies of its arrays."""
    if isinstance(captured.arrays, WatchedArrays):
        return plain_value(captured.arrays.copy)
    return private_copy(plain_value(captured.value))


def same_value(value: Any, now: Any) -> Any:
    """Return `value` where what is read `now` is the same constant, else `now`.

    If a name was bound again to an equal value, as by a notebook cell that runs again, the old
    object is returned. So comparing by identity sees no change.
    """
    if now is value or isinstance(now, np.ndarray):
        return now
    return value if _is_same(value, now) else now


def _is_same(value: Any, now: Any) -> bool:
    """Compare two constants as every program does: -0.0 is not 0.0, a NaN is its bits.

    Of tuples of functions the functions are compared, by identity.
    """
    if type(now) is not type(value):
        return False
    if isinstance(value, tuple):
        return len(now) == len(value) and all(map(_is_same, value, now))
    if isinstance(value, np.ndarray | enum.Enum) or not is_constant(value):
        return now is value
    if isinstance(value, float | complex | np.generic):
        left, right = np.asarray(value), np.asarray(now)
        return left.dtype == right.dtype and left.tobytes() == right.tobytes()
    return bool(now == value)


def make_captured(name: str, path: str, value: Any, read: Callable[[], Any]) -> Captured:
    """Describe a captured value, and watch its arrays from now on.

    Of a Python function its code is watched, too: IPython's autoreload replaces the code of a
    function that was edited, and keeps the function.
    """
    if type(value) is types.FunctionType:
        code = value.__code__

        def read_with_code() -> Any:
            now = read()
            return _WRITTEN if now is value and value.__code__ is not code else now

        return Captured(name, path, value, read_with_code, read)
    held: FrozenArrays | WatchedArrays | None = None
    if is_constant(value):
        held = freeze(value) if _is_read_only(value) else WatchedArrays(value)
    if held is None:
        return Captured(name, path, value, lambda: same_value(value, read()), read)
    arrays = held

    def read_unchanged() -> Any:
        now = same_value(value, read())
        return now if arrays.are_unchanged() else _WRITTEN

    return Captured(name, path, value, read_unchanged, read, arrays)


def _is_read_only(value: object) -> bool:
    """Return whether no code can write the arrays in a constant."""
    if isinstance(value, tuple):
        return all(map(_is_read_only, value))
    return not isinstance(value, np.ndarray) or _is_whole_read_only(value)


class Reader:
    """Reads a value; raises ``NameError`` if it has been deleted."""

    __slots__ = ()

    def __call__(self) -> Any:
        raise NotImplementedError


class GlobalReader(Reader):
    """Reads a name of a module, or the builtin that it does not hide.

    - `namespace`: the module's globals.
    """

    __slots__ = ("name", "namespace")

    def __init__(self, namespace: dict[str, Any], name: str) -> None:
        self.namespace = namespace
        self.name = name

    def __call__(self) -> Any:
        """Read the global, else the builtin."""
        for names in (self.namespace, vars(builtins)):
            if self.name in names:
                return names[self.name]
        raise NameError(f"the captured name {self.name!r} has been deleted")


class CellReader(Reader):
    """Reads a variable of an enclosing function.

    - `cell`: cell of the closure.
    - `name`: its name there.
    """

    __slots__ = ("cell", "name")

    def __init__(self, cell: types.CellType, name: str) -> None:
        self.cell = cell
        self.name = name

    def __call__(self) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:
            raise NameError(f"the captured name {self.name!r} has been deleted") from None


class AttributeReader(Reader):
    """Reads an attribute of what another reader reads.

    - `owner`: reads the owner.
    - `attribute`: the attribute's name.
    """

    __slots__ = ("attribute", "owner")

    def __init__(self, owner: Callable[[], Any], attribute: str) -> None:
        self.owner = owner
        self.attribute = attribute

    def __call__(self) -> Any:
        owner = self.owner()
        try:
            return getattr(owner, self.attribute)
        except AttributeError:
            raise NameError(f"the captured attribute {self.attribute!r} has been deleted") from None


class ItemReader(Reader):
    """Reads an item of a tuple that another reader reads.

    - `owner`: reads the tuple.
    - `index`: the item's place, from 0 on.
    """

    __slots__ = ("index", "owner")

    def __init__(self, owner: Callable[[], Any], index: int) -> None:
        self.owner = owner
        self.index = index

    def __call__(self) -> Any:
        owner = self.owner()
        if not isinstance(owner, tuple) or len(owner) <= self.index:
            raise NameError(f"the captured tuple has no item {self.index} any more")
        return owner[self.index]


def steady_reader(read: Callable[[], Any]) -> Callable[[], Any]:
    """Return the innermost reader of a chain that reads the same object twice.

    An attribute that is rebuilt at each look, such as a bound method, cannot be compared by
    identity; its owner can.
    """
    while isinstance(read, AttributeReader) and read() is not read():
        read = read.owner
    return read
