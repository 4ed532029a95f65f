"""Negative powers of integers, which are integers: almost always 0.

NumPy raises an exception, and Python computes a float.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from numba import types

from kerneldsl.contract.findings import Finding
from kerneldsl.frontend.parts import Part
from kerneldsl.ir.operations import Operation
from kerneldsl.ir.recognize import constant_number

__all__ = ["negative_powers"]


def negative_powers(powers: Iterable[Operation]) -> Iterator[Finding]:
    """Yield the powers of integers with an exponent that is known to be negative."""
    for power in powers:
        if all(isinstance(each.type, types.Integer) for each in power.operands):
            exponent = constant_number(power.operands[-1])
            if power.source is not None and exponent is not None and exponent < 0:
                yield _finding(power.source)


def _finding(place: Part) -> Finding:
    parts, example = [place], ""
    match place.node:
        case ast.BinOp(left=base) | ast.AugAssign(target=base) | ast.Call(args=[base, *_]):
            parts.append(Part(place.unit, base))
            example = ", as float({1.text})"
    return Finding(
        place,
        "{0.text} is a power of integers with a negative exponent, and so an integer: 0 for every "
        f"base other than -1, 0 and 1. Make the base a float{example}.",
        tuple(parts),
    )
