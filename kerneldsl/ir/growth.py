"""By how much integers grow with the axes of a block and of ``grid``, and with rounds of loops.

An integer is a sum of atoms (:mod:`kerneldsl.ir.linear_forms`), and each atom has a form of
:mod:`kerneldsl.analysis.index_forms`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import reduce

from numba import types

from kerneldsl.analysis.index_forms import LOADED, UNIFORM, IndexForm, either, operate
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.ir.linear_forms import Linear, LinearForms
from kerneldsl.ir.operation_classes import class_of
from kerneldsl.ir.operations import (
    LOOPS,
    Effect,
    Function,
    Operation,
    Region,
    Value,
    ends_of,
    given_to,
)
from kerneldsl.ir.recognize import operands_of, operator_of, plain_operator
from kerneldsl.language.intrinsics.intrinsic import Effect as LanguageEffect

__all__ = ["GrowthForms"]

_COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
_LENGTHS = ("array.extent", "array.size", "array.stride")


class GrowthForms(LinearForms):
    """Forms of integers by axes and loops, for one block if it is known."""

    def __init__(self, function: Function, block_dim: tuple[int, int, int] | None) -> None:
        super().__init__()
        self.block_dim = block_dim
        #: Forms of atoms, among them the arguments of loops that are walked.
        self.known: dict[Value, IndexForm] = {}
        axes = (
            each.attributes.get("axis", 0) for each in function.body.walk() if each.name == "grid"
        )
        self.axis_count = 1 + max(axes, default=0)

    def forget(self, region: Region) -> None:
        """Forget what was found of values in a region, which a loop's argument may change."""
        for operation in region.walk():
            for value in operation.results:
                self.known.pop(value, None)

    def of(self, value: Value) -> IndexForm:
        """Return how a value grows."""
        linear = self.form(value)
        if linear is None:
            return self.of_atom(value)
        found = IndexForm(constant=linear.constant)
        for atom, factor in linear.terms:
            found = found.plus(self.of_atom(self.atoms[atom]).times(factor))
        return found

    def of_atom(self, value: Value) -> IndexForm:
        found = self.known.get(value)
        if found is None:
            found = self.known[value] = self._of_atom(value)
        return found

    def number_of(self, value: Value) -> int | None:
        """Return the number that an integer is, if that is known."""
        return self.of(value).number if isinstance(value.type, types.Integer) else None

    # -- atoms ------------------------------------------------------------------------------------

    def _form(self, value: Value) -> Linear | None:
        made = value.owner
        if self.block_dim is not None and isinstance(made, Operation):
            stem, _, axis = made.name.partition(".")
            if stem == "blockDim":
                return Linear((), self.block_dim["xyz".index(axis)])
        return super()._form(value)

    def name(self, value: Value) -> str:
        """Return the name of an atom; elements that are loaded at one place are taken for equal."""
        made = value.owner
        if isinstance(made, Operation) and made.name == "array.load":
            array, *index = made.operands
            name = f"load.{self.number(array)}{[self.key(each) for each in index]}"
            self.atoms.setdefault(name, value)
            return name
        return super().name(value)

    def key(self, value: Value) -> Linear | int:
        """Return what is the same for equal values."""
        form = self.form(value)
        return self.number(value) if form is None else form

    def _of_atom(self, value: Value) -> IndexForm:
        made = value.owner
        if not isinstance(made, Operation):
            return UNIFORM  # a parameter
        use = made.attributes.get("use")
        if made.name == "grid" and value.type == types.int64:
            return IndexForm.grid(made.attributes.get("axis", 0), self.axis_count)
        if made.name.startswith("threadIdx."):
            return IndexForm.axis("xyz".index(made.name[-1]))
        if isinstance(use, IntrinsicUse):
            is_of_lane = made.name == "laneid" or LanguageEffect.ATOMIC in use.intrinsic.effect
            return LOADED if is_of_lane or class_of(made) is not None else UNIFORM
        match made.name:
            case "const":
                return UNIFORM
            case "cast":
                return self.of(made.operands[0])
            case "if" | "labeled":
                number = made.results.index(value)
                ends = [self.of(end.operands[number]) for end in ends_of(made)]
                return reduce(either, ends) if ends else UNIFORM
            case "numba":
                return self._of_function(made)
            case name if name in LOOPS:
                return self.of(given_to(made)[made.results.index(value)])._replace(constant=None)
            case name if name in _LENGTHS:
                return UNIFORM
        if made.effect & Effect.READ or made.name.startswith("tile."):
            return LOADED
        return self._mixed(made.operands)

    def _of_function(self, made: Operation) -> IndexForm:
        function, operands = operator_of(made), operands_of(made)
        forms = [self.of(each) for each in operands]
        if function in (min, max):
            return reduce(either, forms)
        if function in _COMPARISONS:
            return UNIFORM
        if function in (operator.invert, operator.pos) and len(forms) == 1:
            return forms[0]
        plain = plain_operator(function)
        if plain is not None and len(forms) == 2:
            return operate(plain, *forms)
        return self._mixed(operands)

    def _mixed(self, operands: Iterable[Value]) -> IndexForm:
        return UNIFORM if all(self.of(each).is_uniform for each in operands) else LOADED
