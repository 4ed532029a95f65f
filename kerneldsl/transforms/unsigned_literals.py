"""Give literals beside uint64 values that type: ``x[i] * 3`` becomes ``x[i] * uint64(3)``.

A Python int is an int64, and Numba computes uint64 with int64 as int64: quotients, remainders and
shifts of numbers from 2**63 on are then those of negative numbers. A literal that is not negative
takes the uint64's type instead, as NumPy has it; so does a variable that holds such literals and
uint64 values alone (``total = 0``, then ``total += x[i]``). It is written out here, once for all
targets.

A uint64 is meant that the program says: an element, an argument, ``np.uint64(…)``. What Numba makes
of smaller unsigned numbers (uint8 + uint8 is a uint64) keeps Numba's rule, as differences of such
numbers and literals may well be negative: ``a[i] + b[i] - 255`` stays an int64.

The decision is ``docs/adr/0031-integers-stay-integers.md``.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from kerneldsl.analysis.bindings import Binding, bindings, unpack_targets
from kerneldsl.analysis.expressions import augmented_value, folded
from kerneldsl.analysis.inferred_types import types_of_values
from kerneldsl.analysis.known_values import Elements, Value, items_of, value_of_kind
from kerneldsl.analysis.library_names import library_name
from kerneldsl.analysis.reaching import Reaching
from kerneldsl.analysis.unsigned_bounds import COUNTS_OF_BITS
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import call, load
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import Kind
from kerneldsl.transforms.copying import CopyingTransformer

__all__ = ["type_unsigned_literals"]


class _Sort(enum.IntEnum):
    """Sort of an integer, in the order in which more is learned of a variable."""

    UNKNOWN = 0
    """Nothing has been assigned to it yet."""
    LITERAL = 1
    """Literals that are not negative."""
    NARROW = 2
    """An unsigned type of fewer than 64 bits, or what Numba makes of such."""
    WIDE = 3
    """The program says uint64."""
    OTHER = 4
    """Anything else."""


class _Result(NamedTuple):
    """Sort of what a function returns, and of each element if that is a tuple."""

    sort: _Sort
    elements: tuple[_Sort, ...] = ()


class _Argument(NamedTuple):
    """A value that a function is given."""

    value: Value
    sort: _Sort


_ARITHMETIC = (
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
#: Kernels by what is known of their arguments; ``None`` for one that stays as it is.
_known: WeakKeyDictionary[
    FunctionUnit, dict[tuple[_Argument, ...], tuple[FunctionUnit | None, _Result]]
] = WeakKeyDictionary()
_says_wide: WeakKeyDictionary[FunctionUnit, bool] = WeakKeyDictionary()


def type_unsigned_literals(unit: FunctionUnit, kinds: Sequence[Kind]) -> FunctionUnit:
    """Return a kernel whose literals beside uint64 values are written as such.

    Parameters
    ----------
    unit : FunctionUnit
        The kernel.
    kinds : sequence of Kind
        Kinds of its arguments.

    Returns
    -------
    FunctionUnit
        The unit itself where it has none; the same one for the same kinds.
    """
    values = tuple(map(value_of_kind, kinds))
    if not (any(map(_has_wide, values)) or any(map(_names_wide, unit.reachable()))):
        return unit
    made, _ = _typed(unit, tuple(_Argument(value, _sort_of(value)) for value in values))
    return made


def _has_wide(value: Value) -> bool:
    """Return whether a value, or a part of it, is a uint64."""
    if isinstance(value, tuple):
        return any(map(_has_wide, value))
    dtype = value.dtype if isinstance(value, Elements) else value
    if dtype is None:
        return True
    fields = ELEMENT_TYPES[dtype].fields
    return dtype == _UINT64 or any(field.dtype == _UINT64 or field.shape for field in fields)


def _names_wide(unit: FunctionUnit) -> bool:
    """Return whether a function may have a uint64 that it is not given."""
    known = _says_wide.get(unit)
    if known is None:
        known = _says_wide[unit] = (
            any(_is_wide_constant(each.value) for each in unit.constants.values())
            or any(_is_wide_constant(value) for value in unit.namespace.values())
            or any(use.static.get("dtype") == _UINT64 for use in unit.uses.values())
            or any(_UINT64 in use.intrinsic.name for use in unit.uses.values())
            or any(_may_be_wide(node) for node in ast.walk(unit.tree))
        )
    return known


def _is_wide_constant(value: object) -> bool:
    if isinstance(value, tuple):
        return any(map(_is_wide_constant, value))
    if isinstance(value, np.generic | np.ndarray):
        return value.dtype == np.uint64
    return value is np.uint64 or (isinstance(value, int) and value >= 2**63)


def _may_be_wide(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name):
            return name in (_UINT64, "uintp", "uint", "ulonglong", "ulong")
        case ast.Constant(value=int(number)):
            return number >= 2**63
    return False


def _sort_of(value: Value) -> _Sort:
    """Return the sort of a value of a known type."""
    if isinstance(value, Elements) and not value.is_range:
        value = value.dtype  # of a tile, each element
    if not isinstance(value, str):
        return _Sort.OTHER
    if value == _UINT64:
        return _Sort.WIDE
    is_narrow = ELEMENT_TYPES[value].is_unsigned or value == "bool"
    return _Sort.NARROW if is_narrow else _Sort.OTHER


def _typed(unit: FunctionUnit, arguments: tuple[_Argument, ...]) -> tuple[FunctionUnit, _Result]:
    """Return a function with typed literals, and the sort of its result."""
    known = _known.setdefault(unit, {})
    if arguments not in known:
        # A function that calls itself is given what is known so far.
        known[arguments] = (None, _Result(_Sort.OTHER))
        sorts = _Sorts(unit, arguments)
        made = _Typing(unit, sorts).run()
        known[arguments] = (None if made is unit else made, sorts.result())
    made_or_none, result = known[arguments]
    return made_or_none or unit, result


class _Sorts:
    """Sorts of the expressions and variables of one function."""

    def __init__(self, unit: FunctionUnit, arguments: tuple[_Argument, ...]) -> None:
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
        self._sorts: dict[str, _Sort] = dict.fromkeys(self._bound, _Sort.WIDE)
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
                    self._bind_plain(binding, each, _element(part, place))
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
            self._bound.setdefault(key, []).append(_element(value, place))

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

    def elements(self, node: ast.expr) -> tuple[_Sort, ...]:
        """Return the sorts of the elements of a tuple."""
        return tuple(self.of(_element(node, place)) for place in range(self.length(node)))

    def elements_of_variable(self, name: str) -> tuple[_Sort, ...]:
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
            return self._given.get(store.arg) is _Sort.NARROW
        return value is not None and self.of(value) is _Sort.NARROW

    def _settle(self) -> None:
        """Find the sorts of variables, in an order that does not matter.

        As many variables as can be are uint64 together: whatever is assigned to them then fits. Of
        these remain those of which something says so that does not depend on that.
        """
        wide = {name for name, values in self._bound.items() if None not in values}
        while True:
            self._find_others(wide)
            kept = {name for name in wide if self._bound_sort(name) is not _Sort.OTHER}
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
                {name: _Sort.WIDE if name in found else _Sort.LITERAL for name in wide}
            )
            more = {
                name
                for name in wide - found
                if self._given.get(name) is _Sort.WIDE
                or any(self.of(value) is _Sort.WIDE for value in self._bound[name] if value)
            }
            if not more:
                self._sorts.update(dict.fromkeys(found, _Sort.WIDE))
                return found
            found |= more

    def _find_others(self, wide: set[str]) -> None:
        """Find the sorts of all other variables, where these are uint64."""
        counters: set[str] = set()
        others = [name for name in self._bound if name not in wide]
        while True:
            self._sorts = dict.fromkeys(wide, _Sort.WIDE)
            for name in others:
                first = self._given.get(name, _Sort.UNKNOWN)
                self._sorts[name] = _Sort.OTHER if name in counters else first
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
                if self._sorts[name] is _Sort.LITERAL
                and not all(map(self._is_literal, self._bound[name]))
            }
            if not more:
                return
            counters |= more

    def _bound_sort(self, name: str) -> _Sort:
        """Return the sort of what is assigned to a variable."""
        values = self._bound[name]
        found = _all_joined([self.of(value) if value else _Sort.OTHER for value in values])
        return _joined(found, self._given[name]) if name in self._given else found

    def _is_literal(self, node: ast.expr | None) -> bool:
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

    def of_target(self, target: ast.expr) -> _Sort:
        """Return the sort of a variable that is assigned; of an element ``OTHER``."""
        return self.of_variable(target.id) if isinstance(target, ast.Name) else _Sort.OTHER

    def of_variable(self, name: str) -> _Sort:
        """Return the sort of a variable or parameter."""
        return self._sorts.get(name, self._given.get(name, _Sort.OTHER))

    def result(self) -> _Result:
        """Return the sort of what the function returns."""
        statements = [n for n in ast.walk(self._unit.tree) if isinstance(n, ast.Return)]
        values = [each.value for each in statements if each.value is not None]
        lengths = {self.length(each) for each in values}
        rows = [self.elements(each) for each in values] if len(lengths) == 1 else []
        elements = tuple(_settled(column) for column in zip(*rows, strict=True))
        return _Result(_settled([self.of(each) for each in values]), elements)

    def argument(self, node: ast.expr) -> _Argument:
        """Return what a function is given by an expression."""
        sort = self.of(node)
        if sort is _Sort.WIDE and isinstance(self._types.get(node), str):
            return _Argument(_UINT64, sort)
        value = self._types.get(node)
        if isinstance(value, tuple):
            pairs = zip(value, self.elements(node), strict=True)
            value = tuple(
                _UINT64 if each is _Sort.WIDE and isinstance(part, str) else part
                for part, each in pairs
            )
        return _Argument(value, _Sort.OTHER if sort is _Sort.LITERAL else sort)

    def of(self, node: ast.expr) -> _Sort:
        """Return the sort of an expression."""
        if self._is_literal(node):
            return _Sort.LITERAL
        match node:
            case ast.Name(id=name) if name in self._bound or name in self._given:
                found = self.of_variable(name)
                stores = self._reaching.stores.get(node, frozenset())
                is_narrow = found is _Sort.WIDE and stores and stores <= self._narrow
                return _Sort.NARROW if is_narrow else found
            case ast.BinOp(left=left, op=op, right=right):
                return _operated(op, self.of(left), self.of(right))
            case ast.UnaryOp(op=ast.Not()) | ast.Compare():
                return _Sort.NARROW
            case ast.UnaryOp(op=op, operand=operand):
                found = self.of(operand)
                is_kept = found is not _Sort.LITERAL or isinstance(op, ast.UAdd)
                return found if is_kept else _Sort.OTHER
            case ast.IfExp(body=body, orelse=other):
                return _joined(self.of(body), self.of(other))
            case ast.BoolOp(values=values):
                return _all_joined([self.of(each) for each in values])
            case ast.NamedExpr(value=value):
                return self.of(value)
            case ast.Call() if arguments := self.operands(node):
                sorts = [self.of(each) for each in arguments]
                found = _Sort.UNKNOWN if _Sort.UNKNOWN in sorts else _all_joined(sorts)
                return _Sort.OTHER if found is _Sort.LITERAL else found
            case ast.Call(keywords=[]) if (callee := self._unit.callee_of(node)) is not None:
                return self._returned(node, callee).sort
            case ast.Call() if (use := self._unit.use_of(node)) is not None:
                return self._of_intrinsic(use.intrinsic.name, node)
            case ast.Subscript(value=owner, slice=ast.Constant(value=int(place))) if place >= 0:
                return self._of_element(node, owner, place)
            case ast.Call(args=[_], keywords=[]) if (dtype := self._conversion(node)) is not None:
                return _sort_of(dtype)
        return _sort_of(self._types.get(node))

    def _conversion(self, node: ast.Call) -> str | None:
        """Return the type that a call converts to, whatever it is given."""
        name = library_name(node.func, self._unit.namespace) or ""
        module, _, dtype = name.partition(".")
        return dtype if module in ("numpy", "numba") and dtype in ELEMENT_TYPES else None

    def _of_element(self, node: ast.Subscript, owner: ast.expr, place: int) -> _Sort:
        """Return the sort of an element of a tuple, or of what else is subscribed."""
        if place < self.length(owner):
            match owner:
                case ast.Name(id=name) if _place(name, place) in self._bound:
                    return self.of_variable(_place(name, place))
                case ast.Tuple() | ast.IfExp():
                    return self.of(_element(owner, place))
                case ast.Call(keywords=[]) if (callee := self._unit.callee_of(owner)) is not None:
                    found = self._returned(owner, callee)
                    if found.sort is _Sort.UNKNOWN or place < len(found.elements):
                        return found.elements[place] if found.elements else _Sort.UNKNOWN
            kinds = self._types[owner]
            assert isinstance(kinds, tuple)
            return _sort_of(kinds[place])
        return _sort_of(self._types.get(node))

    def _of_intrinsic(self, name: str, node: ast.Call) -> _Sort:
        """Return the sort of what an intrinsic gives, by what it is given."""
        found = _sort_of(self._types.get(node))
        given = [sort for sort in map(self.of, node.args) if sort is not _Sort.LITERAL]
        if found is _Sort.WIDE and (name in COUNTS_OF_BITS or _Sort.NARROW in given):
            return _Sort.NARROW
        return found

    def operands(self, node: ast.Call) -> list[ast.expr]:
        """Return the arguments whose type a call's value has; none where it has one of its own."""
        name = library_name(node.func, self._unit.namespace)
        if node.keywords or name not in (*_SAME_TYPE, _WHERE):
            return []
        given = node.args[1:] if name == _WHERE else node.args
        return [each for each in given if not _is_none(each)]

    def _returned(self, node: ast.Call, callee: FunctionUnit) -> _Result:
        if callee.is_plain_numba or len(node.args) != len(callee.parameters):
            return _Result(_sort_of(self._types.get(node)))
        arguments = tuple(map(self.argument, node.args))
        if any(_Sort.UNKNOWN in (self.of(each), *self.elements(each)) for each in node.args):
            return _Result(_Sort.UNKNOWN)
        return _typed(callee, arguments)[1]


def _place(name: str, place: int) -> str:
    """Return what the element of a variable is known by."""
    return f"{name}[{place}]"


def _element(node: ast.expr, place: int) -> ast.expr:
    """Return an element of a tuple."""
    match node:
        case ast.Tuple(elts=elements) if not any(isinstance(e, ast.Starred) for e in elements):
            return elements[place]
        case ast.IfExp(test=test, body=body, orelse=other):
            return ast.IfExp(test, _element(body, place), _element(other, place))
    return ast.Subscript(node, ast.Constant(place), ast.Load())


def _settled(sorts: Sequence[_Sort]) -> _Sort:
    """Return the sort of what a function returns in several places."""
    found = _all_joined(sorts)
    return _Sort.OTHER if found in (_Sort.UNKNOWN, _Sort.LITERAL) else found


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _joined(one: _Sort, other: _Sort) -> _Sort:
    """Return the sort of a value that is one of two."""
    low, high = sorted((one, other))
    if low in (_Sort.UNKNOWN, high) or high is _Sort.WIDE:
        return high
    return _Sort.OTHER


def _all_joined(sorts: Sequence[_Sort]) -> _Sort:
    found = _Sort.UNKNOWN
    for each in sorts:
        found = _joined(found, each)
    return found


def _operated(op: ast.operator, left: _Sort, right: _Sort) -> _Sort:
    """Return the sort of an operation of two values."""
    if isinstance(op, ast.LShift | ast.RShift):
        return left
    if not isinstance(op, _ARITHMETIC):
        return _Sort.OTHER
    if _Sort.UNKNOWN in (left, right):
        return _Sort.UNKNOWN
    if left is right is _Sort.LITERAL and isinstance(op, ast.Sub):
        return _Sort.OTHER
    return _joined(left, right)


class _Typing(CopyingTransformer):
    """Writes the conversions."""

    def __init__(self, unit: FunctionUnit, sorts: _Sorts) -> None:
        self._unit = unit
        self._sorts = sorts
        self._names = FreshNames.for_unit(unit)
        self._callees = dict(unit.callees)
        self._namespace = dict(unit.namespace)
        self._conversion = ""

    def run(self) -> FunctionUnit:
        """Return the function."""
        tree = self.generic_visit(self._unit.tree)
        if tree is self._unit.tree:
            return self._unit
        assert isinstance(tree, ast.FunctionDef)
        return replace(self._unit, tree=tree, callees=self._callees, namespace=self._namespace)

    def _converted(self, node: ast.expr) -> ast.expr:
        """Return a conversion of a literal; of what is none the visited node."""
        if self._sorts.of(node) is not _Sort.LITERAL:
            visited = self.visit(node)
            assert isinstance(visited, ast.expr)
            return visited
        return self._to_wide(node)

    def _to_wide(self, node: ast.expr) -> ast.expr:
        """Return a conversion to uint64."""
        if not self._conversion:
            self._conversion = self._names.make("uint64")
            self._namespace[self._conversion] = np.uint64
        made = ast.copy_location(call(self._conversion, node), node)
        return ast.fix_missing_locations(made)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if self._sorts.of(node) is not _Sort.WIDE or not isinstance(node.op, _ARITHMETIC):
            return self.generic_visit(node)
        made = ast.BinOp(self._converted(node.left), node.op, self._converted(node.right))
        return _kept(node, made, ("left", "right"))

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        is_wide = self._sorts.of(self._sorts.augmented(node)) is _Sort.WIDE
        if not (is_wide and isinstance(node.op, _ARITHMETIC)):
            return self.generic_visit(node)
        target = self.visit(node.target)
        made = ast.AugAssign(target, node.op, self._converted(node.value))
        return _kept(node, made, ("target", "value"))

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        elements = self._sorts.elements(node)
        if elements:
            return self._fitted(node, elements)
        if self._sorts.of(node) is not _Sort.WIDE:
            return self.generic_visit(node)
        test = self.visit(node.test)
        made = ast.IfExp(test, self._converted(node.body), self._converted(node.orelse))
        return _kept(node, made, ("test", "body", "orelse"))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        if self._sorts.of(node) is not _Sort.WIDE:
            return self.generic_visit(node)
        values = [self._converted(each) for each in node.values]
        if all(a is b for a, b in zip(values, node.values, strict=True)):
            return node
        return ast.copy_location(ast.BoolOp(node.op, values), node)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        result = self._sorts.result()
        if node.value is None or not (result.elements or result.sort is _Sort.WIDE):
            return self.generic_visit(node)
        made = (
            self._fitted(node.value, result.elements)
            if result.elements
            else self._converted(node.value)
        )
        return _kept(node, ast.Return(made), ("value",))

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.AST]:
        match node.targets:
            case [ast.Name(id=name)] if self._sorts.of_variable(name) is _Sort.WIDE:
                made = ast.Assign(node.targets, self._converted(node.value))
                return _kept(node, made, ("value",))
            case [ast.Name(id=name)] if elements := self._sorts.elements_of_variable(name):
                made = ast.Assign(node.targets, self._fitted(node.value, elements))
                return _kept(node, made, ("value",))
            case [ast.Tuple(elts=targets)] if len(targets) == self._sorts.length(node.value):
                sorts = [self._sorts.of_target(each) for each in targets]
                made = ast.Assign(node.targets, self._fitted(node.value, sorts))
                return _kept(node, made, ("value",))
        if self._is_chain(node):
            return [self.visit(each) for each in _separated(node)]
        return self.generic_visit(node)

    def _is_chain(self, node: ast.Assign) -> bool:
        """Return whether a literal is assigned to several variables, of which one is a uint64."""
        names = [each.id for each in node.targets if isinstance(each, ast.Name)]
        is_wide = any(self._sorts.of_variable(name) is _Sort.WIDE for name in names)
        return is_wide and len(names) > 1 and self._sorts._is_literal(node.value)

    def _fitted(self, node: ast.expr, sorts: Sequence[_Sort]) -> ast.expr:
        """Return a tuple whose literals are uint64 where its elements have to be."""
        match node:
            case ast.Tuple(elts=values) if len(values) == len(sorts):
                parts = [
                    self._converted(value) if sort is _Sort.WIDE else self.visit(value)
                    for value, sort in zip(values, sorts, strict=True)
                ]
                if all(a is b for a, b in zip(parts, values, strict=True)):
                    return node
                return ast.copy_location(ast.Tuple(parts, node.ctx), node)
            case ast.IfExp(test=test, body=body, orelse=other):
                ways = (self._fitted(body, sorts), self._fitted(other, sorts))
                made = _kept(node, ast.IfExp(self.visit(test), *ways), ("test", "body", "orelse"))
                assert isinstance(made, ast.expr)
                return made
            case ast.Name():
                pairs = list(zip(self._sorts.elements(node), sorts, strict=False))
                if (_Sort.LITERAL, _Sort.WIDE) in pairs:
                    parts = [_element(load(node.id), place) for place in range(len(pairs))]
                    located = [ast.copy_location(part, node) for part in parts]
                    whole = ast.Tuple(
                        [
                            self._to_wide(part) if pair == (_Sort.LITERAL, _Sort.WIDE) else part
                            for part, pair in zip(located, pairs, strict=True)
                        ],
                        ast.Load(),
                    )
                    return ast.fix_missing_locations(ast.copy_location(whole, node))
        visited = self.visit(node)
        assert isinstance(visited, ast.expr)
        return visited

    def visit_Call(self, node: ast.Call) -> ast.AST:
        operands = self._sorts.operands(node)
        if operands and self._sorts.of(node) is _Sort.WIDE:
            arguments = [
                self._converted(each) if each in operands else self.visit(each)
                for each in node.args
            ]
            if all(a is b for a, b in zip(arguments, node.args, strict=True)):
                return node
            return ast.copy_location(ast.Call(node.func, arguments, node.keywords), node)
        callee = self._unit.callee_of(node)
        if (
            callee is None
            or callee.is_plain_numba
            or node.keywords
            or len(node.args) != len(callee.parameters)
        ):
            return self.generic_visit(node)
        visited = self.generic_visit(node)
        made, _ = _typed(callee, tuple(map(self._sorts.argument, node.args)))
        assert isinstance(visited, ast.Call)
        assert isinstance(node.func, ast.Name)
        if made is callee:
            return visited
        name = next((n for n, known in self._callees.items() if known is made), None)
        if name is None:
            name = self._names.make(callee.name)
            self._callees[name] = made
        function = ast.copy_location(ast.Name(name, ast.Load()), node.func)
        return ast.copy_location(ast.Call(function, visited.args, []), node)


def _separated(node: ast.Assign) -> list[ast.Assign]:
    """Return an assignment to each target."""
    made = [ast.Assign([target], node.value) for target in node.targets]
    return [ast.copy_location(each, node) for each in made]


def _kept(node: ast.stmt | ast.expr, made: ast.AST, parts: tuple[str, ...]) -> ast.AST:
    """Return the node itself where its parts are what they were, else what was made of it."""
    if all(getattr(node, part) is getattr(made, part) for part in parts):
        return node
    for name, value in vars(node).items():
        if name not in node._fields:
            setattr(made, name, value)
    return made
