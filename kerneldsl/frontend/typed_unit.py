"""The normal form with types, for targets, checkers and analyses that read the types of values.

``docs/normal-form.md`` is the contract.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.types import FunctionType, Type
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["TypedUnit"]


@dataclass(frozen=True, eq=False)
class TypedUnit:
    """One function in normal form, for arguments of given types.

    Parameters
    ----------
    unit : FunctionUnit
        The function.
    arguments : tuple of Type
        Types of its arguments.
    result : Type
        Of the value that it returns.
    types : mapping
        Node of the unit's tree to its type; see :meth:`type_of`.
    calls : mapping
        Call of a device function to that function, for the call's types. Calls of equal types
        share one.
    """

    unit: FunctionUnit
    arguments: tuple[Type, ...]
    result: Type
    types: Mapping[ast.AST, Type]
    calls: Mapping[ast.AST, TypedUnit]

    def type_of(self, node: ast.AST) -> Type | None:
        """Return the type of an expression or of a target of an assignment.

        Of an assignment in place (``x += y``) the statement is the sum, the target what it becomes
        when it is stored. ``None`` is returned for what has no value: a node that is never run, and
        the forms that the contract lists.
        """
        return self.types.get(node)

    def variables(self) -> dict[str, Type]:
        """Return the type of each variable at its first assignment, in the order of the tree."""
        found: dict[str, Type] = {}
        for node in ast.walk(self.unit.tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                kind = self.type_of(node)
                if kind is not None:
                    found.setdefault(node.id, kind)
        return found

    def reachable(self) -> Iterator[TypedUnit]:
        """Yield this unit and every unit it calls, each once, callers first."""
        seen: set[int] = set()
        pending = [self]
        while pending:
            unit = pending.pop()
            if id(unit) not in seen:
                seen.add(id(unit))
                yield unit
                pending.extend(unit.calls.values())

    def source(self) -> str:
        """Return the normal form as Python text, with the types of each statement below it."""
        parameters = self.unit.parameters
        given = ", ".join(f"{n}: {t}" for n, t in zip(parameters, self.arguments, strict=True))
        lines = [f"def {self.unit.name}({given}) -> {self.result}:"]
        lines += self._block(self.unit.tree.body, "    ")
        return "\n".join(lines)

    def _block(self, body: list[ast.stmt], indent: str) -> Iterator[str]:
        for statement in body:
            yield indent + ast.unparse(statement).partition("\n")[0]
            yield from self._comments(statement, indent)
            for field in ("body", "orelse"):
                inner = getattr(statement, field, None)
                if not inner:
                    continue
                if field == "orelse":
                    yield f"{indent}else:"
                yield from self._block(inner, indent + "    ")

    def _comments(self, statement: ast.stmt, indent: str) -> Iterator[str]:
        """Yield the types of a statement's parts, outer ones first, without those of constants."""
        seen: set[str] = set()
        for node in _parts(statement):
            found = self.type_of(node)
            if found is None or isinstance(node, ast.Constant | ast.stmt):
                continue
            if isinstance(found, FunctionType):
                continue
            text = f"{indent}#   {ast.unparse(node)}: {found}"
            if text not in seen:
                seen.add(text)
                yield text


def _parts(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement without the statements in it, outer ones first."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        yield node
        children = [c for c in ast.iter_child_nodes(node) if not isinstance(c, ast.stmt)]
        pending.extend(reversed(children))
