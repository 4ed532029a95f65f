"""Writes the description of a kernel for its package, when it is built."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields
from typing import Any
from weakref import WeakKeyDictionary

from kerneldsl.analysis.traits import KernelTraits
from kerneldsl.frontend.captured import AttributeReader, CellReader, GlobalReader
from kerneldsl.frontend.fingerprint import UnidentifiedError, fingerprint
from kerneldsl.frontend.function_text import imported_names
from kerneldsl.frontend.linked_code import code_of
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.frontend.resolve import device_function, is_kernel
from kerneldsl.frontend.unit import Captured, FunctionUnit
from kerneldsl.shipping.forms import FUNCTION, form_key, read_form
from kerneldsl.shipping.meanings import (
    NoFormError,
    describe_defaults,
    describe_text,
    describe_value,
    number_of_code,
    root_reader,
)

__all__ = ["make_form"]

_made: WeakKeyDictionary[FunctionUnit, tuple[str, list[Any]] | None] = WeakKeyDictionary()


def make_form(unit: FunctionUnit, traits: KernelTraits) -> tuple[str, list[Any]] | None:
    """Return the key and the form of a kernel; ``None`` if it may depend on anything else.

    Parameters
    ----------
    unit : FunctionUnit
        The normal form; one that is rewritten for arguments has no form.
    traits : KernelTraits
        What was found of it.
    """
    if unit not in _made:
        _made[unit] = _make_form(unit, traits)
    return _made[unit]


def _make_form(unit: FunctionUnit, traits: KernelTraits) -> tuple[str, list[Any]] | None:
    function = unit.function
    if not isinstance(function, types.FunctionType) or not unit.reads:
        return None
    code = function.__code__
    given = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
    reads = unit.reads[function]
    constants = {name: reads[name] for name in given if name in reads}
    try:
        written = _Writing(unit, constants)
        form = [
            written.functions(),
            written.captured(),
            fingerprint(unit),
            list(unit.parameters),
            unit.first_line - code.co_firstlineno,
            written.traits(traits),
        ]
        # What a launch makes of it must be the same.
        read, its_traits = read_form(form, function, constants)
        if its_traits != traits or not _are_same(read.captured, unit.captured):
            return None
        if fingerprint(make_unit(function, constants=constants, reads=unit.reads)) != form[2]:
            return None
        return form_key(function, constants), form
    except (NoFormError, UnidentifiedError, ValueError):
        return None


def _are_same(some: tuple[Captured, ...], others: tuple[Captured, ...]) -> bool:
    return len(some) == len(others) and all(
        one.name == other.name and one.path == other.path and one.value is other.value
        for one, other in zip(some, others, strict=True)
    )


class _Writing:
    """Writes the parts of a form."""

    def __init__(self, unit: FunctionUnit, constants: Mapping[str, Any]) -> None:
        self._unit = unit
        self._cells = {name: types.CellType(value) for name, value in constants.items()}
        #: The functions, each with its number.
        self._numbers: dict[Any, int] = {unit.function: 0}

    def functions(self) -> list[Any]:
        """Return what was read of each function; those that are called get their numbers."""
        rows = list[Any]()
        while len(rows) < len(self._numbers):
            function = list(self._numbers)[len(rows)]
            if function not in self._unit.reads:
                raise NoFormError
            reads, imported = self._unit.reads[function], imported_names(function)
            rows.append(
                [
                    [*describe_text(function), number_of_code(function, imported)],
                    imported,
                    describe_defaults(function, is_kernel=not rows),
                    {path: self._meaning(path, reads[path]) for path in sorted(reads)},
                ]
            )
        if len(rows) != len(self._unit.reads):
            raise NoFormError
        return rows

    def _meaning(self, path: str, value: Any) -> str:
        function = None if is_kernel(value) else device_function(value)
        if function is None:
            return describe_value(path, value)
        if code_of(value) is not None:
            raise NoFormError
        return f"{FUNCTION}{self._numbers.setdefault(function, len(self._numbers))}"

    def captured(self) -> list[Any]:
        """Return where each captured value is read."""
        return [[self._reader_of(each), each.path, each.name] for each in self._unit.captured]

    def _reader_of(self, captured: Captured) -> int:
        """Return the number of a function that reads the same value by the same names."""
        root: Any = captured.source
        while isinstance(root, AttributeReader):
            root = root.owner
        closures = {id(cell) for each in self._numbers for cell in each.__closure__ or ()}
        for function, number in self._numbers.items():
            if captured.path not in self._unit.reads[function]:
                continue
            mine = root_reader(function, self._cells if number == 0 else {}, captured.path)
            if isinstance(root, GlobalReader) and isinstance(mine, GlobalReader):
                if mine.namespace is root.namespace:
                    return number
            elif isinstance(root, CellReader) and isinstance(mine, CellReader):
                # A compile-time parameter is in a cell of the front end's own.
                is_given = number == 0 and root.name in self._cells
                if mine.cell is root.cell or (is_given and id(root.cell) not in closures):
                    return number
        raise NoFormError

    def traits(self, traits: KernelTraits) -> dict[str, Any]:
        """Return what was found, with places relative to the functions."""
        found = {field.name: getattr(traits, field.name) for field in fields(traits)}
        functions = {(each.__code__.co_filename, each.__qualname__): each for each in self._numbers}
        augmented = []
        for position, index_count, where, tuples in traits.augmented:
            function = functions.get((where.filename, where.function or ""))
            if function is None:
                raise NoFormError
            line = where.lineno - function.__code__.co_firstlineno
            place = [self._numbers[function], line, where.col_offset, where.end_col_offset]
            augmented.append([position, index_count, place, list(map(sorted, tuples))])
        found["augmented"] = augmented
        return {
            name: sorted(each) if isinstance(each, frozenset) else each
            for name, each in found.items()
        }
