"""Device functions with declared types: with a signature, or with code in another language.

Arguments and result of both are converted. The unit of a linked function has the Python body, which
the CPU runs, and the code for a GPU (:attr:`~kerneldsl.frontend.unit.FunctionUnit.linked`). Nothing
else is known of the body's result, and any element of an array may be read and written. So an
analysis concludes nothing from it that the other code might not do.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NoReturn, TypeGuard

from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.linked_code import LinkedCode
from kerneldsl.frontend.trees import Transformer, assign, call, copy_tree, load, walk_here
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.element_types import numpy_dtype
from kerneldsl.language.intrinsics.intrinsic import BLOCK_LEVEL, Intrinsic, Scope
from kerneldsl.language.intrinsics.linked import linked as words
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind
from kerneldsl.language.reserved import RESERVED_PREFIX

__all__ = ["convert_as_declared", "declare_types", "is_number"]


def declare_types(unit: FunctionUnit, code: LinkedCode) -> FunctionUnit:
    """Return the unit of a Python body as that of a linked function.

    Raises `UnsupportedConstructError` where the body uses what depends on the thread that calls it,
    or returns a value, or none, against the signature.
    """
    _check_words(unit)
    writer = _Writer(unit, code)
    tree = copy_tree(unit.tree)
    tree.body = [*writer.arguments(), *(writer.visit(statement) for statement in tree.body)]
    if code.result is not None and not writer.returns:
        _fail(unit, unit.tree, f"{unit.name} returns nothing", code.signature)
    return replace(
        unit,
        tree=ast.fix_missing_locations(tree),
        uses={**unit.uses, **writer.uses},
        linked=code,
    )


def _check_words(unit: FunctionUnit) -> None:
    for reached in unit.reachable():
        for name, use in reached.uses.items():
            intrinsic = use.intrinsic
            is_of_group = intrinsic.scope > Scope.THREAD or intrinsic.effect & BLOCK_LEVEL
            if intrinsic.is_index or intrinsic.is_of_lane or is_of_group or intrinsic.is_of_block:
                raise UnsupportedConstructError(
                    f"{unit.name} is linked, and its Python body uses kd.{intrinsic.name}",
                    where=reached.locate_use(name),
                    value=intrinsic.name,
                    limit="A linked function knows neither its thread nor the others",
                    remedy="Pass indices as arguments, and exchange values between threads in the "
                    "kernel",
                )


class _Writer(Transformer):
    """Writes the conversions of arguments and results."""

    def __init__(self, unit: FunctionUnit, code: LinkedCode) -> None:
        self._unit = unit
        self._code = code
        self.uses: dict[str, IntrinsicUse] = {}
        self.returns = False
        assigned = {
            node.id
            for node in walk_here(unit.tree)
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        }
        #: Parameter to the name of its value at the call.
        self._given = {
            name: f"{RESERVED_PREFIX}given_{name}" if name in assigned else name
            for name, kind in zip(unit.parameters, code.parameters, strict=True)
            if isinstance(kind, ScalarKind)
        }

    def arguments(self) -> Iterator[ast.stmt]:
        """Yield the statements that convert the arguments."""
        for name, kind in zip(self._unit.parameters, self._code.parameters, strict=True):
            what = f"{self._unit.name}: {name}"
            if isinstance(kind, ArrayKind):
                static = {"dtype": kind.dtype, "ndim": kind.ndim, "what": what}
                yield self._placed(ast.Expr(self._call(words.array, static, load(name))))
                continue
            static = {"dtype": kind.dtype, "what": what}
            yield self._placed(assign(name, self._call(words.number, static, load(name))))
            if self._given[name] != name:
                yield self._placed(assign(self._given[name], load(name)))

    def visit_Return(self, node: ast.Return) -> ast.Return:
        result = self._code.result
        is_empty = node.value is None or (
            isinstance(node.value, ast.Constant) and node.value.value is None
        )
        if is_empty != (result is None):
            what = "nothing" if is_empty else "a value"
            _fail(self._unit, node, f"{self._unit.name} returns {what}", self._code.signature)
        self.returns = True
        if result is None or node.value is None:
            return node
        static = {"dtype": result.dtype, "what": f"{self._unit.name}: the result"}
        word = words.pure_result if self._code.is_pure else words.result
        given = [load(name) for name in self._given.values()]
        node.value = ast.copy_location(self._call(word, static, node.value, *given), node.value)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node

    def _call(self, word: Intrinsic, static: dict[str, Any], *arguments: ast.expr) -> ast.Call:
        name = f"{RESERVED_PREFIX}{word.symbol}_{len(self.uses)}"
        self.uses[name] = IntrinsicUse(word, static)
        return call(name, *arguments)

    def _placed(self, node: ast.stmt) -> ast.stmt:
        return ast.copy_location(node, self._unit.tree)


def _fail(unit: FunctionUnit, node: ast.AST, what: str, signature: str) -> NoReturn:
    raise UnsupportedConstructError(
        what,
        where=unit.locate(node),
        limit=f"Its signature is {signature}",
        remedy="Let the Python body and the signature agree on the result",
    )


def convert_as_declared(
    tree: ast.FunctionDef, signature: tuple[Kind | None, tuple[Kind, ...]]
) -> dict[str, Any]:
    """Write the conversions into a function, in place; return the types by their names there.

    Only numbers are converted. An array has the type that it is passed with.
    """
    result, parameters = signature
    types: dict[str, Any] = {}

    def converted(kind: ScalarKind, value: ast.expr) -> ast.expr:
        name = f"{RESERVED_PREFIX}as_{kind.dtype}"
        types[name] = numpy_dtype(kind.dtype).type
        return ast.Call(load(name), [value], [])

    first = [
        assign(parameter.arg, converted(kind, load(parameter.arg)))
        for parameter, kind in zip(tree.args.args, parameters, strict=False)
        if is_number(kind)
    ]
    for node in [node for node in walk_here(tree) if isinstance(node, ast.Return)]:
        if node.value is not None and result is not None and is_number(result):
            node.value = ast.copy_location(converted(result, node.value), node.value)
    for each in first:
        ast.copy_location(each, tree)
    tree.body[:0] = first
    ast.fix_missing_locations(tree)
    return types


def is_number(kind: Kind) -> TypeGuard[ScalarKind]:
    """Return whether a parameter of a kind is converted."""
    return isinstance(kind, ScalarKind) and not kind.element.is_record
