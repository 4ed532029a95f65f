"""The largest numbers that unsigned expressions can be, from the types of their parts."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from kerneldsl.analysis.bindings import bindings
from kerneldsl.analysis.library_names import library_name
from kerneldsl.analysis.reaching import Reaching
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ELEMENT_TYPES

__all__ = ["COUNTS_OF_BITS", "UnsignedBound", "number_of"]

#: Intrinsics that count bits of a number.
COUNTS_OF_BITS = frozenset({"clz", "ffs", "popc"})
_LARGEST = 2**64 - 1
#: Rounds that a loop which adds to a sum is taken to have fewer than.
_ROUNDS = 2**31


class UnsignedBound:
    """The largest number that an unsigned expression can be.

    Assignments that depend on each other, as those of a loop do, are solved together: by iteration
    if that ends, as it does for masked values; and a sum by what one round adds to it.
    """

    def __init__(
        self, unit: FunctionUnit, type_of: Callable[[ast.AST], str | None], reaching: Reaching
    ) -> None:
        self._unit = unit
        self._type_of = type_of
        self._reaching = reaching
        #: Variables of loops that count from a literal: up to 2**63 - 1 in 2**63 rounds.
        self._counters = {
            each.target
            for each in bindings(unit.tree)
            if each.is_item and self._counts_up(each.value)
        }
        #: Bounds of assignments that are solved, or, of those that are being solved, so far.
        self._bounds: dict[ast.AST, int | None] = {}

    def is_below(self, node: ast.AST, limit: int) -> bool:
        """Return whether an expression is certainly less than a limit."""
        found = self.of(node)
        return found is not None and found < limit

    def of(self, node: ast.AST) -> int | None:
        """Return it; ``None`` if there is none below 2**64."""
        for store in self._read(node):
            if store not in self._bounds:
                self._solve(store)
        return self._evaluated(node)

    # ---------------------------------------------------------------------------- assignments

    def _read(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the assignments that an expression, or an assignment, has its bound from."""
        pending = [node]
        while pending:
            match pending.pop():
                case ast.Name(ctx=ast.Store()) as store:
                    yield store
                case ast.Name() as use:
                    yield from self._reaching.stores.get(use, ())
                case ast.AugAssign(target=target):
                    pending.append(target)
                case ast.BinOp(left=left, right=right):
                    pending += [left, right]
                case ast.IfExp(body=body, orelse=other):
                    pending += [body, other]
                case ast.Call(args=arguments):
                    pending += arguments

    def _inputs(self, store: ast.AST) -> list[ast.AST]:
        value = self._reaching.values.get(store)
        if value is None or self._of_type(store) is not None:
            return []
        return list(self._read(value))

    def _solve(self, first: ast.AST) -> None:
        """Find the bounds of an assignment and of what it depends on.

        The groups of assignments that depend on each other are found by Tarjan's algorithm: R.
        Tarjan, "Depth-First Search and Linear Graph Algorithms", SIAM J. Comput. 1 (1972).
        """
        numbers: dict[ast.AST, int] = {}
        lowest: dict[ast.AST, int] = {}
        group: list[ast.AST] = []
        walk: list[tuple[ast.AST, Iterator[ast.AST]]] = []

        def enter(store: ast.AST) -> None:
            numbers[store] = lowest[store] = len(numbers)
            group.append(store)
            walk.append((store, iter(self._inputs(store))))

        enter(first)
        while walk:
            store, rest = walk[-1]
            for each in rest:
                if each in self._bounds:
                    continue
                if each not in numbers:
                    enter(each)
                    break
                lowest[store] = min(lowest[store], numbers[each])
            else:
                walk.pop()
                if walk:
                    above = walk[-1][0]
                    lowest[above] = min(lowest[above], lowest[store])
                if lowest[store] == numbers[store]:
                    place = group.index(store)
                    self._solve_group(group[place:])
                    del group[place:]

    def _solve_group(self, stores: list[ast.AST]) -> None:
        members = frozenset(stores)
        if len(stores) == 1 and stores[0] not in self._inputs(stores[0]):
            self._bounds[stores[0]] = self._of_store(stores[0])
            return
        for start in (0, None):  # from below, as for copies; from above, as for masked values
            if self._settles(stores, start):
                return
        self._bounds.update(dict.fromkeys(stores, 0))
        starts = [self._of_store(store) for store in stores]
        steps = [self._step(self._reaching.values[store], members) for store in stores]
        first, added = _largest(starts), _largest(steps)
        total = None if first is None or added is None else first + _ROUNDS * len(steps) * added
        self._bounds.update({store: self._kept(total, store) for store in stores})

    def _settles(self, stores: list[ast.AST], start: int | None) -> bool:
        """Return whether a group has bounds that repeated evaluation leaves as they are."""
        self._bounds.update(dict.fromkeys(stores, start))
        for _ in range(len(stores) + 2):
            found = {store: self._of_store(store) for store in stores}
            if all(found[store] == self._bounds[store] for store in stores):
                return None not in found.values()
            self._bounds.update(found)
        return start is None and None not in found.values()

    def _step(self, node: ast.expr, members: frozenset[ast.AST]) -> int | None:
        """Return what an expression adds to a value of a group; ``None`` if it is no such sum."""
        match node:
            case ast.Name():
                return 0
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                inner = [each for each in (left, right) if members & set(self._read(each))]
                if len(inner) != 1:
                    return None if inner else 0
                added = self._evaluated(right if inner[0] is left else left)
                within = self._step(inner[0], members)
                return None if added is None or within is None else added + within
            case ast.IfExp(body=body, orelse=other):
                return _largest([self._step(each, members) for each in (body, other)])
        return None if members & set(self._read(node)) else 0

    def _of_store(self, store: ast.AST) -> int | None:
        narrow = self._of_type(store)
        if narrow is not None:
            return narrow
        if store in self._counters:
            return 2**63 - 1
        value = self._reaching.values.get(store)
        return None if value is None else self._evaluated(value)

    def _counts_up(self, iterated: ast.expr) -> bool:
        """Return whether a loop runs over a range that begins at 0, or at another literal."""
        match iterated:
            case ast.Call(args=[first, *others], keywords=[]):
                is_range = library_name(iterated.func, self._unit.namespace) == "range"
                return is_range and (not others or number_of(first, self._unit) is not None)
        return False

    # ---------------------------------------------------------------------------- expressions

    def _evaluated(self, node: ast.AST) -> int | None:
        """Return the bound of an expression, from those of the assignments that it reads."""
        match node:
            case ast.Constant(value=int(number)) if number >= 0:
                return number if number <= _LARGEST else None
            case ast.Name(ctx=ast.Load()):
                stores = self._reaching.stores.get(node)
                if stores is None:
                    return number_of(node, self._unit)
                return _largest([self._bounds[store] for store in stores])
            case ast.Name():
                return self._bounds[node]
            case ast.AugAssign(target=ast.Name() as target):
                return self._evaluated(target)
            case ast.BinOp(left=left, op=op, right=right):
                return self._kept(self._operated(op, left, right), node)
            case ast.IfExp(body=body, orelse=other):
                return _largest([self._evaluated(body), self._evaluated(other)])
            case ast.Call(args=arguments, keywords=[]):
                return self._called(node, arguments)
        return self._of_type(node)

    def _called(self, node: ast.Call, arguments: list[ast.expr]) -> int | None:
        use = self._unit.use_of(node)
        if use is not None and use.intrinsic.name in COUNTS_OF_BITS:
            return 64
        name = library_name(node.func, self._unit.namespace) or ""
        if arguments and name in ("min", "max", "numpy.minimum", "numpy.maximum", "numpy.uint64"):
            found = [self._evaluated(each) for each in arguments]
            if not name.endswith(("min", "minimum")):
                return _largest(found)
            if all(map(self._is_unsigned, arguments)):
                return min((each for each in found if each is not None), default=None)
        return self._of_type(node)

    def _of_type(self, node: ast.AST) -> int | None:
        name = self._type_of(node)
        if name is None or not ELEMENT_TYPES[name].is_unsigned or name == "uint64":
            return None
        return ELEMENT_TYPES[name].integer_range[1]

    def _is_unsigned(self, node: ast.AST) -> bool:
        name = self._type_of(node)
        return name is not None and ELEMENT_TYPES[name].is_unsigned

    def _operated(self, op: ast.operator, left: ast.expr, right: ast.expr) -> int | None:
        one, two = self._evaluated(left), self._evaluated(right)
        match op:
            case ast.BitAnd():
                return min((each for each in (one, two) if each is not None), default=None)
            case ast.Mod() | ast.FloorDiv() if two is None and not self._is_unsigned(right):
                return None  # by a negative number it may be negative
            case ast.Mod():
                below = None if two is None else max(two - 1, 0)
                return min((each for each in (one, below) if each is not None), default=None)
            case ast.FloorDiv() | ast.RShift():
                return self._reduced(op, left, one, number_of(right, self._unit))
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

    def _reduced(
        self, op: ast.operator, left: ast.expr, bound: int | None, number: int | None
    ) -> int | None:
        """Return the bound of a quotient by a literal, or of a right shift by one."""
        if bound is None and self._is_unsigned(left):
            bound = _LARGEST
        if bound is None or not number:
            return None if bound == _LARGEST else bound
        return bound // number if isinstance(op, ast.FloorDiv) else bound >> min(number, 64)

    def _kept(self, found: int | None, node: ast.AST) -> int | None:
        """Return a bound, ``None`` for one that the type of a node may not hold."""
        most = _LARGEST if self._is_unsigned(node) else 2**63 - 1
        return None if found is None or found > most else found


def number_of(node: ast.AST, unit: FunctionUnit) -> int | None:
    """Return a literal that is not negative, also one that is written as a uint64."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        if library_name(node.func, unit.namespace) != "numpy.uint64":
            return None
        node = node.args[0]
    found = unit.literal(node) if isinstance(node, ast.expr) else None
    return found if found is not None and found >= 0 else None


def _largest(found: Iterable[int | None]) -> int | None:
    known = list(found)
    if not known or None in known:
        return None
    return max(each for each in known if each is not None)
