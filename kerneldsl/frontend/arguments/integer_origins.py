"""Origins of integers: where a number's type comes from, in a function that may have uint64 values.

It distinguishes a uint64 that the program says, what Numba makes of smaller unsigned numbers, and
literals, which take the type of the first (``docs/adr/0031-integers-stay-integers.md``). The rules
are :mod:`~kerneldsl.frontend.arguments.origins`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from kerneldsl.frontend.arguments.inferred_types import types_of_values
from kerneldsl.frontend.arguments.known_values import Elements, Value, items_of
from kerneldsl.frontend.arguments.origins import (
    CONVERTED,
    Origin,
    all_joined,
    joined,
    operated,
    origin_of,
    settled,
)
from kerneldsl.frontend.arguments.reaching import Reaching
from kerneldsl.frontend.bindings import Binding, bindings, unpack_targets
from kerneldsl.frontend.expressions import augmented_value, folded
from kerneldsl.frontend.library_names import conversion_dtype, library_name
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ElementKind, names_of
from kerneldsl.utilities.cached_property import cached_property

__all__ = ["Argument", "IntegerOrigins", "Result", "element_of"]


class Result(NamedTuple):
    """Origin of what a function returns, and of each element if that is a tuple."""

    origin: Origin
    elements: tuple[Origin, ...] = ()


class Argument(NamedTuple):
    """A value that a function is given."""

    value: Value
    origin: Origin


#: Functions with results of the type of their operands.
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
#: Intrinsics that count bits of a number.
_COUNTS_OF_BITS = frozenset({"clz", "ffs", "popc"})
_UINT64 = "uint64"
#: Of a uint64 and signed numbers their result is exact, and a uint64.
_LARGEST = ("max", "numpy.maximum", "numpy.fmax")
_WHOLE = names_of(ElementKind.SIGNED) | {_UINT64}
#: Results of functions by what is known of their arguments.
_results: WeakKeyDictionary[FunctionUnit, dict[tuple[Argument, ...], Result]] = WeakKeyDictionary()


def _result_of(unit: FunctionUnit, arguments: tuple[Argument, ...]) -> Result:
    known = _results.setdefault(unit, {})
    if arguments not in known:
        # A function that calls itself is given what is known so far.
        known[arguments] = Result(Origin.OTHER)
        known[arguments] = IntegerOrigins(unit, arguments).result
    return known[arguments]


class IntegerOrigins:
    """Origins of the expressions and variables of one function.

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
        self._given = dict(zip(unit.parameters, (each.origin for each in arguments), strict=True))
        self._reaching = Reaching(unit.tree)
        self._bound: dict[str, list[ast.expr | None]] = {}
        #: Parameters and targets of assignments that are followed, to what they are given.
        self._stored: dict[ast.AST, ast.expr | None] = dict.fromkeys(unit.tree.args.args)
        for binding in bindings(unit.tree):
            self._bind(binding)
        for name, origin in self._given.items():
            if origin is Origin.LITERAL and name in self._bound:  # it does not stay the literal
                self._given[name] = Origin.OTHER
        self._close_tuples()
        self._origins: dict[str, Origin] = dict.fromkeys(self._bound, Origin.WIDE)
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
        for node in walk_here(target):
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

    def elements(self, node: ast.expr) -> tuple[Origin, ...]:
        """Return the origins of the elements of a tuple."""
        return tuple(self.of(element_of(node, place)) for place in range(self.length(node)))

    def elements_of_variable(self, name: str) -> tuple[Origin, ...]:
        """Return the origins of the elements of a variable that is always a tuple."""
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
            return self._given.get(store.arg) is Origin.NARROW
        return value is not None and self.of(value) is Origin.NARROW

    def _settle(self) -> None:
        """Find the origins of variables, in an order that does not matter.

        As many variables as can be are uint64 together: whatever is assigned to them then fits. Of
        these remain those of which something says so that does not depend on that.
        """
        wide = {name for name, values in self._bound.items() if None not in values}
        while True:
            self._find_others(wide)
            kept = {name for name in wide if self._bound_origin(name) is not Origin.OTHER}
            if kept == wide:
                kept = self._with_evidence(wide)
            if kept == wide:
                return
            wide = kept

    def _with_evidence(self, wide: set[str]) -> set[str]:
        """Return which of these variables are uint64 by what else the program says."""
        found: set[str] = set()
        while True:
            self._origins.update(
                {name: Origin.WIDE if name in found else Origin.LITERAL for name in wide}
            )
            more = {
                name
                for name in wide - found
                if self._given.get(name) is Origin.WIDE
                or any(self.of(value) is Origin.WIDE for value in self._bound[name] if value)
            }
            if not more:
                self._origins.update(dict.fromkeys(found, Origin.WIDE))
                return found
            found |= more

    def _find_others(self, wide: set[str]) -> None:
        """Find the origins of all other variables, where these are uint64."""
        counters: set[str] = set()
        others = [name for name in self._bound if name not in wide]
        while True:
            self._origins = dict.fromkeys(wide, Origin.WIDE)
            for name in others:
                first = self._given.get(name, Origin.UNKNOWN)
                self._origins[name] = Origin.OTHER if name in counters else first
            changed = True
            while changed:
                changed = False
                for name in others:
                    found = joined(self._origins[name], self._bound_origin(name))
                    if found > self._origins[name]:
                        self._origins[name], changed = found, True
            # ``n += 1`` counts, and Python's counts are int64, whatever they are used beside.
            more = {
                name
                for name in others
                if self._origins[name] is Origin.LITERAL
                and not all(map(self.is_literal, self._bound[name]))
            }
            if not more:
                return
            counters |= more

    def _bound_origin(self, name: str) -> Origin:
        """Return the origin of what is assigned to a variable."""
        values = self._bound[name]
        found = all_joined([self.of(value) if value else Origin.OTHER for value in values])
        return joined(found, self._given[name]) if name in self._given else found

    def is_literal(self, node: ast.expr | None) -> bool:
        """Return whether an expression is a written, captured or given int of 0 <= n < 2**63."""
        if node is None:
            return False
        value = self._unit.literal(node)
        match node:
            case ast.Name(id=name) if self._given.get(name) is Origin.LITERAL:
                return True
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int(place))):
                captured = self._unit.constants.get(name)
                items = captured.value if captured is not None else None
                if isinstance(items, tuple) and 0 <= place < len(items):
                    value = items[place] if type(items[place]) is int else None
        if isinstance(node, ast.BinOp | ast.UnaryOp):
            constant = folded(node)
            value = None if constant is None else self._unit.literal(constant)
        return value is not None and 0 <= value < 2**63

    def of_target(self, target: ast.expr) -> Origin:
        """Return the origin of a variable that is assigned; of an element ``OTHER``."""
        return self.of_variable(target.id) if isinstance(target, ast.Name) else Origin.OTHER

    def of_variable(self, name: str) -> Origin:
        """Return the origin of a variable or parameter."""
        return self._origins.get(name, self._given.get(name, Origin.OTHER))

    @cached_property
    def result(self) -> Result:
        """Origin of what the function returns."""
        statements = [n for n in walk_here(self._unit.tree) if isinstance(n, ast.Return)]
        values = [each.value for each in statements if each.value is not None]
        lengths = {self.length(each) for each in values}
        rows = [self.elements(each) for each in values] if len(lengths) == 1 else []
        elements = tuple(settled(column) for column in zip(*rows, strict=True))
        return Result(settled([self.of(each) for each in values]), elements)

    def argument(self, node: ast.expr) -> Argument:
        """Return what a function is given by an expression."""
        origin = self.of(node)
        if origin is Origin.WIDE and isinstance(self._types.get(node), str):
            return Argument(_UINT64, origin)
        value = self._types.get(node)
        if isinstance(value, tuple):
            pairs = zip(value, self.elements(node), strict=True)
            value = tuple(
                _UINT64 if each is Origin.WIDE and isinstance(part, str) else part
                for part, each in pairs
            )
        return Argument(value, origin)

    def of(self, node: ast.expr) -> Origin:
        """Return the origin of an expression."""
        if self.is_literal(node):
            return Origin.LITERAL
        match node:
            case ast.Name(id=name) if name in self._bound or name in self._given:
                found = self.of_variable(name)
                stores = self._reaching.stores.get(node, frozenset())
                is_narrow = found is Origin.WIDE and stores and stores <= self._narrow
                return Origin.NARROW if is_narrow else found
            case ast.BinOp(left=left, op=op, right=right):
                return operated(op, self.of(left), self.of(right))
            case ast.UnaryOp(op=ast.Not()) | ast.Compare():
                return Origin.TRUTH
            case ast.UnaryOp(op=op, operand=operand):
                found = self.of(operand)
                keeping = {Origin.LITERAL: ast.UAdd, Origin.TRUTH: ast.Invert}.get(found)
                is_kept = keeping is None or isinstance(op, keeping)
                return found if is_kept else Origin.OTHER
            case ast.IfExp(body=body, orelse=other):
                return joined(self.of(body), self.of(other))
            case ast.BoolOp(values=values):
                return all_joined([self.of(each) for each in values])
            case ast.NamedExpr(value=value):
                return self.of(value)
            case ast.Call() if arguments := self.operands(node):
                origins = [self.of(each) for each in arguments]
                found = Origin.UNKNOWN if Origin.UNKNOWN in origins else all_joined(origins)
                if Origin.WIDE in origins and self._is_largest(node, origins):
                    found = Origin.WIDE
                return Origin.OTHER if found in CONVERTED else found
            case ast.Call(keywords=[]) if (callee := self._unit.callee_of(node)) is not None:
                return self._returned(node, callee).origin
            case ast.Call() if (use := self._unit.use_of(node)) is not None:
                return self._of_intrinsic(use.intrinsic.name, node)
            case ast.Subscript(value=owner, slice=ast.Constant(value=int(place))) if place >= 0:
                return self._of_element(node, owner, place)
        return origin_of(self._type_of(node))

    def _type_of(self, node: ast.expr) -> Value:
        """Return the type of an expression; a conversion has one, of whatever it converts."""
        match node:
            case ast.Call(func=called, args=[_], keywords=[]):
                dtype = conversion_dtype(called, self._unit.namespace)
                if dtype is not None:
                    return dtype
        return self._types.get(node)

    def _of_element(self, node: ast.Subscript, owner: ast.expr, place: int) -> Origin:
        """Return the origin of an element of a tuple, or of what else is subscribed."""
        if place < self.length(owner):
            match owner:
                case ast.Name(id=name) if _place(name, place) in self._bound:
                    return self.of_variable(_place(name, place))
                case ast.Tuple() | ast.IfExp():
                    return self.of(element_of(owner, place))
                case ast.Call(keywords=[]) if (callee := self._unit.callee_of(owner)) is not None:
                    found = self._returned(owner, callee)
                    if found.origin is Origin.UNKNOWN or place < len(found.elements):
                        return found.elements[place] if found.elements else Origin.UNKNOWN
            kinds = self._types[owner]
            assert isinstance(kinds, tuple)
            return origin_of(kinds[place])
        return origin_of(self._types.get(node))

    def _of_intrinsic(self, name: str, node: ast.Call) -> Origin:
        """Return the origin of what an intrinsic gives, by what it is given."""
        found = origin_of(self._types.get(node))
        given = [origin for origin in map(self.of, node.args) if origin is not Origin.LITERAL]
        if found is Origin.WIDE and (name in _COUNTS_OF_BITS or Origin.NARROW in given):
            return Origin.NARROW
        return found

    def _is_largest(self, node: ast.Call, origins: Sequence[Origin]) -> bool:
        """Return whether a call gives the largest of integers."""
        return library_name(node.func, self._unit.namespace) in _LARGEST and all(
            origin is not Origin.OTHER or self._type_of(each) in _WHOLE
            for origin, each in zip(origins, self.operands(node), strict=True)
        )

    def operands(self, node: ast.Call) -> list[ast.expr]:
        """Return the arguments that give a call's value its type; none if it has one of its own."""
        name = library_name(node.func, self._unit.namespace)
        if node.keywords or name not in (*_SAME_TYPE, _WHERE):
            return []
        given = node.args[1:] if name == _WHERE else node.args
        return [each for each in given if not _is_none(each)]

    def _returned(self, node: ast.Call, callee: FunctionUnit) -> Result:
        if callee.is_plain_numba or len(node.args) != len(callee.parameters):
            return Result(origin_of(self._types.get(node)))
        arguments = tuple(map(self.argument, node.args))
        if any(Origin.UNKNOWN in (self.of(each), *self.elements(each)) for each in node.args):
            return Result(Origin.UNKNOWN)
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


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
