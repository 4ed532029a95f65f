"""Rewrite a function so that Numba reads from its bytecode what its source says.

Two properties of CPython's compiler and of Numba's reader of bytecode change what a program means;
``docs/upstream.md`` shows each with its smallest program.
"""

from __future__ import annotations

import ast

from kerneldsl.analysis.expressions import assigned_names
from kerneldsl.frontend.syntax import assign, load
from kerneldsl.frontend.trees import Transformer, walk_here
from kerneldsl.language.reserved import RESERVED_PREFIX

__all__ = ["rename_locals", "return_from_one_block"]


def rename_locals(definition: ast.FunctionDef) -> None:
    """Rename, in place, local variables whose names end in a digit.

    Numba calls a variable that is loaded by its name and the offset of the instruction: ``x1``
    loaded at 62 and ``x`` loaded at 162 are one variable there. With an underscore between them
    they are two. Reserved names are left alone, as their makers see to it.
    """
    parameters = [a.arg for a in definition.args.args]
    local = set(parameters) | assigned_names(definition.body)
    known = {n.id for n in walk_here(definition) if isinstance(n, ast.Name)} | local
    renamed: dict[str, str] = {}
    for name in sorted(local):
        if name[-1].isdigit() and not name.startswith(RESERVED_PREFIX):
            new = name + "_"
            while new in known:
                new += "_"
            known.add(new)
            renamed[name] = new
    for node in walk_here(definition):
        if isinstance(node, ast.Name):
            node.id = renamed.get(node.id, node.id)
        elif isinstance(node, ast.arg):
            node.arg = renamed.get(node.arg, node.arg)


def return_from_one_block(definition: ast.FunctionDef) -> None:
    """Lengthen, in place, what stands before each ``return``, so that CPython does not copy it.

    CPython copies a block of up to four instructions that ends in a ``return`` behind each branch
    that leads to it. Two things must not be copied so:

    - A barrier: ``return syncthreads_count(0 < x < n)`` would have one for the threads in which the
      first comparison fails and one for the others, and a warp that meets both never goes on.
    - An operation on the value of branches: in ``return -(a if c else b)`` Numba types each copy by
      itself, so that the sign would be changed before `a` and `b` have got their common type.

    Two assignments make the block longer than that. Which blocks are short enough without them
    depends on the version of Python.
    """
    if any(isinstance(n, _BRANCHES) for n in walk_here(definition)):
        _LongReturns().visit(definition)
        if not isinstance(definition.body[-1], ast.Return):
            end = ast.copy_location(ast.Return(None), definition.body[-1])
            definition.body += _lengthened(end)


#: What is compiled to jumps; a comparison may be a chain.
_BRANCHES = (ast.If, ast.IfExp, ast.BoolOp, ast.Compare, ast.For, ast.While, ast.Assert)


def _lengthened(node: ast.Return) -> list[ast.stmt]:
    """Return a ``return`` behind two assignments, the first of which computes its value."""
    made: list[ast.stmt] = []
    value = node.value or ast.Constant(None)
    for name in (f"{RESERVED_PREFIX}computed", f"{RESERVED_PREFIX}returned"):
        made.append(ast.copy_location(assign(name, value), node))
        value = load(name)
    if node.value is not None:
        node.value = value
    return [*made, node]


class _LongReturns(Transformer):
    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        return _lengthened(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node
