"""From a normal form to a typed function, in one forward pass.

Each operation is typed when it is made: the types of its operands are known by then. A variable
that a loop assigns has the type that holds its values before the loop and at the end of the body.
If that differs from the type before the loop, the loop is read again with it.

It does not read ``break`` and ``continue`` yet, early returns of device functions, slices,
rows, records or strided arrays. A variable that only one branch assigns cannot be read after it.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from numba import types

from kerneldsl.analysis.library_names import outside_value
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.ir.operations import Effect, Function, Operation, Region, Value
from kerneldsl.ir.typing import Typing
from kerneldsl.language.intrinsics import intrinsic as language
from kerneldsl.lowering.tile_types import NumbaTile
from kerneldsl.lowering.types import element_type
from kerneldsl.lowering.typing_rules import typing_rule

__all__ = ["NotReadError", "read_function"]


class NotReadError(Exception):
    """The source has what this front end does not read."""


_BINARY: dict[type[ast.AST], tuple[Any, Any]] = {
    ast.Add: (operator.add, operator.iadd),
    ast.Sub: (operator.sub, operator.isub),
    ast.Mult: (operator.mul, operator.imul),
    ast.Div: (operator.truediv, operator.itruediv),
    ast.FloorDiv: (operator.floordiv, operator.ifloordiv),
    ast.Mod: (operator.mod, operator.imod),
    ast.Pow: (operator.pow, operator.ipow),
    ast.LShift: (operator.lshift, operator.ilshift),
    ast.RShift: (operator.rshift, operator.irshift),
    ast.BitAnd: (operator.and_, operator.iand),
    ast.BitOr: (operator.or_, operator.ior),
    ast.BitXor: (operator.xor, operator.ixor),
}
_UNARY: dict[type[ast.AST], Any] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
_COMPARISONS: dict[type[ast.AST], Any] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FOLDED = frozenset({ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod})
_INT64 = types.int64


def read_function(unit: FunctionUnit, kinds: tuple[Any, ...], typing_context: Any) -> Function:
    """Return the typed function of a normal form for arguments of Numba's types.

    Raises :class:`NotReadError` for what this front end does not read. Raises Numba's
    ``TypingError`` where an operation has no type.
    """
    if not all(isinstance(kind, types.Array | types.Number | types.Boolean) for kind in kinds):
        raise NotReadError(f"arguments {kinds}")
    if any(isinstance(kind, types.Array) and kind.layout != "C" for kind in kinds):
        raise NotReadError("an array with strides")
    function = Function(unit.name, tuple(zip(unit.parameters, kinds, strict=True)), unit)
    reader = _Reader(unit, Typing.of(typing_context))
    reader.variables = dict(zip(unit.parameters, function.body.arguments, strict=True))
    reader.into(function.body, lambda: reader.block(unit.tree.body))
    reader.operations = function.body.operations
    reader.add("yield", [])
    return function


class _Reader:
    def __init__(self, unit: FunctionUnit, typing: Typing) -> None:
        self.unit = unit
        self.typing = typing
        #: A tuple is known by its members, and is no value.
        self.variables: dict[str, Any] = {}
        self.operations: list[Operation] = []
        self.place: Any = None
        #: Calls of device functions around what is read.
        self.depth = 0
        #: In the elements of a tile operation: the tiles, and their elements.
        self.elements: dict[Value, Value] | None = None
        self.element_region: Region | None = None

    # -- making operations ------------------------------------------------------------------------

    def add(
        self,
        name: str,
        operands: list[Value],
        results: tuple[Any, ...] = (),
        attributes: dict[str, Any] | None = None,
        regions: list[Region] | None = None,
        effect: Effect = Effect.NONE,
    ) -> Operation:
        made = Operation(name, operands, results, attributes, regions, effect, self.place)
        self.operations.append(made)
        return made

    def constant(self, value: Any, kind: Any = None) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self.constant, value))
        if not isinstance(value, int | float | np.generic):
            raise NotReadError(f"a constant {type(value).__name__}")
        if kind is None:
            kind = types.unliteral(self.typing.context.resolve_value_type(value))
        return self.add("const", [], (kind,), {"value": value}).result

    def into(self, region: Region, read: Callable[[], Iterable[Value] | None]) -> None:
        """Read into a region, which ends with a yield of what `read` returns, if anything."""
        outer, self.operations = self.operations, region.operations
        try:
            yielded = read()
            if yielded is not None:
                self.add("yield", list(yielded))
        finally:
            self.operations = outer

    def cast(self, value: Value, kind: Any) -> Value:
        if value.type == kind:
            return value
        if not isinstance(kind, types.Number | types.Boolean):
            raise NotReadError(f"a conversion to {kind}")
        return self.add("cast", [value], (kind,)).result

    def casts(self, values: list[Value], kinds: list[Any]) -> list[Value]:
        return [self.cast(value, kind) for value, kind in zip(values, kinds, strict=True)]

    # -- statements -------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> None:
        for number, statement in enumerate(body):
            match statement:
                case ast.If(body=[ast.Return(value=None)], orelse=[]):
                    rest = ast.If(ast.UnaryOp(ast.Not(), statement.test), body[number + 1 :], [])
                    ast.copy_location(rest, statement)
                    if rest.body:
                        self.statement(rest)
                    return
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        self.place = (getattr(node, "lineno", None), getattr(node, "col_offset", None))
        match node:
            case ast.Assign(targets=[target], value=value):
                self.assign(target, value)
            case ast.Assert() | ast.Raise():
                pass  # exceptions act in debug mode alone
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                self.bind(
                    name, self.binary(_BINARY[type(op)][1], self.variables[name], self.value(value))
                )
            case ast.AugAssign(target=ast.Subscript() as target, op=op, value=value):
                array, indices = self.indexed(target)
                old = self.load(array, indices)
                self.store(
                    array, indices, self.binary(_BINARY[type(op)][1], old, self.value(value))
                )
            case ast.Expr(value=ast.Call() as call):
                self.call(call)
            case ast.Expr() | ast.Pass():
                pass
            case ast.If():
                self.branch(node)
            case ast.While():
                self.while_loop(node)
            case ast.For():
                self.for_loop(node)
            case ast.Return(value=None):
                if node is not self.unit.tree.body[-1]:
                    raise NotReadError("a return before the end")
            case _:
                raise NotReadError(ast.dump(node)[:80])

    def bind(self, name: str, value: Any) -> None:
        if isinstance(value, Value) and not value.name:
            value.name = name
        self.variables[name] = value

    def number(self, node: ast.expr) -> Value:
        """Read an expression that is no tuple."""
        found = self.value(node)
        if not isinstance(found, Value):
            raise NotReadError(f"a tuple: {ast.unparse(node)}")
        return found

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Name(id=name), _:
                self.bind(name, self.value(value))
            case ast.Tuple(elts=targets), _:
                found = self.value(value)
                if not isinstance(found, tuple) or len(found) != len(targets):
                    raise NotReadError("a tuple of targets")
                for each, result in zip(targets, found, strict=True):
                    if not isinstance(each, ast.Name):
                        raise NotReadError("a tuple of targets")
                    self.bind(each.id, result)
            case ast.Subscript(), _:
                result = self.number(value)
                array, indices = self.indexed(target)
                self.store(array, indices, result)
            case _:
                raise NotReadError(ast.unparse(target))

    def branch(self, node: ast.If) -> None:
        condition = self.truth(self.value(node.test))
        before = self.variables
        found = []
        for body in (node.body, node.orelse):
            region = Region()
            self.variables = dict(before)
            self.into(region, partial(self.block, body))
            found.append((region, self.variables))
        (yes, in_yes), (no, in_no) = found
        names = [
            name
            for name in dict.fromkeys((*in_yes, *in_no))
            if in_yes.get(name) is not before.get(name) or in_no.get(name) is not before.get(name)
        ]
        if any(isinstance(v.get(name), tuple) for name in names for v in (in_yes, in_no)):
            raise NotReadError("a tuple that a branch assigns")
        merged = [name for name in names if name in in_yes and name in in_no]
        kinds = [self.typing.unify(in_yes[name].type, in_no[name].type) for name in merged]
        for region, variables in found:
            chosen = [variables[name] for name in merged]
            self.into(
                region,
                partial(self.casts, chosen, kinds),
            )
        if any(not isinstance(kind, types.Number | types.Boolean) for kind in kinds):
            raise NotReadError("an array or tile that a branch assigns")
        made = self.add("if", [condition], tuple(kinds), None, [yes, no])
        self.variables = {k: v for k, v in before.items() if k in in_yes and k in in_no}
        for name, result in zip(merged, made.results, strict=True):
            self.bind(name, result)

    def while_loop(self, node: ast.While) -> None:
        if node.orelse:
            raise NotReadError("else of a loop")
        self._loop(node.body, lambda kinds, carried: self._while(node, kinds, carried))

    def _while(self, node: ast.While, kinds: list[Any], names: list[str]) -> list[Any]:
        before, body = Region(tuple(kinds)), Region(tuple(kinds))
        outer = self.variables
        self.variables = {**outer, **self._named(names, before.arguments)}
        self.into(before, lambda: [self.truth(self.value(node.test))])
        self.variables = {**outer, **self._named(names, body.arguments)}
        self.into(body, lambda: self.block(node.body))
        found = self._loop_kinds(names, kinds, self.variables)
        if found == kinds:
            last = self.variables
            self.into(
                body, lambda: [self.cast(last[n], k) for n, k in zip(names, kinds, strict=True)]
            )
            self.variables = outer
            given = [self.cast(outer[n], k) for n, k in zip(names, kinds, strict=True)]
            made = self.add("while", given, tuple(kinds), None, [before, body])
            for name, result in zip(names, made.results, strict=True):
                self.bind(name, result)
        self.variables = outer
        return found

    def for_loop(self, node: ast.For) -> None:
        if node.orelse or not isinstance(node.target, ast.Name):
            raise NotReadError("a loop over several variables")
        target = node.target.id
        match node.iter:
            case ast.Tuple(elts=parts):
                numbers = [self.unit.literal(part) for part in parts]
                if None in numbers:
                    raise NotReadError("a loop over values")
                name, bounds, kind = "for_each", [], _INT64
                attributes: dict[str, Any] = {"values": tuple(numbers)}
            case ast.Call(func=ast.Name(id="range"), args=args) if (
                "range" not in self.unit.namespace or (self.unit.namespace["range"] is range)
            ):
                found = [self.value(each) for each in args]
                signature = self.typing.call(
                    self.typing.function(range), tuple(v.type for v in found)
                )
                kind = signature.return_type.dtype
                if len(found) == 1:
                    found.insert(0, self.constant(0, kind))
                if len(found) == 2:
                    found.append(self.constant(1, kind))
                name, bounds, attributes = "for", [self.cast(v, kind) for v in found], {}
            case _:
                raise NotReadError(ast.unparse(node.iter))
        self._loop(
            node.body,
            lambda kinds, names: self._for(
                node, target, name, bounds, kind, attributes, kinds, names
            ),
        )

    def _for(
        self,
        node: ast.For,
        target: str,
        name: str,
        bounds: list[Value],
        kind: Any,
        attributes: dict[str, Any],
        kinds: list[Any],
        names: list[str],
    ) -> list[Any]:
        body = Region((kind, *kinds))
        body.arguments[0].name = target
        outer = self.variables
        self.variables = {
            **outer,
            **self._named(names, body.arguments[1:]),
            target: body.arguments[0],
        }
        self.into(body, lambda: self.block(node.body))
        found = self._loop_kinds(names, kinds, self.variables)
        if found == kinds:
            last = self.variables
            self.into(
                body, lambda: [self.cast(last[n], k) for n, k in zip(names, kinds, strict=True)]
            )
            self.variables = outer
            given = [self.cast(outer[n], k) for n, k in zip(names, kinds, strict=True)]
            made = self.add(name, [*bounds, *given], tuple(kinds), dict(attributes), [body])
            for each, result in zip(names, made.results, strict=True):
                self.bind(each, result)
            outer.pop(target, None)
        self.variables = outer
        return found

    def _loop(
        self, body: list[ast.stmt], read: Callable[[list[Any], list[str]], list[Any]]
    ) -> None:
        names = [name for name in assigned(body) if name in self.variables]
        if any(isinstance(self.variables[name], tuple) for name in names):
            raise NotReadError("a tuple that a loop assigns")
        kinds = [self.variables[name].type for name in names]
        if any(not isinstance(kind, types.Number | types.Boolean) for kind in kinds):
            raise NotReadError("an array or tile that a loop assigns")
        while True:
            mark = len(self.operations)
            found = read(kinds, names)
            if found == kinds:
                return
            del self.operations[mark:]
            kinds = found

    def _named(self, names: list[str], values: list[Value]) -> dict[str, Value]:
        for name, value in zip(names, values, strict=True):
            value.name = name
        return dict(zip(names, values, strict=True))

    def _loop_kinds(
        self, names: list[str], kinds: list[Any], variables: dict[str, Value]
    ) -> list[Any]:
        return [
            self.typing.unify(kind, variables[name].type)
            for name, kind in zip(names, kinds, strict=True)
        ]

    # -- expressions ------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return self.constant(value)
            case ast.Name(id=name):
                if name in self.variables:
                    return self.variables[name]
                if name in self.unit.constants:
                    return self.constant(self.unit.constants[name].value)
                return self.constant(self.unit.namespace[name])
            case ast.BinOp(left=left, op=op, right=right):
                one, two = self.number(left), self.number(right)
                return self.binary(_BINARY[type(op)][0], one, two)
            case ast.UnaryOp(op=op, operand=operand):
                if isinstance(op, ast.Not):
                    condition = self.truth(self.value(operand))
                    return self.numba(operator.not_, [condition])
                found = self.value(operand)
                constant = _constant(found)
                if constant is not None and isinstance(op, ast.USub):
                    return self.constant(-constant, found.type)
                return self.numba(_UNARY[type(op)], [found])
            case ast.Compare(left=left, ops=ops, comparators=rights):
                return self.comparison(self.number(left), ops, rights)
            case ast.BoolOp(op=op, values=values):
                return self.both_or_either(values, is_both=isinstance(op, ast.And))
            case ast.Tuple(elts=parts):
                return tuple(map(self.value, parts))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.choice(test, body, orelse)
            case ast.Call():
                found = self.call(node)
                if found is None:
                    raise NotReadError(ast.unparse(node))
                return found
            case ast.Attribute(value=inner, attr=attribute):
                return self.attribute(node, inner, attribute)
            case ast.Subscript():
                found = self.value(node.value)
                if isinstance(found, tuple):
                    index = _constant(self.number(node.slice))
                    if type(index) is not int:
                        raise NotReadError("an index of a tuple")
                    return found[index]
                array, indices = self.indexed(node)
                return self.load(array, indices)
        raise NotReadError(ast.unparse(node))

    def comparison(self, left: Value, ops: list[ast.cmpop], rights: list[ast.expr]) -> Value:
        if type(ops[0]) not in _COMPARISONS:
            raise NotReadError("a comparison")
        right = self.number(rights[0])
        first = self.numba(_COMPARISONS[type(ops[0])], [left, right])
        if len(ops) == 1:
            return first
        return self.either(first, lambda: self.comparison(right, ops[1:], rights[1:]), is_both=True)

    def both_or_either(self, values: list[ast.expr], *, is_both: bool) -> Value:
        first = self.number(values[0])
        if len(values) == 1:
            return first
        return self.either(
            first, lambda: self.both_or_either(values[1:], is_both=is_both), is_both=is_both
        )

    def either(self, first: Value, read: Callable[[], Value], *, is_both: bool) -> Value:
        """Return the first value or what is read then, as ``and`` and ``or`` choose."""
        condition = self.truth(first)
        region, other = Region(), Region()
        found: list[Value] = []

        def second() -> None:
            found.append(read())

        self.into(region, second)
        kind = self.typing.unify(first.type, found[0].type)
        self.into(region, lambda: [self.cast(found[0], kind)])
        self.into(other, lambda: [self.cast(first, kind)])
        regions = [region, other] if is_both else [other, region]
        return self.add("if", [condition], (kind,), None, regions).result

    def binary(self, function: Any, one: Value, two: Value) -> Value:
        values = _constant(one), _constant(two)
        are_known = all(type(value) is int for value in values) and one.type == two.type == _INT64
        divides = function in (operator.floordiv, operator.mod)
        if are_known and function in _FOLDED_OPERATORS and (values[1] or not divides):
            folded = function(*values)
            if -(2**63) <= folded < 2**63:
                found: Value = self.constant(folded, _INT64)
                return found
        return self.numba(function, [one, two])

    def numba(self, function: Any, operands: list[Value]) -> Value:
        signature = self.typing.operator(function, tuple(v.type for v in operands))
        return self.add(
            "numba",
            operands,
            (signature.return_type,),
            {"function": function, "signature": signature},
        ).result

    def truth(self, value: Value) -> Value:
        if value.type == types.boolean:
            return value
        return self.numba(bool, [value])

    def choice(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Value:
        condition = self.truth(self.value(test))
        regions, values = [], []
        for each in (body, orelse):
            region = Region()

            def read(each: ast.expr = each) -> None:
                values.append(self.value(each))

            self.into(region, read)
            regions.append(region)
        if not all(isinstance(v, Value) for v in values):
            raise NotReadError("a choice of tuples")
        kind = self.typing.unify(values[0].type, values[1].type)
        if not isinstance(kind, types.Number | types.Boolean):
            raise NotReadError("a choice of arrays")
        for region, value in zip(regions, values, strict=True):
            self.into(region, partial(self.casts, [value], [kind]))
        return self.add("if", [condition], (kind,), None, regions).result

    def attribute(self, node: ast.Attribute, inner: ast.expr, attribute: str) -> Any:
        if isinstance(inner, ast.Name) and isinstance(self.variables.get(inner.id), Value):
            array = self.variables[inner.id]
            if attribute == "size" and isinstance(array.type, types.Array):
                return self.add("array.size", [array], (_INT64,)).result
            if attribute == "shape" and isinstance(array.type, types.Array):
                return tuple(
                    self.add("array.extent", [array], (_INT64,), {"axis": axis}).result
                    for axis in range(array.type.ndim)
                )
            if attribute == "ndim" and isinstance(array.type, types.Array):
                return self.constant(array.type.ndim, _INT64)
        value = outside_value(node, self.unit.namespace)
        if isinstance(value, int | float):
            return self.constant(value)
        raise NotReadError(ast.unparse(node))

    def call(self, node: ast.Call) -> Any:
        use = self.unit.use_of(node)
        if use is not None:
            return self.intrinsic(node, use)
        callee = self.unit.callee_of(node)
        if callee is not None:
            return self.function(callee, [self.value(each) for each in node.args])
        if node.keywords:
            raise NotReadError(f"a call of {ast.unparse(node.func)}")
        function = outside_value(node.func, self.unit.namespace)
        if function is None and isinstance(node.func, ast.Name):
            function = {
                "min": min,
                "max": max,
                "abs": abs,
                "int": int,
                "float": float,
                "len": len,
            }.get(node.func.id)
        if function is None:
            raise NotReadError(ast.unparse(node.func))
        operands = [self.number(each) for each in node.args]
        if function is len and isinstance(operands[0].type, types.Array):
            return self.add("array.extent", operands, (_INT64,), {"axis": 0}).result
        if isinstance(function, type) and issubclass(function, np.generic) and len(operands) == 1:
            kind = element_type(function.__name__)
            constant = _constant(operands[0])
            if constant is not None and isinstance(kind, types.Float):
                return self.constant(float(kind_cast(constant, function)), kind)
            return self.cast(operands[0], kind)
        found = self.typing.function(function)
        signature = self.typing.call(found, tuple(v.type for v in operands))
        return self.add(
            "numba",
            operands,
            (signature.return_type,),
            {"function": found, "signature": signature, "name": function.__name__},
        ).result

    def function(self, unit: FunctionUnit, arguments: list[Any]) -> Any:
        """Read the body of a device function in the place of its call."""
        if self.depth > 20 or (
            unit.is_plain_numba and any(isinstance(n, ast.Yield) for n in ast.walk(unit.tree))
        ):
            raise NotReadError("recursion")
        *body, last = unit.tree.body
        value = last.value if isinstance(last, ast.Return) else None
        if any(isinstance(node, ast.Return) for each in body for node in ast.walk(each)):
            raise NotReadError("a device function that returns early")
        outer = self.unit, self.variables
        self.unit, self.depth = unit, self.depth + 1
        self.variables = dict(zip(unit.parameters, arguments, strict=True))
        try:
            self.block(body if isinstance(last, ast.Return) else unit.tree.body)
            return None if value is None else self.value(value)
        finally:
            self.unit, self.variables = outer
            self.depth -= 1

    # -- memory -----------------------------------------------------------------------------------

    def indexed(self, node: ast.Subscript) -> tuple[Value, list[Value]]:
        array = self.number(node.value)
        if not isinstance(array.type, types.Array) or array.type.layout != "C":
            raise NotReadError(f"{ast.unparse(node)}: {array.type}")
        if any(isinstance(each, ast.Slice) for each in ast.walk(node.slice)):
            raise NotReadError("a slice")
        found = self.value(node.slice)
        indices = list(found) if isinstance(found, tuple) else [found]
        if not all(isinstance(v.type, types.Integer) for v in indices):
            raise NotReadError(f"{ast.unparse(node)}: an index that is no integer")
        return array, [self.cast(v, _INT64) if v.type.bitwidth < 64 else v for v in indices]

    def load(self, array: Value, indices: list[Value]) -> Value:
        missing = array.type.ndim - len(indices)
        if missing:
            part = types.Array(array.type.dtype, missing, "C", readonly=not array.type.mutable)
            return self.add("array.part", [array, *indices], (part,)).result
        return self.add(
            "array.load", [array, *indices], (array.type.dtype,), effect=Effect.READ
        ).result

    def store(self, array: Value, indices: list[Value], value: Value) -> None:
        if array.type.ndim != len(indices):
            raise NotReadError("a store of a row")
        value = self.cast(value, array.type.dtype)
        self.add("array.store", [array, *indices, value], effect=Effect.WRITE)

    # -- intrinsics -------------------------------------------------------------------------------

    def intrinsic(self, node: ast.Call, use: IntrinsicUse) -> Any:
        name = use.intrinsic.name
        if name.startswith("tile."):
            return self.tile(node, use)
        operands = [self.value(each) for each in node.args]
        if use.intrinsic.functions:
            raise NotReadError(f"{name} with a function")
        if name in ("grid", "gridsize") and use.static["ndim"] > 1:
            return tuple(
                self.add(name, [], (_INT64,), {"ndim": 1, "axis": axis}).result
                for axis in range(use.static["ndim"])
            )
        if any(isinstance(each, tuple) for each in operands):
            raise NotReadError(f"{name} with a tuple")
        signature = typing_rule(use.intrinsic)(tuple(v.type for v in operands), use.static)
        operands = [self.cast(v, kind) for v, kind in zip(operands, signature.args, strict=True)]
        result = signature.return_type
        made = self.add(
            name,
            operands,
            () if result == types.none else (result,),
            {**use.static, "signature": signature, "use": use},
            effect=_effect(use),
        )
        return made.results[0] if made.results else None

    def tile(self, node: ast.Call, use: IntrinsicUse) -> Value | None:
        assert isinstance(node.func, ast.Name)
        reserved = node.func.id
        kind, static = use.intrinsic.name.partition(".")[2], use.static
        match kind:
            case "load":
                array, other, *at = (self.value(each) for each in node.args)
                dtype = element_type(static["dtype"]) if "dtype" in static else array.type.dtype
                made = self.add(
                    "tile.load",
                    [array, self.cast(other, dtype), *at],
                    (NumbaTile(static["shape"], dtype),),
                    {"shape": static["shape"], "reserved": reserved},
                    effect=Effect.READ | Effect.BLOCK,
                )
                return made.result
            case "element":
                tile = self.value(node.args[0])
                assert self.elements is not None
                assert self.element_region is not None
                if tile not in self.elements:
                    argument = Value(tile.type.dtype, self.element_region, tile.name)
                    self.element_region.arguments.append(argument)
                    self.elements[tile] = argument
                return self.elements[tile]
            case "cast":
                return self.cast(self.value(node.args[0]), element_type(static["dtype"]))
            case "each":
                tiles, region, value = self.each_element(node.args[0])
                self.into(region, lambda: [value])
                made = self.add(
                    "tile.map",
                    tiles,
                    (NumbaTile(static["shape"], value.type),),
                    {"shape": static["shape"], "reserved": reserved},
                    [region],
                    Effect.BLOCK,
                )
                return made.result
            case "sum" | "max" | "min":
                if static["axis"] is not None:
                    raise NotReadError("a fold along an axis")
                tiles, region, value = self.each_element(node.args[0])
                result = typing_rule(use.intrinsic)((value.type,), static).return_type
                self.into(region, lambda: [self.cast(value, result)])
                made = self.add(
                    "tile.fold",
                    tiles,
                    (result,),
                    {"fold": kind, "shape": static["shape"], "reserved": reserved},
                    [region],
                    Effect.BLOCK,
                )
                return made.result
            case "store":
                array, *at = (self.value(each) for each in node.args[:-1])
                tiles, region, value = self.each_element(node.args[-1])
                self.into(region, lambda: [self.cast(value, array.type.dtype)])
                self.add(
                    "tile.store",
                    [array, *at, *tiles],
                    (),
                    {"shape": static["shape"], "reserved": reserved},
                    [region],
                    Effect.WRITE | Effect.BLOCK,
                )
                return None
        raise NotReadError(use.intrinsic.name)

    def each_element(self, node: ast.expr) -> tuple[list[Value], Region, Value]:
        """Read an expression of elements into a region with an argument for each tile."""
        region = Region()
        outer = self.elements, self.element_region
        self.elements, self.element_region = {}, region
        found: list[Value] = []

        def read() -> None:
            found.append(self.value(node))

        self.into(region, read)
        tiles = list(self.elements)
        self.elements, self.element_region = outer
        return tiles, region, found[0]


_FOLDED_OPERATORS = frozenset(
    (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
)


def _constant(value: Value) -> Any:
    owner = value.owner
    if isinstance(owner, Operation) and owner.name == "const":
        return owner.attributes["value"]
    return None


def kind_cast(value: Any, function: Any) -> Any:
    """Return a number rounded to a NumPy type."""
    return function(value)


def _effect(use: IntrinsicUse) -> Effect:
    given = use.intrinsic.effect
    found = Effect.NONE
    if given & language.Effect.BARRIER:
        is_wait = use.intrinsic.name in ("syncthreads", "syncwarp")
        found |= Effect.WAIT if is_wait else Effect.EXCHANGE
    if use.intrinsic.name.startswith("shfl"):
        found |= Effect.EXCHANGE
    if given & language.Effect.ALLOCATE_SHARED:
        found |= Effect.ALLOCATE
    if given & language.ARRAY_ACCESS:
        found |= Effect.READ | Effect.WRITE
    return found


def assigned(body: list[ast.stmt]) -> list[str]:
    """Return the names that statements assign, in their order."""
    found: dict[str, None] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found[node.id] = None
    return list(found)
