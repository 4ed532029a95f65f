"""What the language's operations give: the words of :mod:`tests.support.simt`, by their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from kerneldsl.ir.operations import Operation
from kerneldsl.language.intrinsics.table import find_intrinsic
from kerneldsl.language.packed_numbers import PACKED_NUMBERS
from tests.support.libdevice import EXACT, NARROWED, real
from tests.support.regions.numbers import NotInterpretedError, typed
from tests.support.simt import STOPS, Thread
from tests.support.vectors import VECTORS

__all__ = ["Word", "word"]

_MISSING = object()


@dataclass(frozen=True)
class Word:
    """An operation of the language.

    Parameters
    ----------
    function : callable
        From the thread and the operands to the result; of what threads wait at, from the answer.
    arguments : callable
        Of what threads wait at: from the operands to the arguments that the answer needs.
    place : tuple
        Of what threads wait at: the name, and where it is in the function.
    is_stop : bool
        Whether threads wait at it.
    """

    function: Callable[..., Any]
    arguments: Callable[..., tuple[Any, ...]]
    place: tuple[Any, ...]
    is_stop: bool


def word(operation: Operation, position: int) -> Word:
    """Return an operation of the language, which is the so many-th in its function."""
    name = operation.name
    try:
        row = find_intrinsic(name)
    except KeyError:
        raise NotInterpretedError(name) from None
    result = _result(operation)
    arguments = _arguments(operation, row)
    place = (name, position)
    if name in STOPS:
        return Word(result, arguments, place, is_stop=True)
    if name in ("load", "store"):
        # Of an access that has a hint, the element.
        return Word(lambda thread, element: element, arguments, place, is_stop=False)
    if name.startswith("libdevice."):
        definition = _of_libdevice(name.partition(".")[2])
        return Word(
            lambda thread, *operands: result(definition(*operands)), arguments, place, is_stop=False
        )
    if name in ("grid", "gridsize"):
        axis = operation.attributes.get("axis", 0)

        def compute(thread: Thread) -> Any:
            return getattr(thread, name)(3)[axis]
    elif name == "shared.array":

        def compute(thread: Thread) -> Any:
            return thread.shared_array(position, *arguments())
    elif name == "local.array":

        def compute(thread: Thread) -> Any:
            return thread.local_array(*arguments())
    else:
        path = name.split(".")

        def compute(thread: Thread, *operands: Any) -> Any:
            try:
                found = reduce(getattr, path, thread)
            except AttributeError:
                raise NotInterpretedError(name) from None
            return result(found(*arguments(*operands)) if callable(found) else found)

    return Word(compute, arguments, place, is_stop=False)


def _of_libdevice(name: str) -> Callable[..., Any]:
    if name in EXACT or name in NARROWED:
        return EXACT.get(name) or NARROWED[name]
    definition = real(name)

    def compute(*values: Any) -> Any:
        found = definition(*(np.asarray(value).reshape(1) for value in values))
        return tuple(each[0] for each in found) if isinstance(found, tuple) else found[0]

    return compute


def _arguments(operation: Operation, row: Any) -> Callable[..., tuple[Any, ...]]:
    """Return what orders constants and operands as the intrinsic's parameters are."""
    parameters = tuple(row.parameters)
    static = {
        name: _constant(operation.attributes[name])
        for name in row.static
        if name in operation.attributes
    }

    def order(*operands: Any, **functions: Any) -> tuple[Any, ...]:
        rest = iter(operands)
        known = {**static, **functions}
        found = [known[name] if name in known else next(rest, _MISSING) for name in parameters]
        assert next(rest, _MISSING) is _MISSING, operation.name
        return tuple(each for each in found if each is not _MISSING)

    return order


def _constant(value: Any) -> Any:
    if isinstance(value, str):
        return VECTORS.get(value) or PACKED_NUMBERS.get(value) or value
    return value


def _result(operation: Operation) -> Callable[[Any], Any]:
    """Return what gives an answer the type of the result."""
    return typed(operation.result.type) if operation.results else lambda value: None
