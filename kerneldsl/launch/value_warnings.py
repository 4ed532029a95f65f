"""Warnings of values that lose something, when a kernel is made for arguments.

They need no Numba, so that code from the disk cache is warned of, too.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from kerneldsl.analysis.expressions import folded, written
from kerneldsl.analysis.lossy_stores import LossyStore, lossy_stores
from kerneldsl.analysis.mixed_extremes import MixedExtreme, mixed_extremes
from kerneldsl.analysis.unsigned_arithmetic import (
    Finding,
    UnsignedDifference,
    WidenedShift,
    unsigned_arithmetic,
)
from kerneldsl.analysis.unsigned_bounds import number_of
from kerneldsl.contract import Specialization
from kerneldsl.errors import KernelWarning
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.frontend.user_places import user_place
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import leaf_kinds

__all__ = ["lost_values", "warn_at", "warn_of_lost_values"]


def lost_values(specialization: Specialization) -> Iterator[LossyStore | MixedExtreme | Finding]:
    """Find floats and signs that get lost, and unsigned results that are seldom meant."""
    unit, kinds = specialization.unit, specialization.kinds
    dtypes = _dtypes(specialization)
    if any(ELEMENT_TYPES[name].is_integer for name in dtypes):
        yield from lossy_stores(unit, kinds)
        yield from mixed_extremes(unit, kinds)
    if any(ELEMENT_TYPES[name].is_unsigned for name in dtypes):
        yield from unsigned_arithmetic(unit, kinds)


def warn_of_lost_values(specialization: Specialization) -> None:
    """Warn of what :func:`lost_values` finds, each in its place."""
    for found in lost_values(specialization):
        warn_at(specialization.unit, found.unit, found.node, _text(found))


def warn_at(kernel: FunctionUnit, unit: FunctionUnit, node: ast.AST, text: str) -> None:
    """Warn of a place in a function of a kernel."""
    where = user_place(unit.locate(node), kernel)
    text = f"{unit.qualname}: {text}\n  at " + where.render().replace("\n", "\n  ")
    # Without a registry: it is shown for each compilation, whatever was shown before.
    warnings.warn_explicit(text, KernelWarning, where.filename, where.lineno)


def _dtypes(specialization: Specialization) -> set[str]:
    """Return the element types that a kernel is given or declares; a launch waits for them."""
    found = {kind.element.name for kind in leaf_kinds(specialization.kinds)}
    units = specialization.unit.reachable()
    declared = (use.static.get("dtype") for unit in units for use in unit.uses.values())
    return found | {name for name in declared if name in ELEMENT_TYPES}


def _text(found: LossyStore | MixedExtreme | Finding) -> str:
    if isinstance(found, LossyStore):
        return _of_store(found)
    return _of_extreme(found) if isinstance(found, MixedExtreme) else _of_unsigned(found)


def _of_store(store: LossyStore) -> str:
    return (
        f"a value of type {store.value} is stored in an element of type "
        f"{store.element}, which cuts off its fraction. If that is meant, write int(…) around it; "
        f"else make the array one of {store.value}, as array.astype(np.{store.value}) does."
    )


def _of_unsigned(found: Finding) -> str:
    return _of_shift(found) if isinstance(found, WidenedShift) else _of_difference(found)


def _of_extreme(found: MixedExtreme) -> str:
    unit, element, dtype = found.unit, found.element_type, found.value_type
    value, array = written(found.value, unit), written(found.node.args[0], unit)
    lines = [unit.locate(node).lineno for node in (found.source, found.node)]
    row = ELEMENT_TYPES[element]
    changed, remedy = (
        (f"a negative number is 2**{row.nbytes * 8} too large", "where it is never negative")
        if row.is_unsigned and not ELEMENT_TYPES[dtype].is_unsigned
        else ("a number that does not fit wraps around", "where it always fits")
    )
    if folded(found.value) is not None:
        remedy = "where that is meant"
    return (
        f"{value} is {dtype} (line {lines[0]}) and the elements of {array} are {element}: "
        f"{written(found.node.func, unit)} compares them as {element} (line {lines[1]}), in which "
        f"{changed}. Write np.{element}({value}) {remedy}."
    )


def _of_difference(found: UnsignedDifference) -> str:
    unit = found.unit
    use = {
        "abs": "abs() leaves it as it is",
        "compared": "it is never negative",
        "index": "it is an index",
        "number": "it is used as a number that is never negative",
    }.get(found.becomes, f"it is converted to {found.becomes}")
    first, *rest = (written(each, unit) for each in found.operands)
    text = written(found.node, unit)
    signed = f"np.int64({first})"
    if not rest:
        remedy = text.replace(first, signed)
    elif found.subtrahend == "uint64" and number_of(found.operands[1], unit) is None:
        remedy = f"{signed} - np.int64({rest[0]})"
    else:
        remedy = f"{signed} - {rest[0]}"
    if isinstance(found.node, ast.AugAssign):
        text, remedy = f"{first} - {rest[0]}", f"{first} = {remedy}"
    what, dtype = ("difference", found.dtype) if rest else ("number", found.subtrahend)
    bits = ELEMENT_TYPES[dtype].nbytes * 8
    line = found.user.locate(found.use).lineno
    return (
        f"{text} is a {dtype}, and {use} (line {line}): a negative {what} is 2**{bits} too large. "
        f"Write {remedy}, or np.{dtype}({text}) where it is never negative."
    )


def _of_shift(found: WidenedShift) -> str:
    unit, narrow = found.unit, found.narrow_type
    lines = [unit.locate(node).lineno for node in (found.narrow, found.wide)]
    bits = ELEMENT_TYPES[narrow].nbytes * 8
    return (
        f"{found.variable} is {narrow} where line {lines[0]} assigns it and {found.wide_type} "
        f"where line {lines[1]} does, so that it is not reduced modulo 2**{bits} and the right "
        f"shift brings in its upper bits. If {bits} bits are meant, write {found.variable} = "
        f"np.{narrow}({ast.unparse(found.value)}) in line {lines[1]}."
    )
