"""Types of the normal form, from Numba's inference of it.

A copy of the tree, in which each node has a line of its own, is compiled to bytecode and inferred;
Numba's IR says of each of its instructions which line it comes of. Nothing else is changed, so that
the types are those of the function as it is. A value of control flow (``a or b``, ``a if c else
b``), which is no instruction of its own, is given a name where that names no other value.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from types import ModuleType as PythonModule
from typing import Any

from numba import errors, types

from kerneldsl.analysis.expressions import folded
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.typed_unit import TypedOperation, TypedUnit
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind
from kerneldsl.language.types import BOOL, ModuleType, OtherType, SliceType, TupleType, Type
from kerneldsl.lowering import math_functions as _math_functions  # noqa: F401 - registers
from kerneldsl.lowering import numpy_functions as _numpy_functions  # noqa: F401 - registers
from kerneldsl.lowering.build import build_function
from kerneldsl.lowering.calls import TypingRule
from kerneldsl.lowering.errors import translate
from kerneldsl.lowering.numba_internals.bound import BoundIntrinsic
from kerneldsl.lowering.numba_internals.places import Inferred, Instruction, Role, infer_by_line
from kerneldsl.lowering.numbered_tree import NumberedTree
from kerneldsl.lowering.types import element_type, numba_types
from kerneldsl.lowering.typing_rules import typing_rule
from kerneldsl.lowering.value_types import value_type

__all__ = ["infer_unit"]


def infer_unit(unit: FunctionUnit, kinds: tuple[Kind, ...], contexts: Any) -> TypedUnit:
    """Infer the types of a kernel and of the functions it calls.

    The caller holds Numba's compiler lock, and has made the target the current one.

    Parameters
    ----------
    unit : FunctionUnit
        The kernel.
    kinds : tuple of Kind
        Kinds of its arguments.
    contexts : TargetDescriptor
        Has the target's typing and target contexts.

    Returns
    -------
    TypedUnit

    Raises
    ------
    KernelTypingError
        Where Numba cannot type it.
    """
    arguments = numba_types(kinds)
    try:
        return _Session(unit, contexts).typed(unit, arguments)
    except errors.NumbaError as error:
        try:  # the same error once more, at the user's line
            _Session(unit, contexts, is_by_line=False).typed(unit, arguments)
        except errors.NumbaError as plain:
            raise translate(plain, unit, kinds) from plain
        raise translate(error, unit, kinds) from error


class _Session:
    """Inference of a kernel and of what it calls, each function once for its types.

    With *is_by_line* false the lines stay the user's, for the message of an error.
    """

    def __init__(self, kernel: FunctionUnit, contexts: Any, *, is_by_line: bool = True) -> None:
        self._contexts = contexts
        self._typed: dict[tuple[Any, ...], TypedUnit] = {}
        self._inferred: dict[tuple[Any, ...], Inferred] = {}
        #: All of them before inference begins, by which time Numba must know each dtype.
        self._numbered = {
            unit: NumberedTree(unit, is_by_line=is_by_line) for unit in kernel.reachable()
        }
        self._functions = {unit: self._build(unit) for unit in kernel.reachable()}

    def typed(self, unit: FunctionUnit, arguments: tuple[Any, ...]) -> TypedUnit:
        """Return a function with the types for arguments of Numba's types."""
        key = (unit, *arguments)
        if key not in self._typed:
            inferred = self._infer(unit, arguments)
            reading = _Reading(self, unit, arguments, self._numbered[unit], inferred)
            self._typed[key] = reading.run()
        return self._typed[key]

    def unify(self, found: list[Any]) -> Any:
        """Return the type that holds values of several types; ``None`` where there is none."""
        return found[0] if len(found) == 1 else self._contexts.typing_context.unify_types(*found)

    def constant(self, value: Any) -> Any:
        """Return Numba's type of a constant."""
        return self._contexts.typing_context.resolve_value_type(value)

    def _infer(self, unit: FunctionUnit, arguments: tuple[Any, ...]) -> Inferred:
        key = (unit, *arguments)
        if key not in self._inferred:
            self._inferred[key] = infer_by_line(self._contexts, self._functions[unit], arguments)
        return self._inferred[key]

    def _build(self, unit: FunctionUnit) -> Callable[..., Any]:
        namespace = {
            **unit.namespace,
            **{name: captured.value for name, captured in unit.constants.items()},
        }
        for name, use in unit.uses.items():
            namespace[name] = _typed_call(
                use.intrinsic.name, typing_rule(use.intrinsic), use.static
            )
        for name, callee in unit.callees.items():
            namespace[name] = _typed_call(callee.name, self._rule(callee), {})
        return build_function(self._numbered[unit].tree, unit.name, namespace, unit.filename)

    def _rule(self, callee: FunctionUnit) -> TypingRule:
        def rule(arguments: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
            plain = tuple(types.unliteral(argument) for argument in arguments)
            return self._infer(callee, plain).result(*plain)

        return rule


def _typed_call(name: str, rule: TypingRule, static: Mapping[str, Any]) -> BoundIntrinsic:
    """Return what Numba can type a call of, and nothing else."""
    if "dtype" in static:
        element_type(static["dtype"])  # known to Numba before inference begins

    def emit(call: Any) -> Any:
        raise NotImplementedError(f"{name} is typed here, and not compiled")

    return BoundIntrinsic(name, rule, emit, static)


_OPERATIONS = ("binop", "inplace_binop", "unary", "call")
#: Operations of Numba's IR that an expression may be.
_OPERATION_OF: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Name: ("var", "global", "freevar"),
    ast.Attribute: ("getattr", "global"),
    ast.Subscript: ("getitem", "static_getitem"),
    ast.Call: ("call",),
    ast.BinOp: ("binop",),
    ast.UnaryOp: ("unary",),
    ast.AugAssign: ("inplace_binop",),
    ast.Compare: ("binop",),
}


class _Reading:
    """Reads the types of one function's nodes off the instructions of their lines."""

    def __init__(
        self,
        session: _Session,
        unit: FunctionUnit,
        arguments: tuple[Any, ...],
        numbered: NumberedTree,
        inferred: Inferred,
    ) -> None:
        self._session = session
        self._unit = unit
        self._arguments = arguments
        self._numbered = numbered
        self._inferred = inferred
        self._types: dict[ast.AST, Type] = {}
        self._operations: dict[ast.AST, tuple[TypedOperation, ...]] = {}
        self._calls: dict[ast.AST, TypedUnit] = {}
        self._variables: dict[str, dict[Type, None]] = {}

    def run(self) -> TypedUnit:
        arguments = tuple(value_type(argument) for argument in self._arguments)
        for name, kind in zip(self._unit.parameters, arguments, strict=True):
            self._variables[name] = {kind: None}
        for statement in self._unit.tree.body:
            self._visit(statement)
        return TypedUnit(
            self._unit,
            arguments,
            value_type(self._inferred.result),
            MappingProxyType(self._types),
            MappingProxyType(self._operations),
            MappingProxyType(self._calls),
            MappingProxyType({name: tuple(found) for name, found in self._variables.items()}),
        )

    def _visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Raise):
            return  # its message is text for the host
        for child in ast.iter_child_nodes(node):
            if not (isinstance(node, ast.Assert) and child is node.msg):
                self._visit(child)
        if isinstance(node, ast.expr | ast.AugAssign):
            found = self._type(node)
            if found is not None:
                self._types[node] = found
                self._add_variable(node, found)
            self._add_operation(node)

    def _add_variable(self, node: ast.AST, found: Type) -> None:
        if not isinstance(node, ast.Name):
            return
        if isinstance(node.ctx, ast.Store) or node.id in self._variables:
            self._variables.setdefault(node.id, {})[found] = None

    def _type(self, node: ast.expr | ast.AugAssign) -> Type | None:
        match node:
            case ast.Constant():
                return value_type(self._session.constant(node.value))
            case ast.Tuple():
                parts = [self._types.get(element) for element in node.elts]
                return None if None in parts else TupleType(tuple(p for p in parts if p))
            case ast.Name(id=name) if isinstance(self._unit.namespace.get(name), PythonModule):
                return ModuleType(self._unit.namespace[name].__name__)
            case ast.Slice():
                return SliceType(node.step is not None)
            case ast.UnaryOp(op=ast.Not()):
                return BOOL if self._is_run(node) else None
            case ast.BoolOp() | ast.IfExp() if node in self._numbered.tested:
                return BOOL if self._is_run(node) else None
        found = [each.type for each in self._of(node)]
        if found:
            unified = self._session.unify(found)
            texts = dict.fromkeys(str(value_type(each)) for each in found)
            return OtherType(" | ".join(texts)) if unified is None else value_type(unified)
        if isinstance(node, ast.BinOp | ast.UnaryOp | ast.Subscript):
            constant = folded(node)
            if constant is not None:
                return value_type(self._session.constant(constant.value))
        return None

    def _of(self, node: ast.AST) -> list[Instruction]:
        """Return the instructions of a node's value: several where Python copies its code."""
        at = list(self._at(node))
        match node:
            case ast.Name(ctx=ast.Store()) | ast.BoolOp() | ast.IfExp():
                return [each for each in at if each.role is Role.STORE]
            case ast.Subscript(ctx=ast.Store()):
                read = [each for each in at if each.operation.endswith("getitem")]
                return read or [each for each in at if each.role is Role.ELEMENT]
            case ast.Call(func=ast.Attribute()):
                at += self._at(node.func)  # whose line Python gives some calls
        values = [each for each in at if each.role is Role.VALUE]
        expected = _OPERATION_OF.get(type(node), ())
        # Numba computes some of them, such as len(tuple), before it infers types. And the end of a
        # function, which returns None, is at the line of what stands before it.
        return [each for each in values if each.operation in expected] or values[:1]

    def _at(self, node: ast.AST) -> Iterable[Instruction]:
        return self._inferred.lines.get(self._numbered.lines[node], ())

    def _is_run(self, node: ast.AST) -> bool:
        return any(True for each in walk_here(node) for _ in self._at(each))

    def _add_operation(self, node: ast.AST) -> None:
        found = [
            each.signature
            for each in self._of(node)
            if each.operation in _OPERATIONS and each.signature is not None
        ]
        count = len(node.ops) if isinstance(node, ast.Compare) else 1
        copies = [tuple(found[i : i + count]) for i in range(0, len(found), count)]
        if not copies or any(copy != copies[0] for copy in copies):
            return
        self._operations[node] = tuple(_operation(each) for each in copies[0])
        callee = self._unit.callee_of(node)
        if callee is not None:
            self._calls[node] = self._session.typed(callee, tuple(copies[0][0].args))


def _operation(signature: Any) -> TypedOperation:
    operands = tuple(value_type(argument) for argument in signature.args)
    return TypedOperation(operands, value_type(signature.return_type))
