"""Unsigned arithmetic whose result is seldom the one that was meant.

Numba computes unsigned numbers of fewer than 64 bits as uint64. A difference of two of them that is
negative is then 2**64 too large, which shows where its size matters: in ``abs``, as a float, beside
a negative number. And a variable that begins as a uint32 and is multiplied is not reduced modulo
2**32, so a right shift of it, as in a hash, brings in bits that are no longer there in C.

Only what is certain is found: the types are those that are inferred without Numba.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kerneldsl.analysis.inferred_types import InferredTypes, TypesOfCall
from kerneldsl.analysis.library_names import library_name
from kerneldsl.analysis.reaching import Reaching
from kerneldsl.analysis.unsigned_bounds import UnsignedBound
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import Kind

__all__ = ["UnsignedDifference", "WidenedShift", "unsigned_arithmetic"]

#: From this factor on a product is taken to be meant modulo the number's width.
_LARGE_FACTOR = 1 << 16
_SIZES = frozenset({"abs", "numpy.absolute", "numpy.fabs", "math.fabs", "float"})


class UnsignedDifference(NamedTuple):
    """A difference of unsigned numbers where its size matters."""

    unit: FunctionUnit
    #: The difference, and where it is used.
    node: ast.BinOp
    use: ast.AST
    #: What it is there: ``"abs"``, ``"compared"``, or the float that it is converted to.
    becomes: str
    #: Its type.
    dtype: str


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


def unsigned_arithmetic(
    unit: FunctionUnit, kinds: Sequence[Kind]
) -> Iterator[UnsignedDifference | WidenedShift]:
    """Yield what is found in a kernel, and in what it calls, each place once."""
    seen: set[ast.AST] = set()
    for types in InferredTypes(unit, kinds).of_calls():
        seen |= types.may_be_dropped()
        for found in _Function(types).findings():
            if found.node not in seen:
                seen.add(found.node)
                yield found


class _Function:
    """Looks through one function, as it is called."""

    def __init__(self, types: TypesOfCall) -> None:
        self._types = types
        self._unit = types.unit
        self._reaching = Reaching(types.unit.tree)
        self._bound = UnsignedBound(self._unit, self._type, self._reaching)

    def _type(self, node: ast.AST) -> str | None:
        return self._types.of(node) if isinstance(node, ast.expr) else None

    def findings(self) -> Iterator[UnsignedDifference | WidenedShift]:
        """Yield them."""
        shifted: set[str] = set()
        for node in ast.walk(self._unit.tree):
            for value, becomes in self._sizes(node):
                for difference in self._differences(value):
                    dtype = self._type(difference) or ""
                    yield UnsignedDifference(self._unit, difference, node, becomes, dtype)
            found = self._shift(node)
            if found is not None and found.variable not in shifted:
                shifted.add(found.variable)
                yield found

    # -------------------------------------------------------------------------- differences

    def _sizes(self, node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
        """Yield the operands of a node whose size matters, and what they become."""
        match node:
            case ast.Call(func=function, args=[value]):
                name = library_name(function, self._unit.namespace) or ""
                becomes = self._type(node)
                if name in _SIZES or (name.startswith(("math.", "numpy.")) and _is_float(becomes)):
                    yield value, "abs" if name in ("abs", "numpy.absolute") else becomes or "float"
            case ast.BinOp(left=left, right=right):
                becomes = self._type(node)
                if _is_float(becomes):
                    yield from ((each, becomes or "") for each in (left, right))
            case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()]):
                (right,) = node.comparators
                yield from (
                    (a, "compared") for a, b in ((left, right), (right, left)) if _is_low(b)
                )
            case ast.Assign(targets=[ast.Subscript() as target], value=value):
                becomes = self._type(target)
                if _is_float(becomes):
                    yield value, becomes or ""

    def _differences(self, node: ast.expr) -> Iterator[ast.BinOp]:
        """Yield the unsigned differences that a value may be."""
        pending, seen = [node], set[ast.AST]()
        while pending:
            each = pending.pop()
            if each in seen:
                continue
            seen.add(each)
            match each:
                case ast.BinOp(op=ast.Sub(), left=left, right=right):
                    if all(map(self._is_unsigned, (each, left, right))):
                        yield each
                case ast.IfExp(body=body, orelse=other):
                    pending += [body, other]
                case ast.Name(ctx=ast.Load()):
                    stores = self._reaching.stores.get(each, ())
                    values = map(self._reaching.values.get, stores)
                    pending += [value for value in values if value is not None]

    def _is_unsigned(self, node: ast.expr) -> bool:
        found = self._type(node)
        return found is not None and ELEMENT_TYPES[found].is_unsigned

    # ------------------------------------------------------------------------------- shifts

    def _shift(self, node: ast.AST) -> WidenedShift | None:
        match node:
            case ast.BinOp(op=ast.RShift(), left=ast.Name() as use):
                pass
            case ast.AugAssign(op=ast.RShift(), target=ast.Name() as use):
                pass
            case _:
                return None
        stores = [each for each in self._reaching.values if _name_of(each) == use.id]
        kinds = {each: self._type(each) for each in stores}
        narrow = [each for each, kind in kinds.items() if kind is not None and _is_narrow(kind)]
        if not narrow or any(value is None for value in kinds.values()):
            return None
        limit = ELEMENT_TYPES[kinds[narrow[0]] or ""].integer_range[1] + 1
        reached = self._reaching.stores.get(use, frozenset())
        for wide in (each for each in stores if each in reached and each not in narrow):
            kind, value = kinds[wide] or "", self._reaching.values[wide]
            is_wider = ELEMENT_TYPES[kind].is_integer and not self._bound.is_below(wide, limit)
            if is_wider and any(self._mixes_bits(self._reaching.values[each]) for each in stores):
                return WidenedShift(
                    self._unit,
                    node,
                    self._unit.spellings.get(use.id, use.id),
                    narrow[0],
                    wide,
                    value,
                    kinds[narrow[0]] or "",
                    kind,
                )
        return None

    def _mixes_bits(self, value: ast.expr) -> bool:
        """Return whether a value is computed as those of hashes and random numbers are."""
        for node in ast.walk(value):
            match node:
                case ast.BinOp(op=ast.BitXor() | ast.BitOr() | ast.LShift()):
                    return True
                case ast.BinOp(left=left, op=ast.Mult(), right=right):
                    for each in (left, right):
                        number = self._unit.literal(each)
                        if number is not None and number >= _LARGE_FACTOR:
                            return True
        return False


def _name_of(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else None


def _is_float(name: str | None) -> bool:
    return name is not None and ELEMENT_TYPES[name].is_float


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
