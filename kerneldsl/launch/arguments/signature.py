"""Arguments against an explicit signature: what matches, what is converted, what is refused.

Arrays must have the declared dtype and rank. ``[:]`` takes any strides, ``[::1]`` contiguous ones.
Scalars are converted if the conversion keeps their meaning, as with Numba's signatures. A bool is
converted to any number. An int is converted to a float, a complex, or any integer type that holds
its value. A float is converted to any float or complex type: it is rounded, and becomes infinite
beyond its range. A complex is converted to a complex type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.contract.abi import parameter_count
from kerneldsl.errors import ArgumentError, ArgumentTypeError, ArgumentValueError
from kerneldsl.language.element_types import ElementKind, numpy_dtype
from kerneldsl.language.kinds import (
    ArrayKind,
    Kind,
    ScalarKind,
    TupleKind,
    format_signature,
    leaf_kinds,
)
from kerneldsl.language.signatures import is_signature
from kerneldsl.launch.arguments.binding import Binding, bits_of, kinds_of, value_of
from kerneldsl.memory.strided import contiguous_strides
from kerneldsl.utilities.formatting import format_count

__all__ = ["conform", "refuse_signatures"]


def refuse_signatures(name: str, parameters: tuple[str, ...], args: tuple[Any, ...]) -> None:
    """Refuse several signatures where one says what is compiled; a text is no argument.

    - raises `ArgumentTypeError` if the arguments of `name` are a signature, or several are among
      them. One text beside arguments of other types is refused as every text is.
    """
    listed = [each for arg in args for each in (arg if isinstance(arg, list) else (arg,))]
    found = [each for each in listed if is_signature(each)]
    if len(found) > 1 or (found and len(found) == len(listed)):
        raise ArgumentTypeError(
            f"{name} was given {format_count(len(found), 'signature')} in "
            f"{'a list' if len(args) == 1 else f'{len(args)} arguments'}",
            value=found,
            limit="Code is made for one signature, which is one text with a type for each "
            f"parameter ({', '.join(parameters)})",
            remedy="Give them one by one: [kernel.ptx(each, …) for each in signatures]; write the "
            "types of several parameters in one text, with commas",
        )


def conform(
    binding: Binding,
    signatures: tuple[tuple[tuple[Kind, ...], tuple[int, ...]], ...],
    names: tuple[str, ...],
) -> None:
    """Turn a binding's values into those of the declared kinds, in place.

    Of several signatures it is the one with the fewest conversions that takes the arguments.

    - `binding`: the arguments as they are.
    - `signatures`: the declared kinds, and their codes.
    - `names`: the parameters' names.
    - raises `ArgumentTypeError` if an argument is of another kind.
    - raises `ArgumentValueError` if an integer does not fit the declared type.
    """
    if any(binding.codes == codes for _, codes in signatures):
        return
    if len(signatures) == 1:
        _convert_to(binding, *signatures[0], names)
        return
    found = tuple(leaf_kinds(kinds_of(binding.codes)))

    def conversion_count(signature: tuple[tuple[Kind, ...], tuple[int, ...]]) -> int:
        pairs = zip(found, leaf_kinds(signature[0]), strict=False)
        return sum(isinstance(mine, ScalarKind) and mine != its for mine, its in pairs)

    for declared, codes in sorted(signatures, key=conversion_count):
        try:
            _convert_to(binding, declared, codes, names)
        except ArgumentError:
            continue
        return
    raise ArgumentTypeError(
        f"the arguments are ({format_signature(kinds_of(binding.codes))})",
        value=binding.codes,
        limit="The kernel's signatures are "
        + " and ".join(f"({format_signature(declared)})" for declared, _ in signatures),
        remedy="Convert the arguments, or add their signature to the list",
    )


def _convert_to(
    binding: Binding, declared: tuple[Kind, ...], codes: tuple[int, ...], names: tuple[str, ...]
) -> None:
    values: list[Any] = []
    moved: dict[int, int] = {}
    position = 0
    for name, found, wanted in zip(names, kinds_of(binding.codes), declared, strict=True):
        position = _conform_one(name, found, wanted, binding, position, values, moved)
    binding.host = [(moved[index], array) for index, array in binding.host]
    binding.values = values
    binding.codes = codes


def _conform_one(
    name: str,
    found: Kind,
    wanted: Kind,
    binding: Binding,
    position: int,
    values: list[Any],
    moved: dict[int, int],
) -> int:
    """Append the values of one argument; return the position after its own."""
    given = binding.values
    if isinstance(found, ScalarKind) and found == wanted:
        end = position + parameter_count(found)
        values += given[position:end]
        return end
    if (
        isinstance(found, ScalarKind)
        and isinstance(wanted, ScalarKind)
        and found.element.is_number
        and wanted.element.is_number
    ):
        width = parameter_count(found)
        value: Any = given[position] if width == 1 else complex(*given[position : position + 2])
        if found.element.is_passed_as_bits:
            value = value_of(value, found.dtype)
        values += _convert(name, value, found, wanted)
        return position + width
    if isinstance(found, ArrayKind) and isinstance(wanted, ArrayKind):
        same = found.dtype == wanted.dtype and found.ndim == wanted.ndim
        if same and wanted.layout in ("A", found.layout):
            moved[position] = len(values)
            end = position + 1 + found.ndim
            shape = given[position + 1 : end]
            values += given[position:end]
            if found.layout == "A":
                values += given[end : end + found.ndim]
                end += found.ndim
            elif wanted.layout == "A":
                values += contiguous_strides(tuple(shape), found.element.nbytes, found.layout)
            return end
    if (
        isinstance(found, TupleKind)
        and isinstance(wanted, TupleKind)
        and len(found.elements) == len(wanted.elements)
    ):
        for i, pair in enumerate(zip(found.elements, wanted.elements, strict=True)):
            position = _conform_one(f"{name}[{i}]", *pair, binding, position, values, moved)
        return position
    raise ArgumentTypeError(
        f"parameter {name!r} was given {found}",
        value=found,
        limit=f"The kernel's signature expects {wanted}",
        remedy="Convert the argument, or change the signature in the decorator",
    )


def _convert(name: str, value: Any, found: ScalarKind, wanted: ScalarKind) -> tuple[Any, ...]:
    source, target = found.element, wanted.element
    if target.is_integer and (source.is_integer or source.kind is ElementKind.BOOL):
        low, high = target.integer_range
        if not low <= int(value) <= high:
            raise ArgumentValueError(
                f"parameter {name!r} was given {int(value)}",
                value=value,
                limit=f"The kernel's signature expects {wanted}, {low} to {high}",
            )
        return (int(value),)
    if (target.is_float or target.is_complex) and not source.is_complex:
        part = numpy_dtype(target.arithmetic if target.is_complex else target.name)
        with np.errstate(over="ignore"):
            number = part.type(value)
        if target.is_passed_as_bits:
            return (bits_of(number),)
        real = float(number)
        return (real, 0.0) if target.is_complex else (real,)
    if target.is_complex and source.is_complex:
        with np.errstate(over="ignore"):
            converted = complex(numpy_dtype(target.name).type(value))
        return converted.real, converted.imag
    raise ArgumentTypeError(
        f"parameter {name!r} was given {found}",
        value=value,
        limit=f"The kernel's signature expects {wanted}, and the conversion would lose its meaning",
        remedy=f"Pass np.{'bool_' if wanted.dtype == 'bool' else wanted.dtype}(value)",
    )
