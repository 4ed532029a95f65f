"""Sorts of integers: where a number's type comes from, in a function that may have uint64 values.

What is told apart are a uint64 that the program says, what Numba makes of smaller unsigned numbers,
and literals, which take the type of the first (``docs/adr/0031-integers-stay-integers.md``).
:mod:`kerneldsl.transforms.unsigned_literals` writes them so.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from kerneldsl.analysis.bindings import Binding, bindings, unpack_targets
from kerneldsl.analysis.expressions import augmented_value, folded
from kerneldsl.analysis.inferred_types import types_of_values
from kerneldsl.analysis.known_values import Elements, Value, items_of
from kerneldsl.analysis.library_names import library_name
from kerneldsl.analysis.reaching import Reaching
from kerneldsl.analysis.unsigned_bounds import COUNTS_OF_BITS
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ELEMENT_TYPES

__all__ = [
    "ARITHMETIC",
    "CONVERTED",
    "Argument",
    "IntegerSorts",
    "Result",
    "Sort",
    "element_of",
    "sort_of",
]


class Sort(enum.IntEnum):
    """Sort of an integer, in the order in which more is learned of a variable."""

    UNKNOWN = 0
    """Nothing has been assigned to it yet."""
    TRUTH = 1
    """A bool, which is of the type of the integers beside it."""
    LITERAL = 2
    """Literals that are not negative."""
    NARROW = 3
    """An unsigned type of fewer than 64 bits, or what Numba makes of such."""
    WIDE = 4
    """The program says uint64."""
    OTHER = 5
    """Anything else."""


#: What is converted beside a uint64.
CONVERTED = (Sort.TRUTH, Sort.LITERAL)


class Result(NamedTuple):
    """Sort of what a function returns, and of each element if that is a tuple."""

    sort: Sort
    elements: tuple[Sort, ...] = ()


class Argument(NamedTuple):
    """A value that a function is given."""

    value: Value
    sort: Sort


ARITHMETIC = (
    ast.Add
    | ast.Sub
    | ast.Mult
    | ast.FloorDiv
    | ast.Mod
    | ast.Pow
    | ast.BitAnd
    | ast.BitOr
    | ast.BitXor
)
#: Functions whose result has the type of their operands.
_OF_PYTHON = ("abs", "divmod", "math.gcd", "max", "min", "pow", "round")
_OF_NUMPY = (
    *(
        "absolute",
        "add",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "clip",
        "floor_divide",
        "fmax",
        "fmin",
    ),
    *("fmod", "left_shift", "maximum", "minimum", "mod", "multiply", "power", "remainder"),
    *("gcd", "lcm", "right_shift", "subtract"),
)
_SAME_TYPE = frozenset({*_OF_PYTHON, *(f"numpy.{name}" for name in _OF_NUMPY)})
_WHERE = "numpy.where"
_UINT64 = "uint64"
#: Results of functions by what is known of their arguments.
_results: WeakKeyDictionary[FunctionUnit, dict[tuple[Argument, ...], Result]] = WeakKeyDictionary()


def sort_of(value: Value) -> Sort:
    """Return the sort of a value of a known type."""
    if isinstance(value, Elements) and not value.is_range:
        value = value.dtype  # of a tile, each element
    if not isinstance(value, str):
        return Sort.OTHER
    if value == _UINT64:
        return Sort.WIDE
    if value == "bool":
        return Sort.TRUTH
    return Sort.NARROW if ELEMENT_TYPES[value].is_unsigned else Sort.OTHER


def _result_of(unit: FunctionUnit, arguments: tuple[Argument, ...]) -> Result:
    known = _results.setdefault(unit, {})
    if arguments not in known:
        # A function that calls itself is given what is known so far.
        known[arguments] = Result(Sort.OTHER)
        known[arguments] = IntegerSorts(unit, arguments).result()
    return known[arguments]


class IntegerSorts:
    """Sorts of the expressions and variables of one function.

    Parameters
    ----------
    unit : FunctionUnit
        The function.
    arguments : tuple of Argument
        What it is given.
    """

    def __init__(self, unit: FunctionUnit, arguments: tuple[Argument, ...]) -> None:
        self._unit = unit
        self._types = types_of_values(unit, tuple(each.value for each in arguments))
        self._given = dict(zip(unit.parameters, (each.sort for each in arguments), strict=True))
        self._reaching = Reaching(unit.tree)
        self._bound: dict[str, list[ast.expr | None]] = {}
        #: Parameters and targets of assignments that are followed, to what they are given.
        self._stored: dict[ast.AST, ast.expr | None] = dict.fromkeys(unit.tree.args.args)
        for binding in bindings(unit.tree):
            self._bind(binding)
        self._close_tuples()
        self._sorts: dict[str, Sort] = dict.fromkeys(self._bound, Sort.WIDE)
        #: Assignments of unsigned numbers of which none is a uint64 that the program says.
        self._narrow: set[ast.AST] = set()
        self._find_narrow()
        self._settle()

    def _bind(self, binding: Binding) -> None:
        value = binding.value
        if isinstance(binding.node, ast.AugAssign):
            value = self.augmented(binding.node)
        for target, part in unpack_targets(binding.target, value):
            if binding.is_item:
                self._bind_items(target, part)
            elif isinstance(target, ast.Tuple) and len(target.elts) == self.length(part):
                for place, each in enumerate(target.elts):
                    self._bind_plain(binding, each, element_of(part, place))
            else:
                self._bind_plain(binding, target, part)

    def _bind_plain(self, binding: Binding, target: ast.expr, value: ast.expr) -> None:
        if not isinstance(target, ast.Name):
            self._bind_unknown(target)
            return
        if isinstance(binding.node, ast.Assign | ast.AugAssign):
            self._stored[target] = value
        self._bound.setdefault(target.id, []).append(value)
        for place in range(self.length(value)):
            key = _place(target.id, place)
            self._bound.setdefault(key, []).append(element_of(value, place))

    def _bind_items(self, target: ast.expr, iterated: ast.expr) -> None:
        name = None
        if isinstance(iterated, ast.Call) and not iterated.keywords:
            name = library_name(iterated.func, self._unit.namespace)
        match target, iterated:
            case ast.Name(id=variable), _:
                self._stored[target] = item = self._item(iterated)
                self._bound.setdefault(variable, []).append(item)
            case ast.Tuple(elts=[count, each]), ast.Call(args=[array]) if name == "enumerate":
                self._bind_unknown(count)
                self._bind_items(each, array)
            case ast.Tuple(elts=parts), ast.Call(args=arrays) if name == "zip" and len(
                parts
            ) == len(arrays):
                for each, array in zip(parts, arrays, strict=True):
                    self._bind_items(each, array)
            case _:
                self._bind_unknown(target)

    def _item(self, iterated: ast.expr) -> ast.expr:
        """Return an item of what is looped over; what counts is no uint64 that is said."""
        made = ast.Subscript(iterated, ast.Slice(), ast.Load())
        value = self._types.get(iterated)
        is_range = isinstance(value, Elements) and value.is_range
        self._types[made] = None if is_range else items_of(value)
        return made

    def _bind_unknown(self, target: ast.expr) -> None:
        for node in ast.walk(target):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self._bound.setdefault(node.id, []).append(None)

    def _close_tuples(self) -> None:
        """Take nothing as known of elements of variables that are not always such tuples."""
        for key, values in self._bound.items():
            name = key.partition("[")[0]
            if name != key and (name in self._given or len(values) != len(self._bound[name])):
                values.append(None)

    def length(self, node: ast.expr) -> int:
        """Return how many elements a tuple has, and 0 of anything else."""
        found = self._types.get(node)
        return len(found) if isinstance(found, tuple) else 0

    def elements(self, node: ast.expr) -> tuple[Sort, ...]:
        """Return the sorts of the elements of a tuple."""
        return tuple(self.of(element_of(node, place)) for place in range(self.length(node)))

    def elements_of_variable(self, name: str) -> tuple[Sort, ...]:
        """Return the sorts of the elements of a variable that is always a tuple."""
        keys = [key for key in self._bound if key.partition("[")[0] == name != key]
        return tuple(self.of_variable(_place(name, place)) for place in range(len(keys)))

    def augmented(self, node: ast.AugAssign) -> ast.expr:
        """Return what an assignment in place assigns."""
        return self._reaching.values.get(node.target) or augmented_value(node)

    def _find_narrow(self) -> None:
        """Find the assignments of smaller unsigned numbers.

        Before ``h = np.uint64(h)`` a variable is of what it has been assigned until then. As many
        assignments as can be are narrow, so that one in a loop is what the loop begins with.
        """
        self._narrow = set(self._stored)
        while True:
            others = {store for store in self._narrow if not self._stores_narrow(store)}
            if not others:
                return
            self._narrow -= others

    def _stores_narrow(self, store: ast.AST) -> bool:
        value = self._stored[store]
        if isinstance(store, ast.arg):
            return self._given.get(store.arg) is Sort.NARROW
        return value is not None and self.of(value) is Sort.NARROW

    def _settle(self) -> None:
        """Find the sorts of variables, in an order that does not matter.

        As many variables as can be are uint64 together: whatever is assigned to them then fits. Of
        these remain those of which something says so that does not depend on that.
        """
        wide = {name for name, values in self._bound.items() if None not in values}
        while True:
            self._find_others(wide)
            kept = {name for name in wide if self._bound_sort(name) is not Sort.OTHER}
            if kept == wide:
                kept = self._with_evidence(wide)
            if kept == wide:
                return
            wide = kept

    def _with_evidence(self, wide: set[str]) -> set[str]:
        """Return which of these variables are uint64 by what else the program says."""
        found: set[str] = set()
        while True:
            self._sorts.update(
                {name: Sort.WIDE if name in found else Sort.LITERAL for name in wide}
            )
            more = {
                name
                for name in wide - found
                if self._given.get(name) is Sort.WIDE
                or any(self.of(value) is Sort.WIDE for value in self._bound[name] if value)
            }
            if not more:
                self._sorts.update(dict.fromkeys(found, Sort.WIDE))
                return found
            found |= more

    def _find_others(self, wide: set[str]) -> None:
        """Find the sorts of all other variables, where these are uint64."""
        counters: set[str] = set()
        others = [name for name in self._bound if name not in wide]
        while True:
            self._sorts = dict.fromkeys(wide, Sort.WIDE)
            for name in others:
                first = self._given.get(name, Sort.UNKNOWN)
                self._sorts[name] = Sort.OTHER if name in counters else first
            changed = True
            while changed:
                changed = False
                for name in others:
                    found = _joined(self._sorts[name], self._bound_sort(name))
                    if found > self._sorts[name]:
                        self._sorts[name], changed = found, True
            # ``n += 1`` counts, and Python's counts are int64, whatever they are used beside.
            more = {
                name
                for name in others
                if self._sorts[name] is Sort.LITERAL
                and not all(map(self.is_literal, self._bound[name]))
            }
            if not more:
                return
            counters |= more

    def _bound_sort(self, name: str) -> Sort:
        """Return the sort of what is assigned to a variable."""
        values = self._bound[name]
        found = _all_joined([self.of(value) if value else Sort.OTHER for value in values])
        return _joined(found, self._given[name]) if name in self._given else found

    def is_literal(self, node: ast.expr | None) -> bool:
        """Return whether an expression is a written or captured int of 0 <= n < 2**63."""
        if node is None:
            return False
        value = self._unit.literal(node)
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int(place))):
                captured = self._unit.constants.get(name)
                items = captured.value if captured is not None else None
                if isinstance(items, tuple) and 0 <= place < len(items):
                    value = items[place] if type(items[place]) is int else None
        if isinstance(node, ast.BinOp | ast.UnaryOp):
            constant = folded(node)
            value = None if constant is None else self._unit.literal(constant)
        return value is not None and 0 <= value < 2**63

    def of_target(self, target: ast.expr) -> Sort:
        """Return the sort of a variable that is assigned; of an element ``OTHER``."""
        return self.of_variable(target.id) if isinstance(target, ast.Name) else Sort.OTHER

    def of_variable(self, name: str) -> Sort:
        """Return the sort of a variable or parameter."""
        return self._sorts.get(name, self._given.get(name, Sort.OTHER))

    def result(self) -> Result:
        """Return the sort of what the function returns."""
        statements = [n for n in ast.walk(self._unit.tree) if isinstance(n, ast.Return)]
        values = [each.value for each in statements if each.value is not None]
        lengths = {self.length(each) for each in values}
        rows = [self.elements(each) for each in values] if len(lengths) == 1 else []
        elements = tuple(_settled(column) for column in zip(*rows, strict=True))
        return Result(_settled([self.of(each) for each in values]), elements)

    def argument(self, node: ast.expr) -> Argument:
        """Return what a function is given by an expression."""
        sort = self.of(node)
        if sort is Sort.WIDE and isinstance(self._types.get(node), str):
            return Argument(_UINT64, sort)
        value = self._types.get(node)
        if isinstance(value, tuple):
            pairs = zip(value, self.elements(node), strict=True)
            value = tuple(
                _UINT64 if each is Sort.WIDE and isinstance(part, str) else part
                for part, each in pairs
            )
        return Argument(value, Sort.OTHER if sort is Sort.LITERAL else sort)

    def of(self, node: ast.expr) -> Sort:
        """Return the sort of an expression."""
        if self.is_literal(node):
            return Sort.LITERAL
        match node:
            case ast.Name(id=name) if name in self._bound or name in self._given:
                found = self.of_variable(name)
                stores = self._reaching.stores.get(node, frozenset())
                is_narrow = found is Sort.WIDE and stores and stores <= self._narrow
                return Sort.NARROW if is_narrow else found
            case ast.BinOp(left=left, op=op, right=right):
                return _operated(op, self.of(left), self.of(right))
            case ast.UnaryOp(op=ast.Not()) | ast.Compare():
                return Sort.TRUTH
            case ast.UnaryOp(op=op, operand=operand):
                found = self.of(operand)
                keeping = {Sort.LITERAL: ast.UAdd, Sort.TRUTH: ast.Invert}.get(found)
                is_kept = keeping is None or isinstance(op, keeping)
                return found if is_kept else Sort.OTHER
            case ast.IfExp(body=body, orelse=other):
                return _joined(self.of(body), self.of(other))
            case ast.BoolOp(values=values):
                return _all_joined([self.of(each) for each in values])
            case ast.NamedExpr(value=value):
                return self.of(value)
            case ast.Call() if arguments := self.operands(node):
                sorts = [self.of(each) for each in arguments]
                found = Sort.UNKNOWN if Sort.UNKNOWN in sorts else _all_joined(sorts)
                return Sort.OTHER if found in CONVERTED else found
            case ast.Call(keywords=[]) if (callee := self._unit.callee_of(node)) is not None:
                return self._returned(node, callee).sort
            case ast.Call() if (use := self._unit.use_of(node)) is not None:
                return self._of_intrinsic(use.intrinsic.name, node)
            case ast.Subscript(value=owner, slice=ast.Constant(value=int(place))) if place >= 0:
                return self._of_element(node, owner, place)
            case ast.Call(args=[_], keywords=[]) if (dtype := self._conversion(node)) is not None:
                return sort_of(dtype)
        return sort_of(self._types.get(node))

    def _conversion(self, node: ast.Call) -> str | None:
        """Return the type that a call converts to, whatever it is given."""
        name = library_name(node.func, self._unit.namespace) or ""
        module, _, dtype = name.partition(".")
        return dtype if module in ("numpy", "numba") and dtype in ELEMENT_TYPES else None

    def _of_element(self, node: ast.Subscript, owner: ast.expr, place: int) -> Sort:
        """Return the sort of an element of a tuple, or of what else is subscribed."""
        if place < self.length(owner):
            match owner:
                case ast.Name(id=name) if _place(name, place) in self._bound:
                    return self.of_variable(_place(name, place))
                case ast.Tuple() | ast.IfExp():
                    return self.of(element_of(owner, place))
                case ast.Call(keywords=[]) if (callee := self._unit.callee_of(owner)) is not None:
                    found = self._returned(owner, callee)
                    if found.sort is Sort.UNKNOWN or place < len(found.elements):
                        return found.elements[place] if found.elements else Sort.UNKNOWN
            kinds = self._types[owner]
            assert isinstance(kinds, tuple)
            return sort_of(kinds[place])
        return sort_of(self._types.get(node))

    def _of_intrinsic(self, name: str, node: ast.Call) -> Sort:
        """Return the sort of what an intrinsic gives, by what it is given."""
        found = sort_of(self._types.get(node))
        given = [sort for sort in map(self.of, node.args) if sort is not Sort.LITERAL]
        if found is Sort.WIDE and (name in COUNTS_OF_BITS or Sort.NARROW in given):
            return Sort.NARROW
        return found

    def operands(self, node: ast.Call) -> list[ast.expr]:
        """Return the arguments whose type a call's value has; none where it has one of its own."""
        name = library_name(node.func, self._unit.namespace)
        if node.keywords or name not in (*_SAME_TYPE, _WHERE):
            return []
        given = node.args[1:] if name == _WHERE else node.args
        return [each for each in given if not _is_none(each)]

    def _returned(self, node: ast.Call, callee: FunctionUnit) -> Result:
        if callee.is_plain_numba or len(node.args) != len(callee.parameters):
            return Result(sort_of(self._types.get(node)))
        arguments = tuple(map(self.argument, node.args))
        if any(Sort.UNKNOWN in (self.of(each), *self.elements(each)) for each in node.args):
            return Result(Sort.UNKNOWN)
        return _result_of(callee, arguments)


def _place(name: str, place: int) -> str:
    """Return what the element of a variable is known by."""
    return f"{name}[{place}]"


def element_of(node: ast.expr, place: int) -> ast.expr:
    """Return an element of a tuple."""
    match node:
        case ast.Tuple(elts=elements) if not any(isinstance(e, ast.Starred) for e in elements):
            return elements[place]
        case ast.IfExp(test=test, body=body, orelse=other):
            return ast.IfExp(test, element_of(body, place), element_of(other, place))
    return ast.Subscript(node, ast.Constant(place), ast.Load())


def _settled(sorts: Sequence[Sort]) -> Sort:
    """Return the sort of what a function returns in several places."""
    found = _all_joined(sorts)
    return Sort.OTHER if found in (Sort.UNKNOWN, Sort.LITERAL) else found


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _joined(one: Sort, other: Sort) -> Sort:
    """Return the sort of a value that is one of two."""
    low, high = sorted((one, other))
    if low in (Sort.UNKNOWN, Sort.TRUTH, high) or high is Sort.WIDE:
        return high
    return Sort.OTHER


def _all_joined(sorts: Sequence[Sort]) -> Sort:
    found = Sort.UNKNOWN
    for each in sorts:
        found = _joined(found, each)
    return found


def _operated(op: ast.operator, left: Sort, right: Sort) -> Sort:
    """Return the sort of an operation of two values."""
    if isinstance(op, ast.LShift | ast.RShift):
        return Sort.OTHER if left is Sort.TRUTH else left
    if not isinstance(op, ARITHMETIC):
        return Sort.OTHER
    if Sort.UNKNOWN in (left, right):
        return Sort.UNKNOWN
    if Sort.TRUTH in (left, right) and Sort.WIDE not in (left, right):
        is_truth = left is right and isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor)
        return Sort.TRUTH if is_truth else Sort.OTHER
    if left is right is Sort.LITERAL and isinstance(op, ast.Sub):
        return Sort.OTHER
    return _joined(left, right)
