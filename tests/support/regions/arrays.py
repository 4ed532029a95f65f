"""What the IR's operations on arrays, tuples and records give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kerneldsl.ir.operations import Operation
from tests.support.regions.numbers import converter, typed

__all__ = ["ARRAY_OPERATIONS", "FaultError", "WrongIndexError"]


class FaultError(Exception):
    """A check of debug mode fails."""


class WrongIndexError(Exception):
    """An index that is marked as not negative is negative, or outside of the array."""


def _size(operation: Operation) -> Callable[[Any], Any]:
    return lambda array: np.int64(array.size)


def _extent(operation: Operation) -> Callable[[Any], Any]:
    axis = operation.attributes["axis"]
    return lambda array: np.int64(array.shape[axis])


def _stride(operation: Operation) -> Callable[[Any], Any]:
    axis = operation.attributes["axis"]
    return lambda array: np.int64(array.strides[axis])


def _element(operation: Operation) -> Callable[..., Any]:
    place = _place(operation)
    return lambda array, *index: array[place(array, index)]


def _packed(operation: Operation) -> Callable[..., Any]:
    element, finish = _element(operation), typed(operation.result.type)
    return lambda view, *index: finish(element(view, *index))


def _view(operation: Operation) -> Callable[..., Any]:
    marks = operation.attributes.get("nonnegative", ())

    def view(array: Any, *index: Any) -> Any:
        for each, is_marked in zip(index, marks, strict=False):
            if is_marked and isinstance(each, np.integer) and each < 0:
                raise WrongIndexError(f"{operation.name} at {operation.place}: {each}")
        return array[index]

    return view


def _store(operation: Operation) -> Callable[..., None]:
    place = _place(operation)

    def store(array: Any, *given: Any) -> None:
        *index, value = given
        if isinstance(array, np.ndarray) and array.dtype.names is None:
            assert value.dtype == array.dtype, f"{value.dtype} is stored as {array.dtype}"
        array[place(array, tuple(index))] = value

    return store


def _place(operation: Operation) -> Callable[[Any, tuple[Any, ...]], tuple[int, ...]]:
    """Return what checks an index, and adds the extent to one that may be negative."""
    marks = operation.attributes.get("nonnegative")
    where = operation.place

    def place(array: Any, index: tuple[Any, ...]) -> tuple[int, ...]:
        found = []
        for axis, each in enumerate(map(int, index)):
            extent = array.shape[axis]
            wrapped = each + extent if each < 0 and not (marks and marks[axis]) else each
            if not 0 <= wrapped < extent:
                raise WrongIndexError(f"{operation.name} at {where}: {each} of {extent}")
            found.append(wrapped)
        return tuple(found)

    return place


def _make(operation: Operation) -> Callable[..., Any]:
    kinds = operation.result.type.types
    converts = [
        converter(value.type, kind) for value, kind in zip(operation.operands, kinds, strict=True)
    ]
    return lambda *members: tuple(
        convert(each) for convert, each in zip(converts, members, strict=True)
    )


def _member(operation: Operation) -> Callable[[Any], Any]:
    number = operation.attributes["number"]
    return lambda whole: whole[number]


def _attribute(operation: Operation) -> Callable[[Any], Any]:
    name, finish = operation.attributes["attribute"], typed(operation.result.type)

    def attribute(whole: Any) -> Any:
        fields = getattr(getattr(whole, "dtype", None), "names", None) or ()
        return finish(whole[name] if name in fields else getattr(whole, name))

    return attribute


def _item(operation: Operation) -> Callable[[Any], Any]:
    index, finish = operation.attributes["index"], typed(operation.result.type)
    return lambda whole: finish(whole[index])


def _set_field(operation: Operation) -> Callable[[Any, Any], None]:
    name = operation.attributes["index"]
    kinds = operation.attributes["signature"].args
    convert = converter(operation.operands[1].type, kinds[-1])

    def set_field(whole: Any, value: Any) -> None:
        whole[name] = convert(value)

    return set_field


def _fault(operation: Operation) -> Callable[[], None]:
    def fault() -> None:
        raise FaultError(f"fault at {operation.place}")

    return fault


def _check(operation: Operation) -> Callable[[Any, Any], None]:
    def check(index: Any, extent: Any) -> None:
        if not -extent <= int(index) < extent:
            raise FaultError(f"{index} of {extent} at {operation.place}")

    return check


#: By its name, from an operation to what computes it from its operands.
ARRAY_OPERATIONS: dict[str, Callable[[Operation], Callable[..., Any]]] = {
    "array.size": _size,
    "array.extent": _extent,
    "array.stride": _stride,
    "array.transpose": lambda operation: lambda array: array.T,
    "array.load": _element,
    "packed.load": _packed,
    # A copy that LLVM cannot look into.
    "loop.same": lambda operation: lambda value: value,
    "array.part": _element,
    "array.view": _view,
    "array.store": _store,
    "tuple.make": _make,
    "tuple.member": _member,
    "attribute": _attribute,
    "item": _item,
    "fault": _fault,
    "fault.check": _check,
    "item.set": _set_field,
}
