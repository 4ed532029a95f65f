"""The largest numbers that unsigned expressions can be, from the types of their parts."""

from __future__ import annotations

import ast
from collections.abc import Callable

from kerneldsl.analysis.reaching import Reaching
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ELEMENT_TYPES

__all__ = ["COUNTS_OF_BITS", "UnsignedBound"]

#: Intrinsics that count bits of a number.
COUNTS_OF_BITS = frozenset({"clz", "ffs", "popc"})


class UnsignedBound:
    """The largest number that an unsigned expression can be."""

    def __init__(
        self, unit: FunctionUnit, type_of: Callable[[ast.AST], str | None], reaching: Reaching
    ) -> None:
        self._unit = unit
        self._type_of = type_of
        self._reaching = reaching
        self._open: set[ast.AST] = set()
        self._accumulates = False

    def is_below(self, node: ast.AST, limit: int) -> bool:
        """Return whether an expression is certainly less than a limit.

        A loop that adds to a sum is taken to have fewer than 2**31 rounds.
        """
        self._accumulates = False
        found = self.of(node)
        return found is not None and found * (2**31 if self._accumulates else 1) < limit

    def of(self, node: ast.AST, *, is_summand: bool = True) -> int | None:
        """Return it; ``None`` where there is none below 2**64."""
        match node:
            case ast.Constant(value=int(number)) if number >= 0:
                return number
            case ast.Name(ctx=ast.Load()):
                return self._of_stores(self._reaching.stores.get(node, frozenset()), is_summand)
            case ast.Name() | ast.AugAssign():
                return self._of_stores(frozenset({node}), is_summand)
            case ast.BinOp(left=left, op=op, right=right):
                return self._operated(op, left, right, is_summand)
            case ast.IfExp(body=body, orelse=other):
                return _largest([self.of(body), self.of(other)])
            case ast.Call() if (use := self._unit.use_of(node)) is not None:
                if use.intrinsic.name in COUNTS_OF_BITS:
                    return 64
        return self._of_type(node)

    def _of_type(self, node: ast.AST) -> int | None:
        name = self._type_of(node)
        if name is None or not ELEMENT_TYPES[name].is_unsigned or name == "uint64":
            return None
        return ELEMENT_TYPES[name].integer_range[1]

    def _of_stores(self, stores: frozenset[ast.AST], is_summand: bool) -> int | None:
        found: list[int | None] = []
        for store in stores:
            if store in self._open:
                if not is_summand:
                    return None
                self._accumulates = True
                continue
            self._open.add(store)
            found.append(self._of_store(store))
            self._open.discard(store)
        return _largest(found)

    def _of_store(self, store: ast.AST) -> int | None:
        narrow = self._of_type(store)
        if narrow is not None:
            return narrow
        value = self._reaching.values.get(store)
        return None if value is None else self.of(value)

    def _operated(
        self, op: ast.operator, left: ast.expr, right: ast.expr, is_summand: bool
    ) -> int | None:
        is_sum = isinstance(op, ast.Add)
        one = self.of(left, is_summand=is_summand and is_sum)
        two = self.of(right, is_summand=is_summand and is_sum)
        match op:
            case ast.BitAnd() | ast.Mod():
                known = [each for each in (one, two) if each is not None]
                return min(known) if isinstance(op, ast.BitAnd) and known else two
            case ast.FloorDiv() | ast.RShift():
                return one
        if one is None or two is None:
            return None
        match op:
            case ast.Add():
                return one + two
            case ast.Mult():
                return one * two
            case ast.BitOr() | ast.BitXor():
                return int(2 ** max(one, two).bit_length() - 1)
            case ast.LShift():
                return one << min(two, 64)
        return None


def _largest(found: list[int | None]) -> int | None:
    return None if not found or None in found else max(each for each in found if each is not None)
