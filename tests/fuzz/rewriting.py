"""Rewrites a generated program so that it runs in Python with Numba's types.

Every function takes the thread as its first parameter; one that waits at a barrier is a generator.
Names of the rewriting begin with ``of_`` and end with ``_``, as no name of a program does.
"""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np

from kerneldsl.language.intrinsics.table import INTRINSICS
from tests.fuzz import typing
from tests.fuzz.operations import HELPERS
from tests.fuzz.static_types import TypeExpressions
from tests.support.scalars import SCALARS
from tests.support.simt import GRID_BARRIER, MEETINGS, STOPS
from tests.support.tile_words import TILE_METHODS
from tests.support.vectors import VECTORS

__all__ = ["compile_program"]

_BINARY = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
_COMPARE = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_UNARY = {ast.USub: "neg", ast.Invert: "invert"}
_THREAD = "of_thread_"
_MODULES = frozenset(("kd", "np", "math"))


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(_name(f"of_{name}_"), list(args), [])


def _position(node: ast.stmt) -> ast.Constant:
    return ast.Constant((node.lineno, node.col_offset))


def _dotted(node: ast.AST) -> str:
    """Return a name with its attributes; no text for attributes of other expressions."""
    root = node
    while isinstance(root, ast.Attribute):
        root = root.value
    return ast.unparse(node) if isinstance(root, ast.Name) else ""


def _tile_method(node: ast.AST) -> str | None:
    """Return the name of the operation on tiles that a method or attribute of one is."""
    called = isinstance(node, ast.Call)
    found = node.func if isinstance(node, ast.Call) else node
    if not isinstance(found, ast.Attribute) or _dotted(found).partition(".")[0] in _MODULES:
        return None
    is_method = found.attr in TILE_METHODS if called else found.attr == "own"
    return found.attr if is_method else None


class _Rewriter(ast.NodeTransformer):
    """Rewrites one function."""

    def __init__(self, function: str, functions: set[str], generators: set[str]) -> None:
        self._function = function
        self._functions = functions
        self._generators = generators
        self._temporaries = 0
        #: Names that the function binds, which may be those of other functions.
        self._local: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        stored = (n for n in ast.walk(node) if isinstance(n, ast.Name))
        self._local = {n.id for n in stored if isinstance(n.ctx, ast.Store)}
        self._local |= {each.arg for each in node.args.args}
        node.decorator_list = []
        node.args.args.insert(0, ast.arg(_THREAD))
        node.body = [made for s in node.body for made in self._statements(s)]
        if node.name == "kernel":
            node.body.append(ast.parse("if False: yield").body[0])
        return node

    def _statements(self, node: ast.stmt) -> list[ast.stmt]:
        made = self.visit(node)
        return made if isinstance(made, list) else [made]

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        """Convert what is stored into an array to its dtype."""
        value = self.visit(node.value)
        if not any(isinstance(t, ast.Subscript) for t in node.targets):
            return [ast.Assign(node.targets, value)]
        made: list[ast.stmt] = [ast.Assign([ast.Name("of_value_", ast.Store())], value)]
        for target in node.targets:
            assert isinstance(target, ast.Subscript)
            array = self.visit(target.value)
            self._temporaries += 1
            index = f"of_index{self._temporaries}_"
            made += [
                ast.Assign([ast.Name(index, ast.Store())], self._index(target.slice)),
                ast.Assign(
                    [ast.Subscript(array, _name(index), ast.Store())],
                    _call("stored", array, _name("of_value_")),
                ),
            ]
        return made

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        """Read the target before the value, as Python does."""
        op = ast.Constant(_BINARY[type(node.op)])
        value = self.visit(node.value)
        if isinstance(node.target, ast.Name):
            new = _call("binary", op, _name(node.target.id), value)
            return [ast.Assign([node.target], new)]
        assert isinstance(node.target, ast.Subscript)
        self._temporaries += 1
        array, index = (f"of_{part}{self._temporaries}_" for part in ("array", "index"))
        old = ast.Subscript(_name(array), _name(index), ast.Load())
        return [
            ast.Assign([ast.Name(array, ast.Store())], self.visit(node.target.value)),
            ast.Assign([ast.Name(index, ast.Store())], self._index(node.target.slice)),
            ast.Assign(
                [ast.Subscript(_name(array), _name(index), ast.Store())],
                _call("stored", _name(array), _call("binary", op, old, value)),
            ),
        ]

    def _index(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Slice):
            given = (node.lower, node.upper, node.step)
            return _call("slice", *(self.visit(p) if p else ast.Constant(None) for p in given))
        if isinstance(node, ast.Tuple):
            return ast.Tuple([self._index(e) for e in node.elts], ast.Load())
        return self.visit(node)  # type: ignore[no-any-return]

    def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
        return ast.Subscript(self.visit(node.value), self._index(node.slice), node.ctx)

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return _call("constant", node) if type(node.value) in (int, float) else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        op = ast.Constant(_BINARY[type(node.op)])
        return _call("binary", op, self.visit(node.left), self.visit(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return ast.UnaryOp(node.op, operand)
        return _call("unary", ast.Constant(_UNARY[type(node.op)]), operand)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """A chain becomes a conjunction: what stands in its middle has no effect."""
        operands = [node.left, *node.comparators]
        parts: list[ast.expr] = [
            _call("compare", ast.Constant(_COMPARE[type(op)]), self._copy(a), self._copy(b))
            for op, a, b in zip(node.ops, operands, operands[1:], strict=False)
        ]
        return parts[0] if len(parts) == 1 else ast.BoolOp(ast.And(), parts)

    def _copy(self, node: ast.expr) -> ast.expr:
        return self.visit(ast.parse(ast.unparse(node), mode="eval").body)  # type: ignore[no-any-return]

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """Both branches have one type, whichever is evaluated."""
        types = TypeExpressions()
        yes, no = types.of(node.body), types.of(node.orelse)
        chosen = ast.IfExp(self.visit(node.test), self.visit(node.body), self.visit(node.orelse))
        return _call("joined", chosen, yes, no)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if _tile_method(node):
            return self._stop("tile.own", node, [self.visit(node.value)])
        name = _dotted(node)
        if name.startswith("kd."):
            return ast.parse(f"{_THREAD}.{name[3:]}", mode="eval").body
        value = ast.Attribute(self.visit(node.value), node.attr, ast.Load())
        is_number = node.attr in ("size", "shape") or name.startswith("math.")
        return _call("constant", value) if is_number else value

    def visit_For(self, node: ast.For) -> ast.For:
        node.iter = _call("iterate", _name(_THREAD), _position(node), self.visit(node.iter))
        node.body = [made for s in node.body for made in self._statements(s)]
        node.orelse = [made for s in node.orelse for made in self._statements(s)]
        return node

    def visit_While(self, node: ast.While) -> ast.For:
        """Count the turns, too."""
        last = [made for s in node.orelse for made in self._statements(s)]  # without jumps
        leave = ast.If(ast.UnaryOp(ast.Not(), self.visit(node.test)), [*last, ast.Break()], [])
        body = [made for s in node.body for made in self._statements(s)]
        turns = _call("forever", _name(_THREAD), _position(node))
        return ast.For(ast.Name("of_turn_", ast.Store()), turns, [leave, *body], [])

    def visit_Call(self, node: ast.Call) -> ast.expr:
        method = _tile_method(node)
        if method:
            assert isinstance(node.func, ast.Attribute)
            return self._of_group(f"tile.{method}", node, [node.func.value, *node.args])
        if ast.unparse(node.func) == "kd.grid_group().sync":
            return self._stop(GRID_BARRIER, node, [])
        name = _dotted(node.func)
        first, _, rest = name.partition(".")
        if name in ("kd.shared.array", "kd.local.array"):
            return self._array(node, rest)
        if first in ("np", "kd") and rest in typing.DTYPES:
            return _call("cast", self.visit(node.args[0]), ast.Constant(rest))
        if first == "kd" and rest.partition(".")[0] in ("warp", "block", "tile"):
            return self._of_group(rest, node, node.args)
        args = [self.visit(a) for a in node.args]
        if first == "kd" and rest in STOPS:
            return self._stop(rest, node, args)
        if name.startswith("kd.atomic."):
            array, *index, value = args
            args = [array, *index, _call("stored", self.visit(node.args[0]), value)]
        if first == "kd" and rest == "store":
            args[2] = _call("stored", self.visit(node.args[0]), args[2])
        if rest in SCALARS and rest != "packed":
            return _call("each", self.visit(node.func), *args)
        if first == "kd":
            args += [self.visit(each.value) for each in node.keywords]
            return ast.Call(self.visit(node.func), args, [])
        if name in self._functions:
            call = ast.Call(node.func, [_name(_THREAD), *args], [])
            return ast.YieldFrom(call) if name in self._generators else call
        if name in ("min", "max"):
            return _call("extremum", ast.Constant(name), *args)
        if name == "abs":
            return _call("unary", ast.Constant("abs"), *args)
        if name in ("int", "float"):
            return _call("conversion", ast.Constant(name), *args)
        if name == "math.sqrt":
            return _call("sqrt", *args)
        if name == "np.sum":
            return _call("sum", *args)
        if name.endswith(".reshape"):
            return ast.Call(self.visit(node.func), args, [])
        if name == "len":
            return _call("constant", ast.Call(node.func, args, []))
        if name == "range":
            return ast.Call(node.func, args, [])
        raise NotImplementedError(name)

    def _stop(self, name: str, node: ast.expr, args: list[ast.expr]) -> ast.expr:
        """Wait for other threads at a place in the program, those of a warp in the same turn."""
        place: ast.expr = ast.Constant((name, self._function, (node.lineno, node.col_offset)))
        if name in MEETINGS:
            place = _call("in_turn", _name(_THREAD), place)
        return ast.Yield(ast.Tuple([place, ast.Tuple(args, ast.Load())], ast.Load()))

    def _of_group(self, name: str, node: ast.Call, given: list[ast.expr]) -> ast.expr:
        """A word of a group or of tiles: its arguments in order, dtypes as text."""
        row = INTRINSICS[name]
        args = [self._argument(each) for each in given]
        named = {each.arg: self._argument(each.value) for each in node.keywords}
        for parameter in row.parameters[len(args) :]:
            default = row.defaults.get(parameter)
            args.append(named.get(parameter, _constant(default)))
        return self._stop(name, node, args)

    def _argument(self, node: ast.expr) -> ast.expr:
        name = _dotted(node)
        module, _, dtype = name.partition(".")
        if module in ("np", "kd") and dtype in typing.DTYPES:
            return ast.Constant(dtype)
        if name in self._functions - self._local:
            return _call("partial", _name(name), _name(_THREAD))
        return self.visit(node)  # type: ignore[no-any-return]

    def _array(self, node: ast.Call, kind: str) -> ast.expr:
        name = _dotted(node.args[1]).partition(".")[2]
        dtype = self.visit(node.args[1]) if name in VECTORS else ast.Constant(name)
        maker = ast.Attribute(_name(_THREAD), kind.replace(".", "_"), ast.Load())
        site = ast.Constant((self._function, node.lineno, node.col_offset))
        sites = [site] if kind == "shared.array" else []
        return ast.Call(maker, [*sites, self.visit(node.args[0]), dtype], [])


def _constant(value: Any) -> ast.expr:
    """A default; a number has the type that Numba gives it."""
    is_number = type(value) in (int, float)
    return _call("constant", ast.Constant(value)) if is_number else ast.Constant(value)


def _generators(definitions: list[ast.FunctionDef]) -> set[str]:
    """Functions that reach a barrier; callees stand before their callers."""
    found = {"kernel"}
    barriers = {f"kd.{name}" for name in STOPS}
    for definition in definitions:
        called = {_dotted(n.func) for n in ast.walk(definition) if isinstance(n, ast.Call)}
        if called & (found | barriers) or any(map(_tile_method, ast.walk(definition))):
            found.add(definition.name)
    return found


def compile_program(text: str) -> dict[str, Any]:
    """Return the namespace of a program, rewritten; its kernel is a generator."""
    tree = ast.parse(text)
    definitions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    rest = [
        n for n in tree.body if not isinstance(n, ast.FunctionDef | ast.Import | ast.ImportFrom)
    ]
    namespace: dict[str, Any] = {"np": np, "math": math}
    exec(compile(ast.Module(rest, []), "<constants>", "exec"), namespace)
    namespace = {k: typing.constant(v) for k, v in namespace.items()} | HELPERS
    functions, generators = {d.name for d in definitions}, _generators(definitions)
    body: list[ast.stmt] = [_Rewriter(d.name, functions, generators).visit(d) for d in definitions]
    module = ast.fix_missing_locations(ast.Module(body, []))
    exec(compile(module, "<oracle>", "exec"), namespace)
    return namespace
