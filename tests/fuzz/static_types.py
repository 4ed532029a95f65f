"""Types of expressions that are not evaluated: of the branch that a conditional does not take."""

from __future__ import annotations

import ast

from tests.fuzz import typing

__all__ = ["TypeExpressions"]


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(f"of_{name}_", ast.Load()), list(args), [])


class TypeExpressions:
    """Writes, for an expression, one that gives its dtype from those of its variables."""

    def of(self, node: ast.expr) -> ast.expr:
        """Return the expression of the dtype."""
        match node:
            case ast.Constant(value=value):
                return ast.Constant({int: "int64", float: "float64", bool: "bool"}[type(value)])
            case ast.Name():
                return _call("dtype", ast.Name(node.id, ast.Load()))
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return ast.Constant("bool")
            case ast.Attribute() | ast.Subscript(value=ast.Attribute()):
                return ast.Constant("int64")  # an index or a size
            case ast.Subscript():
                return self._element(node)
            case ast.BinOp():
                op = ast.Constant(_operator(node.op))
                return _call("result", op, self.of(node.left), self.of(node.right))
            case ast.UnaryOp():
                op = ast.Constant("neg" if isinstance(node.op, ast.USub) else "invert")
                return _call("result", op, self.of(node.operand))
            case ast.IfExp():
                return _call("common", self.of(node.body), self.of(node.orelse))
            case ast.Call():
                return self._call(node)
        raise NotImplementedError(ast.unparse(node))

    def _element(self, node: ast.Subscript) -> ast.expr:
        base = node.value
        while isinstance(base, ast.Subscript):
            base = base.value
        if not isinstance(base, ast.Name):
            raise NotImplementedError(ast.unparse(node))
        return _call("element", ast.Name(base.id, ast.Load()))

    def _call(self, node: ast.Call) -> ast.expr:
        name = ast.unparse(node.func)
        last = name.rpartition(".")[2]
        if name.startswith(("np.", "kd.")) and last in typing.DTYPES:
            return ast.Constant(last)
        if name in ("int", "float"):
            return _call("result", ast.Constant(name), self.of(node.args[0]))
        if name == "len" or name.startswith("kd.grid"):
            return ast.Constant("int64")
        if name == "kd.load":
            return self._element(ast.Subscript(node.args[0], node.args[1], ast.Load()))
        args = [self.of(a) for a in node.args]
        if name in ("min", "max", "abs"):
            return _call("result", ast.Constant(name), *args)
        if name == "math.sqrt":
            return args[0]
        raise NotImplementedError(f"the type of a call of {name}")


def _operator(op: ast.operator) -> str:
    text = ast.unparse(ast.BinOp(ast.Name("a"), op, ast.Name("b")))
    return text[2:-2]
