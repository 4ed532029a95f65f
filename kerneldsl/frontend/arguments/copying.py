"""A visitor that rewrites a tree without changing it: what is rewritten is a copy."""

from __future__ import annotations

import ast

from kerneldsl.frontend.trees import Transformer

__all__ = ["CopyingTransformer"]


class CopyingTransformer(Transformer):
    """Copies the nodes on the way to what a subclass replaces, and shares all others."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Return a node with its parts visited: a copy where one of them has changed."""
        changes: dict[str, object] = {}
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                parts: list[object] = []
                for each in value:
                    made = self.visit(each) if isinstance(each, ast.AST) else each
                    parts += made if isinstance(made, list) else [made]
                if len(parts) != len(value) or any(
                    a is not b for a, b in zip(parts, value, strict=True)
                ):
                    changes[name] = parts
            elif isinstance(value, ast.AST):
                made = self.visit(value)
                if made is not value:
                    changes[name] = made
        if not changes:
            return node
        fields = {name: getattr(node, name) for name in node._fields if hasattr(node, name)}
        copied = type(node)(**(fields | changes))
        for name, value in vars(node).items():
            if name not in node._fields:
                setattr(copied, name, value)
        self.has_copied(node, copied)
        return copied

    def has_copied(self, node: ast.AST, copied: ast.AST) -> None:
        """Take note of a copy."""
