"""Bounds of a kernel's integers at one point of it, from what they are and what conditions say."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import replace

from kerneldsl.analysis.expressions import loaded_names
from kerneldsl.analysis.followed_names import has_call
from kerneldsl.analysis.integers import SIZES, UNSIGNED_CASTS
from kerneldsl.analysis.linear import Fact, Linear, lower_bound
from kerneldsl.analysis.linear_forms import LinearForms
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.operators import OPPOSITES

__all__ = ["Bounds", "Environment"]

_SIGNED_CASTS = frozenset({"int", "numpy.int64", "numpy.int32"})
#: Steps of one search through the facts; more than any kernel seen so far needs.
_MAX_STEPS = 400
#: An index and what it stays below.
_BELOW = {"threadIdx": "blockDim", "blockIdx": "gridDim"}
#: What is at least 1 along each axis.
_DIMENSIONS = frozenset(_BELOW.values())


@dataclass(frozen=True)
class Environment:
    """Facts that hold at one point of a function."""

    #: Bounds of linear forms.
    facts: frozenset[Fact] = frozenset()
    #: Variables that equal a form over other atoms.
    definitions: tuple[tuple[str, Linear], ...] = ()
    #: Variables whose elements, if they are tuples, are not negative.
    tuples: frozenset[str] = frozenset()


class Bounds:
    """Bounds of the expressions of one function."""

    def __init__(self, forms: LinearForms, names: frozenset[str] | None = None) -> None:
        self.forms = forms
        #: The variables to gather facts about; ``None`` for all.
        self.names = names
        self.integers = forms.integers
        self._open: list[str] = []
        self._steps_left = _MAX_STEPS

    # Questions

    def is_nonnegative_index(self, node: ast.expr, env: Environment) -> bool:
        """Return whether an expression that is used as an index is never negative."""
        if isinstance(node, ast.Constant):
            return type(node.value) is int and node.value >= 0
        bound = self.lower(node, env, self.names_made_integer(node, env))
        return bound is not None and bound >= 0

    def lower(
        self, node: ast.expr, env: Environment, integers: frozenset[str] = frozenset()
    ) -> int | None:
        """Return a constant that an expression is never below; *integers* are names of such."""
        form = self.forms.form_of(node)
        if form is None:
            return self._own_lower(node, env, integers)
        return self.lower_of_form(form, env, integers)

    def lower_of_form(self, form: Linear, env: Environment, integers: frozenset[str]) -> int | None:
        """Return a constant that a form is never below."""
        if not form.terms:
            return form.constant

        def is_integer(atom: str) -> bool:
            return all(n in integers for n in self.forms.unsure_names(atom))

        def bound_of_atom(atom: str) -> int | None:
            node = self.forms.nodes[atom]
            if isinstance(node, ast.Name) or atom in self._open:
                return None  # facts may lead from an atom to itself
            self._open.append(atom)
            try:
                return self._own_lower(node, env, integers)
            finally:
                self._open.pop()

        facts = list(env.facts)
        for name, value in env.definitions:
            if form.factor(name):
                form = form.substitute(name, value)
            facts.append(Fact(Linear.of({name: 1}) - value))
            facts.append(Fact(value - Linear.of({name: 1})))
        for atom in form.atoms:
            index, _, axis = atom.partition("_")
            if index.removeprefix("@") in _DIMENSIONS:
                facts.append(Fact(Linear.of({atom: 1}, -1)))
            above = _BELOW.get(index.removeprefix("@"))
            if above is not None:
                other = self.forms.coordinate(f"{above}_{axis}")
                facts.append(Fact(Linear.of({other: 1, atom: -1}, -1)))
        if not self._open:
            self._steps_left = _MAX_STEPS
        return lower_bound(form, facts, is_integer, bound_of_atom, self._may_go_on)

    def _may_go_on(self) -> bool:
        self._steps_left -= 1
        return self._steps_left > 0

    def _own_lower(self, node: ast.expr, env: Environment, integers: frozenset[str]) -> int | None:
        """Return a bound that follows from what kind of expression it is."""

        def low(part: ast.expr, at: Environment | None = env) -> int | None:
            return self.lower(part, at, integers) if at is not None else 1 << 62

        match node:
            case ast.Constant():
                return node.value if type(node.value) is int else None
            case ast.Compare():
                return 0
            case ast.UnaryOp(op=ast.Not()):
                return 0
            case ast.Attribute():
                return 0 if node.attr in SIZES else None
            case ast.Subscript():
                return 0 if self.is_nonnegative_tuple(node.value, env) else None
            case ast.IfExp():
                then = low(node.body, self.assume(node.test, True, env))
                other = low(node.orelse, self.assume(node.test, False, env))
                return None if then is None or other is None else min(then, other)
            case ast.BoolOp():
                return _least(low(value) for value in node.values)
            case ast.BinOp():
                return self._binary_lower(node, low)
            case ast.Call():
                return self._call_lower(node, low, integers, env)
        return None

    def _binary_lower(self, node: ast.BinOp, low: Callable[[ast.expr], int | None]) -> int | None:
        left, right = low(node.left), low(node.right)
        both = left is not None and right is not None and left >= 0 and right >= 0
        match node.op:
            case ast.Add():
                return None if left is None or right is None else left + right
            case ast.Mult():
                return left * right if both and left is not None and right is not None else None
            case ast.FloorDiv():
                if isinstance(node.right, ast.Constant) and left is not None:
                    divisor = node.right.value
                    if type(divisor) is int and divisor > 0:
                        return left // divisor
                return 0 if both else None
            case ast.Mod():
                return 0 if right is not None and right >= 0 else None
            case ast.LShift() | ast.RShift():
                return 0 if left is not None and left >= 0 else None
            case ast.BitAnd():
                return 0 if any(b is not None and b >= 0 for b in (left, right)) else None
            case ast.BitOr() | ast.BitXor() | ast.Pow():
                return 0 if both else None
        return None

    def _call_lower(
        self,
        node: ast.Call,
        low: Callable[[ast.expr], int | None],
        integers: frozenset[str],
        env: Environment,
    ) -> int | None:
        if self.integers.is_nonnegative_call(node):
            return 0
        name = self.integers.called(node.func)
        if name is None or node.keywords or not node.args:
            return None
        if name in ("len", "abs"):
            return 0
        if name == "min" and len(node.args) > 1:
            return _least(low(a) for a in node.args)
        if name == "max" and len(node.args) > 1:
            return max((b for a in node.args if (b := low(a)) is not None), default=None)
        module, _, last = name.rpartition(".")
        if last in UNSIGNED_CASTS and module in ("numpy", "numba"):
            return 0
        # Only of an integer; a float's bound need not hold for what is cut off of it.
        is_cast = name in _SIGNED_CASTS and len(node.args) == 1
        if is_cast and self.integers.is_integer(node.args[0]):
            return low(node.args[0])
        return None

    def is_nonnegative_tuple(self, node: ast.expr, env: Environment) -> bool:
        """Return whether no element of an expression is negative, if it is a tuple."""
        match node:
            case ast.Attribute():
                return node.attr == "shape"
            case ast.Name():
                return node.id in env.tuples
            case ast.Call():
                return self.integers.is_nonnegative_call(node)
            case ast.Tuple():
                return all((self.lower(e, env) or 0) >= 0 > -1 for e in node.elts) and all(
                    self.lower(e, env) is not None for e in node.elts
                )
        return False

    def names_made_integer(self, node: ast.expr, env: Environment) -> frozenset[str]:
        """Return names that must be integers because an expression is one."""
        found: set[str] = set()
        definitions = dict(env.definitions)

        def add(part: ast.expr) -> None:
            match part:
                case ast.Name():
                    if part.id not in found:
                        found.add(part.id)
                        form = definitions.get(part.id)
                        for atom in form.atoms if form is not None else ():
                            add(self.forms.nodes[atom])
                case ast.BinOp():
                    if not isinstance(part.op, ast.Div):
                        add(part.left)
                        add(part.right)
                case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert()):
                    add(part.operand)
                case ast.IfExp():
                    add(part.body)
                    add(part.orelse)
                case ast.Call() if self.integers.called(part.func) in ("min", "max", "abs"):
                    for argument in part.args:
                        add(argument)

        add(node)
        return frozenset(found)

    # Conditions

    def assume(self, test: ast.expr, truth: bool, env: Environment | None) -> Environment | None:
        """Return what holds where a condition is true, or false; ``None`` if it cannot be."""
        if env is None:
            return None
        match test:
            case ast.Constant():
                return env if bool(test.value) == truth else None
            case ast.UnaryOp(op=ast.Not()):
                return self.assume(test.operand, not truth, env)
            case ast.BoolOp():
                if isinstance(test.op, ast.And) == truth:
                    reached: Environment | None = env
                    for value in test.values:
                        reached = self.assume(value, truth, reached)
                    return reached
                return env
            case ast.Compare():
                if (not truth and len(test.ops) > 1) or not self._concerns(test):
                    return env
                lefts = [test.left, *test.comparators[:-1]]
                for left, op, right in zip(lefts, test.ops, test.comparators, strict=True):
                    env = self._compare(left, type(op), right, truth, env)
                return env
            case ast.Name() | ast.BinOp() | ast.Call() if self._concerns(test):
                return self._compare(test, ast.NotEq, ast.Constant(0), truth, env)
        return env

    def _concerns(self, test: ast.expr) -> bool:
        """Return whether a condition may say anything of the variables."""
        names = self.names
        return names is None or not names.isdisjoint(loaded_names(test)) or has_call(test)

    def _compare(
        self,
        left: ast.expr,
        op: type[ast.cmpop],
        right: ast.expr,
        truth: bool,
        env: Environment,
    ) -> Environment:
        if not truth:
            if op not in OPPOSITES:
                return env
            op = OPPOSITES[op]
        first, second = self.forms.form_of(left), self.forms.form_of(right)
        if first is None or second is None:
            return env
        difference = first - second
        facts: set[Fact] = set()
        if op in (ast.Gt, ast.GtE):
            facts.add(Fact(difference, op is ast.Gt, not truth))
        elif op in (ast.Lt, ast.LtE):
            facts.add(Fact(difference.scale(-1), op is ast.Lt, not truth))
        elif op is ast.Eq:
            facts |= {
                Fact(difference, needs_integers=not truth),
                Fact(difference.scale(-1), needs_integers=not truth),
            }
        elif op is ast.NotEq:
            for form in (difference, difference.scale(-1)):
                integers = frozenset(n for a in form.atoms for n in self.forms.names_of[a])
                if self.lower_of_form(form, env, integers) == 0:
                    facts.add(Fact(form, is_strict=True, needs_integers=True))
        facts = {f for f in facts if f.form.terms}
        return replace(env, facts=env.facts | facts)


def _least(bounds: Iterable[int | None]) -> int | None:
    found = list(bounds)
    return None if any(b is None for b in found) else min(b for b in found if b is not None)
