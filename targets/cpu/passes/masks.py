"""Loops that threads leave one by one: what a thread does not run any more becomes conditional."""

from __future__ import annotations

import ast

from kerneldsl.analysis.hoisting import place_at
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, load

__all__ = ["Loop", "MaskedBody", "exits_of"]

Loop = ast.For | ast.While


def exits_of(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the ``break`` and ``continue`` statements of a loop's body that belong to it."""
    found: list[ast.stmt] = []
    for node in body:
        match node:
            case ast.Break() | ast.Continue():
                found.append(node)
            case ast.If():
                found += exits_of(node.body) + exits_of(node.orelse)
    return found


class MaskedBody:
    """The body of a loop with exits that have become assignments.

    A thread has left the loop when `inside` is false; what it does not run any more of an
    iteration is conditional.
    """

    def __init__(self, names: FreshNames, body: list[ast.stmt]) -> None:
        self.inside = names.make("inside")
        self.runs = names.make("runs")
        exits = exits_of(body)
        self.is_left = any(isinstance(exit_, ast.Break) for exit_ in exits)
        self.statements = self.lowered(body)
        if exits:
            self.statements.insert(0, assign(self.runs, ast.Constant(True)))

    def lowered(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return statements without exits."""
        out: list[ast.stmt] = []
        for position, node in enumerate(body):
            match node:
                case ast.Break():
                    stays = [self.inside, self.runs]
                    out += [place_at(assign(n, ast.Constant(False)), node) for n in stays]
                    return out
                case ast.Continue():
                    out.append(place_at(assign(self.runs, ast.Constant(False)), node))
                    return out
                case ast.If() if exits_of([node]):
                    node.body = self.lowered(node.body)
                    node.orelse = self.lowered(node.orelse)
                    out.append(node)
                    rest = self.lowered(body[position + 1 :])
                    if rest:
                        out.append(place_at(ast.If(load(self.runs), rest, []), rest[0]))
                    return out
            out.append(node)
        return out
