"""Integers as sums of atoms with integer factors.

An atom is a value that is no sum, such as an extent, a coordinate or a product of two variables.
Values that are equal have one name, so equal sums have equal forms. Signed arithmetic of 64 bits is
taken not to overflow, as in C.
"""

from __future__ import annotations

import operator

from numba import types

from kerneldsl.analysis.linear import Linear
from kerneldsl.ir.operations import Operation, Value
from kerneldsl.ir.recognize import constant_number, operands_of, operator_of

__all__ = ["LinearForms"]

#: Operations of one thread that give the same value each time.
_SAME = ("threadIdx", "blockIdx", "blockDim", "gridDim", "grid", "gridsize", "laneid", "warpsize")


class LinearForms:
    """Forms of the integers of one function."""

    def __init__(self) -> None:
        #: A value of each atom.
        self.atoms: dict[str, Value] = {}
        self._forms: dict[Value, Linear | None] = {}
        self._numbers: dict[Value, int] = {}

    def form(self, value: Value) -> Linear | None:
        """Return an integer as a sum of atoms."""
        if not isinstance(value.type, types.Integer):
            return None
        if value not in self._forms:
            self._forms[value] = self._form(value)
        return self._forms[value]

    def _form(self, value: Value) -> Linear | None:
        made = value.owner
        number = constant_number(value)
        if number is not None:
            return Linear((), number)
        if isinstance(made, Operation) and value.type.signed:
            function = operator_of(made)
            operands = operands_of(made)
            forms = [self.form(each) for each in operands]
            if function is operator.neg and forms[0] is not None:
                return forms[0].scale(-1)
            if made.name == "cast" and forms[0] is not None:
                return forms[0]
            if len(forms) == 2 and forms[0] is not None and forms[1] is not None:
                one, two = forms
                assert one is not None
                assert two is not None
                if function in (operator.add, operator.iadd):
                    return one + two
                if function in (operator.sub, operator.isub):
                    return one - two
                if function in (operator.mul, operator.imul):
                    if not two.terms:
                        return one.scale(two.constant)
                    if not one.terms:
                        return two.scale(one.constant)
        return Linear.of({self.name(value): 1})

    def name(self, value: Value) -> str:
        """Return the name of an atom; values that are equal have one name."""
        made = value.owner
        name = ""
        if isinstance(made, Operation) and not made.regions:
            stem = made.name.partition(".")[0]
            if stem in _SAME and not made.operands:
                name = f"{made.name}.{made.attributes.get('axis', '')}"
            elif made.name in ("array.extent", "array.size"):
                axis = made.attributes.get("axis", 0 if made.operands[0].type.ndim == 1 else "all")
                name = f"extent.{self.number(made.operands[0])}.{axis}"
            elif operator_of(made) is not None:
                forms = [self.form(each) for each in operands_of(made)]
                if None not in forms:
                    name = f"{operator_of(made)}{forms}"
        name = name or f"v{self.number(value)}"
        self.atoms.setdefault(name, value)
        return name

    def number(self, value: Value) -> int:
        return self._numbers.setdefault(value, len(self._numbers))
