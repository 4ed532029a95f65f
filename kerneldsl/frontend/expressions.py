"""Small questions about expressions, asked by several analyses and passes."""

from __future__ import annotations

import ast
import dis
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kerneldsl.frontend.trees import children_of, load, walk_here
from kerneldsl.frontend.unit import FunctionUnit

__all__ = [
    "Binding",
    "assigned_names",
    "augmented_value",
    "bindings",
    "condition_expressions",
    "folded",
    "index_parts",
    "operands",
    "sometimes_evaluated",
    "text_of",
    "unpack_targets",
    "written",
]


def assigned_names(nodes: ast.AST | Iterable[ast.AST]) -> set[str]:
    """Return the names that are stored somewhere below."""
    return {
        n.id for n in walk_here(nodes) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


def operands(node: ast.AST) -> Iterator[ast.expr]:
    """Return expressions right below a node, in the order of its fields; of a keyword its value."""
    for child in children_of(node):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.keyword):
            yield child.value


def sometimes_evaluated(node: ast.AST) -> list[ast.expr]:
    """Return the parts of an expression that its other parts decide whether to evaluate."""
    match node:
        case ast.BoolOp():
            return node.values[1:]
        case ast.IfExp():
            return [node.body, node.orelse]
        case ast.Compare():
            return node.comparators[1:]
        case _:
            return []


def index_parts(node: ast.Subscript) -> list[ast.expr]:
    """Return the indices of a subscript, one for each axis that it names."""
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def augmented_value(node: ast.AugAssign) -> ast.BinOp:
    """Return what an augmented assignment assigns: the old value of its target with its operand."""
    target = node.target
    old = load(target.id) if isinstance(target, ast.Name) else target
    return ast.copy_location(ast.BinOp(old, node.op, node.value), node)


#: Opcodes of an expression that Python has folded to a constant, and those around it.
_CONSTANT = ("LOAD_CONST", "LOAD_SMALL_INT", "RETURN_CONST")
_FRAME = ("RESUME", "RETURN_VALUE")
_OF_CONSTANTS = ast.Constant | ast.BinOp | ast.UnaryOp | ast.Tuple | ast.Subscript


def folded(node: ast.expr) -> ast.Constant | None:
    """Return the constant that Python's compiler makes of an expression of literals.

    Examples
    --------
    >>> folded(ast.parse("-2**63", mode="eval").body).value
    -9223372036854775808
    >>> folded(ast.parse("1 + n", mode="eval").body)
    """
    leaves = (n for n in walk_here(node) if isinstance(n, ast.expr))
    if not all(isinstance(n, _OF_CONSTANTS) for n in leaves):
        return None
    code = compile(ast.Expression(node), "<constant>", "eval")
    left = [each for each in dis.get_instructions(code) if each.opname not in _FRAME]
    if len(left) != 1 or left[0].opname not in _CONSTANT:
        return None
    return ast.Constant(left[0].argval)


def condition_expressions(tree: ast.AST) -> set[ast.expr]:
    """Return ``and``, ``or``, ``not`` and conditional expressions that are only tested for truth.

    They are conditions, or parts of one.
    """
    found: set[ast.expr] = set()
    pending = [
        node.test
        for node in walk_here(tree)
        if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert)
    ]
    while pending:
        node = pending.pop()
        match node:
            case ast.BoolOp():
                pending += node.values
            case ast.UnaryOp(op=ast.Not()):
                pending.append(node.operand)
            case ast.IfExp():
                pending += [node.body, node.orelse]
            case _:
                continue
        found.add(node)
    return found


def written(node: ast.AST, unit: FunctionUnit) -> str:
    """Return an expression of a function as its author wrote it."""
    return text_of(node, unit.locate(node).line)


def text_of(node: ast.AST, source_line: str) -> str:
    """Return an expression as written, if it is in one line; else as Python prints it."""
    start, end = getattr(node, "col_offset", None), getattr(node, "end_col_offset", None)
    if start is None or end is None or getattr(node, "lineno", 0) != getattr(node, "end_lineno", 0):
        return ast.unparse(node)
    text = source_line[start:end]
    return text if text.strip() else ast.unparse(node)


class Binding(NamedTuple):
    """One place that gives a target a value."""

    #: The statement, or the part of one.
    node: ast.AST
    #: Target of the binding: a name, a subscript, or a tuple of such.
    target: ast.expr
    #: The value; of an augmented assignment the operation.
    value: ast.expr
    #: Whether the target is bound to the items of the value, as in a loop.
    is_item: bool = False


def bindings(tree: ast.AST) -> Iterator[Binding]:
    """Yield every binding in a function; augmented assignments of variables alone."""
    for node in walk_here(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield Binding(node, target, value)
            case ast.AugAssign(target=ast.Name() as target):
                yield Binding(node, target, augmented_value(node))
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield Binding(node, target, value)
            case ast.NamedExpr(target=target, value=value):
                yield Binding(node, target, value)
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                yield Binding(node, target, value, is_item=True)
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                yield Binding(node, target, value)


def unpack_targets(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Pair the elements of a tuple that is bound to a tuple of the same length, nested ones too.

    Examples
    --------
    >>> (binding,) = bindings(ast.parse("(a, (b, c)) = 1, f()"))
    >>> [(ast.unparse(t), ast.unparse(v)) for t, v in unpack_targets(binding.target, binding.value)]
    [('a', '1'), ('(b, c)', 'f()')]
    """
    if (
        isinstance(target, ast.Tuple | ast.List)
        and isinstance(value, ast.Tuple | ast.List)
        and len(value.elts) == len(target.elts)
    ):
        for each, part in zip(target.elts, value.elts, strict=True):
            yield from unpack_targets(each, part)
    else:
        yield target, value
