"""Integers as sums of atoms with integer factors.

An atom is a value that is no sum, such as an extent, a coordinate or a product of two variables.
Values that are equal have one name, so equal sums have equal forms. Signed arithmetic of 64 bits is
taken not to overflow, as in C, except given values.

:class:`GrowthForms` also finds how atoms grow with the axes of a block and of ``grid``, and with
rounds of loops (:mod:`kerneldsl.analysis.index_forms`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import field
from functools import reduce

from numba import types

from kerneldsl.analysis.index_forms import LOADED, UNIFORM, IndexForm, either, operate
from kerneldsl.frontend.unit import IntrinsicUse
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
from kerneldsl.ir.recognize import BINARY, constant_number, operands_of, operator_of
from kerneldsl.language.intrinsics.intrinsic import Effect as LanguageEffect
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Fact", "GrowthForms", "Linear", "LinearForms", "lower_bound"]

#: Operations of one thread that give the same value each time.
_SAME = ("threadIdx", "blockIdx", "blockDim", "gridDim", "grid", "gridsize", "laneid", "warpsize")


class LinearForms:
    """Forms of the integers of one function; those that may overflow are atoms."""

    def __init__(self, overflowing: Container[Value] = ()) -> None:
        self.overflowing = overflowing
        #: A value of each atom.
        self.atoms: dict[str, Value] = {}
        self._forms: dict[Value, Linear | None] = {}
        self._numbers: dict[object, int] = {}

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
        if isinstance(made, Operation) and value.type.signed and value not in self.overflowing:
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
                if function is operator.add:
                    return one + two
                if function is operator.sub:
                    return one - two
                if function is operator.mul:
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
                    # A number, since the text of the forms doubles with each value used twice.
                    name = f"e{self.number((operator_of(made), *forms))}"
        name = name or f"v{self.number(value)}"
        self.atoms.setdefault(name, value)
        return name

    def number(self, key: object) -> int:
        """Return a number of a value, or of an operator and the forms of its operands."""
        return self._numbers.setdefault(key, len(self._numbers))


_MAX_STEPS = 6


@dataclass(frozen=True, slots=True)
class Linear:
    """A sum of atoms, each with a factor, and a constant."""

    #: Atoms and their factors, which are not 0, sorted by atom.
    terms: tuple[tuple[str, int], ...] = ()
    #: Added to them.
    constant: int = 0

    @staticmethod
    def of(terms: Mapping[str, int], constant: int = 0) -> Linear:
        """Make a form of a mapping from atoms to factors."""
        return Linear(tuple(sorted((a, k) for a, k in terms.items() if k)), constant)

    def __add__(self, other: Linear) -> Linear:
        return self.plus(other, 1)

    def __sub__(self, other: Linear) -> Linear:
        return self.plus(other, -1)

    def plus(self, other: Linear, times: int) -> Linear:
        """Add a multiple of another form."""
        terms, is_sorted = dict(self.terms), True
        for atom, factor in other.terms:
            before = terms.get(atom, 0)
            now = before + times * factor
            if now:
                is_sorted &= before != 0
                terms[atom] = now
            elif before:
                del terms[atom]
        items = terms.items()
        return Linear(
            tuple(items if is_sorted else sorted(items)), self.constant + times * other.constant
        )

    def scale(self, factor: int) -> Linear:
        """Multiply by an integer."""
        if factor == 0:
            return Linear()
        return Linear(tuple((a, k * factor) for a, k in self.terms), self.constant * factor)

    def factor(self, atom: str) -> int:
        """Return the factor of an atom; 0 if it does not occur."""
        for each, factor in self.terms:
            if each == atom:
                return factor
        return 0

    def substitute(self, atom: str, value: Linear) -> Linear:
        """Put another form in place of an atom."""
        factor = self.factor(atom)
        if factor == 0:
            return self
        rest = Linear(tuple(t for t in self.terms if t[0] != atom), self.constant)
        return rest + value.scale(factor)

    @property
    def atoms(self) -> tuple[str, ...]:
        """The atoms, sorted."""
        return tuple(a for a, _ in self.terms)


@dataclass(frozen=True, slots=True)
class Fact:
    """``form >= 0``, or ``form > 0``."""

    #: The bounded form.
    form: Linear
    #: Whether the form is greater than 0, that is, at least 1.
    is_strict: bool = False


def lower_bound(
    form: Linear,
    facts: Collection[Fact],
    bound_of_atom: Callable[[str], int | None],
    may_go_on: Callable[[], bool],
) -> int | None:
    """Find a constant that a form is never below.

    Atoms are eliminated one after the other, each by subtracting a multiple of a fact in which it
    has a factor of the same sign.

    `bound_of_atom` says what an atom is never below for reasons of its own. `may_go_on` is asked at
    each step; the search gives up if it says no. The result is the best bound found, ``None`` if
    there is none.
    """
    usable: dict[str, list[tuple[Linear, int, int]]] = {}
    for fact in facts:
        for atom, factor in fact.form.terms:
            usable.setdefault(atom, []).append((fact.form, factor, int(fact.is_strict)))
    return _Search(usable, bound_of_atom, may_go_on).best(form, 0, _MAX_STEPS)


@dataclass
class _Search:
    """A search for a bound; an object, since a function that calls itself refers to itself."""

    #: Facts by atom: the form, the atom's factor in it, and the form's lower bound.
    usable: dict[str, list[tuple[Linear, int, int]]]
    bound_of_atom: Callable[[str], int | None]
    may_go_on: Callable[[], bool]
    #: Bounds of atoms that were found.
    known: dict[str, int | None] = field(default_factory=dict)

    def own_bound(self, atom: str) -> int | None:
        if atom not in self.known:
            self.known[atom] = self.bound_of_atom(atom)
        return self.known[atom]

    def best(self, remainder: Linear, gained: int, steps: int) -> int | None:
        """Return the best bound that is found for what is left of a form."""
        if not remainder.terms:
            return remainder.constant + gained
        if steps == 0 or not self.may_go_on():
            return None
        # An atom that is to be bounded from above has fewer facts; start with those.
        atom, factor = min(remainder.terms, key=lambda t: (t[1] > 0, t[0]))
        found: list[int | None] = []
        if factor > 0:
            own = self.own_bound(atom)
            if own is not None:
                rest = Linear(tuple(t for t in remainder.terms if t[0] != atom), remainder.constant)
                found.append(self.best(rest, gained + factor * own, steps - 1))
        for known, own_factor, gain in self.usable.get(atom, ()):
            if factor % own_factor or factor // own_factor < 1:
                continue
            times = factor // own_factor
            less = remainder.plus(known, -times)
            found.append(self.best(less, gained + times * gain, steps - 1))
        return max((b for b in found if b is not None), default=None)


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
            name = f"load.{self.number((array, *map(self.key, index)))}"
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
        if function in BINARY and len(forms) == 2:
            return operate(function, *forms)
        return self._mixed(operands)

    def _mixed(self, operands: Iterable[Value]) -> IndexForm:
        return UNIFORM if all(self.of(each).is_uniform for each in operands) else LOADED
