"""From expressions of a function to linear forms over its atoms.

An atom is named by its text, so that the same expression is the same atom wherever it is written. A
thread's coordinates are the same atom however the normal form numbers their calls.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from kerneldsl.analysis.integers import SIZES, Integers
from kerneldsl.analysis.linear import Linear
from kerneldsl.frontend.syntax import call, load
from kerneldsl.frontend.trees import walk_here

__all__ = ["LinearForms"]

_COORDINATE = re.compile(r"kd_((?:threadIdx|blockIdx|blockDim|gridDim)_[xyz]|laneid|warpsize)_\d+$")


class LinearForms:
    """The forms of one function's expressions."""

    def __init__(self, integers: Integers) -> None:
        self.integers = integers
        #: The expression of each atom.
        self.nodes: dict[str, ast.expr] = {}
        #: The names in it.
        self.names_of: dict[str, frozenset[str]] = {}

    def form_of(self, node: ast.expr) -> Linear | None:
        """Return the form of an expression; ``None`` where its value may change by itself."""
        match node:
            case ast.Constant():
                return Linear((), node.value) if type(node.value) is int else None
            case ast.Name():
                constant = self.integers.constant(node.id)
                return self._atom(node) if constant is None else Linear((), constant)
            case ast.UnaryOp(op=ast.USub()):
                inner = self.form_of(node.operand)
                return inner.scale(-1) if inner is not None else None
            case ast.UnaryOp(op=ast.UAdd()):
                return self.form_of(node.operand)
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult()):
                left, right = self.form_of(node.left), self.form_of(node.right)
                if left is None or right is None:
                    return None
                if isinstance(node.op, ast.Add):
                    return left + right
                if isinstance(node.op, ast.Sub):
                    return left - right
                if not right.terms:
                    return left.scale(right.constant)
                if not left.terms:
                    return right.scale(left.constant)
        return self._atom(node) if self._is_stable(node) else None

    def variable(self, name: str) -> Linear:
        """Return the form that is a variable alone."""
        return self._atom(load(name))

    def _atom(self, node: ast.expr) -> Linear:
        key = ast.unparse(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            match = _COORDINATE.match(node.func.id)
            if match is not None:
                key = "@" + match[1]
        if key not in self.nodes:
            self.nodes[key] = node
            self.names_of[key] = frozenset(n.id for n in walk_here(node) if isinstance(n, ast.Name))
        return Linear.of({key: 1})

    def coordinate(self, symbol: str) -> str:
        """Return the atom of a coordinate that may not be written in the function."""
        key = "@" + symbol
        if key not in self.nodes:
            shape = ast.Attribute(call(f"kd_{symbol}_0"), "shape", ast.Load())
            # A size, whatever calls are known.
            self.nodes[key] = ast.Subscript(shape, ast.Constant(0), ast.Load())
            self.names_of[key] = frozenset()
        return key

    def mentions(self, form: Linear, names: frozenset[str]) -> bool:
        """Return whether a form changes with one of some variables."""
        return any(self.names_of[atom] & names for atom in form.atoms)

    def only_as_itself(self, form: Linear, name: str) -> bool:
        """Return whether a variable is an atom of a form at most, and inside of no other one."""
        return all(a == name or name not in self.names_of[a] for a in form.atoms)

    def unsure_names(self, atom: str) -> Iterable[str]:
        """Return the names in an atom that may be floats."""
        node = self.nodes[atom]
        if self.integers.is_integer(node):
            return ()
        return self.names_of[atom] - self.integers.variables - self.integers.outside.keys()

    def _is_stable(self, node: ast.expr) -> bool:
        """Return whether a value changes only when a variable in it does."""
        match node:
            case ast.Constant() | ast.Name():
                return True
            case ast.Attribute():
                return node.attr in SIZES and isinstance(node.value, ast.Name)
            case ast.Subscript():
                base = node.value
                is_shape = isinstance(base, ast.Attribute) and base.attr == "shape"
                return (
                    is_shape
                    and isinstance(base, ast.Attribute)
                    and isinstance(base.value, ast.Name)
                    and isinstance(node.slice, ast.Constant)
                )
            case ast.BinOp():
                return self._is_stable(node.left) and self._is_stable(node.right)
            case ast.UnaryOp():
                return self._is_stable(node.operand)
            case ast.Call():
                if node.keywords:
                    return False
                if self.integers.is_nonnegative_call(node):
                    return not node.args
                name = self.integers.called(node.func)
                is_known = name in ("len", "min", "max", "abs", "int")
                return is_known and all(self._is_stable(a) for a in node.args)
        return False
