"""Unsigned arithmetic with a result that is seldom meant.

Numba computes unsigned numbers of fewer than 64 bits as uint64. A difference of two of them that
is negative is then 2**64 too large, which shows where its size matters: in ``abs``, as a float,
beside a negative number. A difference that a literal makes unsigned here (``a[i] - 1`` of uint64)
is an int64 in Numba: it differs wherever more than its bits is looked at, as in an index, a
quotient, a right shift, a comparison. And a variable that begins as a uint32 and is multiplied is
not reduced modulo 2**32, so a right shift of it, as in a hash, brings in bits that are no longer
there in C.

Only what is certain is found: the types are those that are inferred without Numba.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from kerneldsl.analysis.inferred_types import InferredTypes, TypesOfCall
from kerneldsl.analysis.library_names import library_name
from kerneldsl.analysis.observed_values import (
    ObservedPlace,
    ObservedValues,
    ObservedValuesOfCalls,
)
from kerneldsl.analysis.ordered_operands import OrderedOperands
from kerneldsl.analysis.reaching import Reaching
from kerneldsl.analysis.unsigned_bounds import UnsignedBound, number_of
from kerneldsl.analysis.unsigned_by_literals import UnsignedByLiterals
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import Kind

__all__ = [
    "Finding",
    "UnsignedDifference",
    "WidenedShift",
    "unsigned_arithmetic",
]

#: From this factor on a product is taken to be meant modulo the number's width.
_LARGE_FACTOR = 1 << 16
_SIZES = frozenset({"abs", "numpy.absolute"})
#: Uses of a difference in which its size is what matters.
_OF_SIZE = ("abs", "compared")


class UnsignedDifference(NamedTuple):
    """A difference of unsigned numbers, or a negated one, where its size matters."""

    unit: FunctionUnit
    #: The operation, and where its value is used.
    node: ast.AST
    use: ast.AST
    #: The function that uses it.
    user: FunctionUnit
    #: What is subtracted from what; of a negated number, the number alone.
    operands: tuple[ast.expr, ...]
    #: What it is there: ``"abs"``, ``"compared"``, ``"index"``, the float that it is converted to,
    #: or ``"number"``.
    becomes: str
    #: Its type, and that of what is subtracted.
    dtype: str
    subtrahend: str


class WidenedShift(NamedTuple):
    """A right shift of a variable that began as a narrower unsigned number."""

    unit: FunctionUnit
    node: ast.AST
    variable: str
    #: Where it is assigned, first and then.
    narrow: ast.AST
    wide: ast.AST
    #: What it is assigned then.
    value: ast.expr
    narrow_type: str
    wide_type: str


Finding: TypeAlias = UnsignedDifference | WidenedShift


def unsigned_arithmetic(unit: FunctionUnit, kinds: Sequence[Kind]) -> Iterator[Finding]:
    """Yield what is found in a kernel, and in what it calls, each place once."""
    seen: set[ast.AST] = set()
    functions = [_Function(types) for types in InferredTypes(unit, kinds).of_calls()]
    by_literals = UnsignedByLiterals((each.unit, each.reaching) for each in functions)
    observed = ObservedValuesOfCalls(each.observed for each in functions)
    for function in functions:
        seen |= function.types.may_be_dropped()
        for found in function.findings(by_literals, observed):
            if found.node not in seen:
                seen.add(found.node)
                yield found


class _Function:
    """Looks through one function, as it is called."""

    def __init__(self, types: TypesOfCall) -> None:
        self.types = types
        self.unit = types.unit
        self.reaching = Reaching(types.unit.tree)
        self._bound = UnsignedBound(self.unit, self._type, self.reaching)
        self.observed = ObservedValues(self.unit, self.reaching, self._type)
        self._ordered = OrderedOperands(
            self.unit, self.reaching, self._bound, self.observed.parents
        )

    def _type(self, node: ast.AST) -> str | None:
        return self.types.of(node) if isinstance(node, ast.expr) else None

    def findings(
        self, by_literals: UnsignedByLiterals, observed: ObservedValuesOfCalls
    ) -> Iterator[Finding]:
        """Yield them."""
        shifted: set[str] = set()
        for node in walk_here(self.unit.tree):
            difference = self._difference(node, by_literals, observed)
            if difference is not None:
                yield difference
            found = self._shift(node)
            if found is not None and found.variable not in shifted:
                shifted.add(found.variable)
                yield found

    # -------------------------------------------------------------------------- differences

    def _difference(
        self, node: ast.AST, by_literals: UnsignedByLiterals, observed: ObservedValuesOfCalls
    ) -> UnsignedDifference | None:
        operands: tuple[ast.expr, ...]
        value: ast.expr
        match node:
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                operands, value = (left, right), node
            case ast.AugAssign(target=ast.Name() as left, op=ast.Sub(), value=right):
                operands, value = (left, right), left
            case ast.UnaryOp(op=ast.USub() | ast.Invert(), operand=operand):
                operands, value = (operand,), node
            case _:
                return None
        dtype, subtrahend = self._type(value), self._type(operands[-1])
        if not (_is_unsigned(dtype) and all(_is_unsigned(self._type(n)) for n in operands)):
            return None
        is_by_literal = any(n in by_literals for n in (*operands, value))
        if len(operands) > 1 and self._ordered.are_ordered(node, *operands):
            return None
        if self._is_made_up_for(node):
            return None
        is_stored = isinstance(node, ast.AugAssign)
        # ``~x`` of a uint8 is 255 - x, also as a float.
        is_inverted = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert)
        start = self.observed.uses([value]) if is_stored else [value]
        for place in observed.places(self.observed, start):
            becomes = _becomes(place)
            is_size = not is_inverted and (becomes in _OF_SIZE or _is_float(becomes))
            if is_by_literal or is_size or _is_by_literal(place.use, by_literals):
                user = place.function.unit
                types = dtype or "", subtrahend or ""
                return UnsignedDifference(
                    self.unit, node, place.use, user, operands, becomes, *types
                )
        return None

    def _is_made_up_for(self, node: ast.AST) -> bool:
        """Return whether a sign is lost at once.

        As much as is subtracted at most is added to a difference, or its bits are masked.
        """
        parent = self.observed.parents[node]
        match node, parent:
            case _, ast.BinOp(op=ast.BitAnd()):
                return True
            case ast.BinOp(right=right), ast.BinOp(left=one, op=ast.Add(), right=two):
                most = self._bound.of(right)
                added = number_of(two if one is node else one, self.unit)
                return most is not None and added is not None and most <= added
        return False

    # ------------------------------------------------------------------------------- shifts

    def _shift(self, node: ast.AST) -> WidenedShift | None:
        match node:
            case ast.BinOp(op=ast.RShift(), left=ast.Name() as use):
                pass
            case ast.AugAssign(op=ast.RShift(), target=ast.Name() as use):
                pass
            case _:
                return None
        stores = [each for each in self.reaching.values if _name_of(each) == use.id]
        kinds = {each: self._type(each) for each in stores}
        narrow = [each for each, kind in kinds.items() if kind is not None and _is_narrow(kind)]
        if not narrow or any(value is None for value in kinds.values()):
            return None
        limit = ELEMENT_TYPES[kinds[narrow[0]] or ""].integer_range[1] + 1
        reached = self.reaching.stores.get(use, frozenset())
        for wide in (each for each in stores if each in reached and each not in narrow):
            kind, value = kinds[wide] or "", self.reaching.values[wide]
            is_wider = ELEMENT_TYPES[kind].is_integer and not self._bound.is_below(wide, limit)
            if is_wider and any(self._mixes_bits(self.reaching.values[each]) for each in stores):
                return WidenedShift(
                    self.unit,
                    node,
                    self.unit.spellings.get(use.id, use.id),
                    narrow[0],
                    wide,
                    value,
                    kinds[narrow[0]] or "",
                    kind,
                )
        return None

    def _mixes_bits(self, value: ast.expr) -> bool:
        """Return whether a value is computed as those of hashes and random numbers are."""
        for node in walk_here(value):
            match node:
                case ast.BinOp(op=ast.BitXor() | ast.BitOr() | ast.LShift()):
                    return True
                case ast.BinOp(left=left, op=ast.Mult(), right=right):
                    for each in (left, right):
                        number = self.unit.literal(each)
                        if number is not None and number >= _LARGE_FACTOR:
                            return True
        return False


def _is_by_literal(use: ast.AST, by_literals: UnsignedByLiterals) -> bool:
    """Return whether a literal made an operation unsigned, as ``(a - b) // 2`` is."""
    return use in by_literals or (isinstance(use, ast.AugAssign) and use.value in by_literals)


def _becomes(place: ObservedPlace) -> str:
    """Return what a value is where it is observed."""
    function, use, part = place
    candidates: list[ast.AST] = [use]
    match use:
        case ast.Call(func=name) if library_name(name, function.unit.namespace) in _SIZES:
            return "abs"
        case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()]):
            others = (each for each in (left, *use.comparators) if each is not part)
            return "compared" if any(map(_is_low, others)) else "number"
        case ast.Assign(targets=targets):
            candidates = [*targets]
        case ast.AugAssign(target=target):
            candidates = [target]
        case ast.Subscript():
            return "index"
    floats = (name for name in map(function.type_of, candidates) if _is_float(name))
    return next(floats, None) or "number"


def _name_of(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else None


def _is_float(name: str | None) -> bool:
    return name in ELEMENT_TYPES and (
        ELEMENT_TYPES[name].is_float or ELEMENT_TYPES[name].is_complex
    )


def _is_unsigned(name: str | None) -> bool:
    return name is not None and ELEMENT_TYPES[name].is_unsigned


def _is_narrow(name: str) -> bool:
    return ELEMENT_TYPES[name].is_unsigned and name != "uint64"


def _is_low(node: ast.expr) -> bool:
    """Return whether a value is a literal that no unsigned number is below."""
    match node:
        case ast.Constant(value=int(number)):
            return number == 0
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int())):
            return True
    return False
