"""What is known of a kernel's integers at one point of it, and how statements change that."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kerneldsl.analysis.linear import Fact, Linear, lower_bound

__all__ = ["Bounds", "Environment"]

_SIZES = frozenset({"size", "ndim", "nbytes", "itemsize"})
_SIGNED_CASTS = frozenset({"int", "np.int64", "np.int32", "np.intp", "numpy.int64", "numpy.int32"})
_UNSIGNED_CASTS = frozenset({"uint8", "uint16", "uint32", "uint64", "uintp"})
#: Steps of one search through the facts; more than any kernel seen so far needs.
_MAX_STEPS = 400
_COORDINATE = re.compile(r"kd_((?:threadIdx|blockIdx|blockDim|gridDim)_[xyz]|laneid|warpsize)_\d+$")
#: An index and what it stays below.
_BELOW = {"threadIdx": "blockDim", "blockIdx": "gridDim"}
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}


@dataclass(frozen=True)
class Environment:
    """What holds at one point.

    Parameters
    ----------
    facts : frozenset of Fact
        Bounds of linear forms.
    definitions : tuple of (str, Linear)
        Variables that equal a form over other atoms.
    tuples : frozenset of str
        Variables whose elements, if they are tuples, are not negative.
    """

    facts: frozenset[Fact] = frozenset()
    definitions: tuple[tuple[str, Linear], ...] = ()
    tuples: frozenset[str] = frozenset()


class Bounds:
    """Rules of one function.

    Parameters
    ----------
    tree : ast.FunctionDef
        The function.
    nonnegative_calls : callable
        Says of a call that its result is not negative.
    constants : mapping
        Values of outside names.
    opaque : collection of str
        Functions of which nothing is known, though they be called ``min`` or ``len``.
    """

    def __init__(
        self,
        tree: ast.FunctionDef,
        nonnegative_calls: Callable[[ast.Call], bool],
        constants: Mapping[str, Any],
        opaque: Collection[str] = (),
    ) -> None:
        self._nonnegative_calls = nonnegative_calls
        self._constants = {
            name: int(value)
            for name, value in constants.items()
            if isinstance(value, int | np.integer)
        }
        self._parameters = {a.arg for a in (*tree.args.posonlyargs, *tree.args.args)}
        self._opaque = {*opaque, *self._parameters}
        self._nodes: dict[str, ast.expr] = {}
        self._names_of: dict[str, frozenset[str]] = {}
        self._open: list[str] = []
        self._steps_left = _MAX_STEPS
        self._integers = self._integer_variables(tree)

    # Questions

    def is_nonnegative_index(self, node: ast.expr, env: Environment) -> bool:
        """Whether an expression that is used as an index is never negative."""
        if isinstance(node, ast.Constant):
            return type(node.value) is int and node.value >= 0
        bound = self.lower(node, env, self._names_made_integer(node, env))
        return bound is not None and bound >= 0

    def lower(
        self, node: ast.expr, env: Environment, integers: frozenset[str] = frozenset()
    ) -> int | None:
        """A constant that an expression is never below; *integers* are names known to be such."""
        form = self._linear(node, env)
        if form is None:
            return self._own_lower(node, env, integers)
        return self._lower_of_form(form, env, integers)

    def _lower_of_form(
        self, form: Linear, env: Environment, integers: frozenset[str]
    ) -> int | None:
        def is_integer(atom: str) -> bool:
            return all(n in integers for n in self._unsure_names(atom))

        def bound_of_atom(atom: str) -> int | None:
            node = self._nodes[atom]
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
            above = _BELOW.get(index.removeprefix("@"))
            if above is not None:
                other = self._coordinate_atom(f"{above}_{axis}")
                facts.append(Fact(Linear.of({other: 1, atom: -1}, -1)))
        if not self._open:
            self._steps_left = _MAX_STEPS
        return lower_bound(form, facts, is_integer, bound_of_atom, self._may_go_on)

    def _may_go_on(self) -> bool:
        self._steps_left -= 1
        return self._steps_left > 0

    def _own_lower(self, node: ast.expr, env: Environment, integers: frozenset[str]) -> int | None:
        """A bound that follows from what kind of expression it is."""

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
                return 0 if node.attr in _SIZES else None
            case ast.Subscript():
                return 0 if self._is_nonnegative_tuple(node.value, env) else None
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
        if self._nonnegative_calls(node):
            return 0
        name = self._dotted(node.func)
        if name is None or node.keywords or not node.args:
            return None
        if name in ("len", "abs"):
            return 0
        if name == "min" and len(node.args) > 1:
            return _least(low(a) for a in node.args)
        if name == "max" and len(node.args) > 1:
            return max((b for a in node.args if (b := low(a)) is not None), default=None)
        module, _, last = name.rpartition(".")
        if last in _UNSIGNED_CASTS and module in ("np", "numpy", ""):
            return 0
        # Only of an integer; a float's bound need not hold for what is cut off of it.
        is_cast = name in _SIGNED_CASTS and len(node.args) == 1
        if is_cast and self._is_integer_expression(node.args[0], self._integers):
            return low(node.args[0])
        return None

    def _is_nonnegative_tuple(self, node: ast.expr, env: Environment) -> bool:
        match node:
            case ast.Attribute():
                return node.attr == "shape"
            case ast.Name():
                return node.id in env.tuples
            case ast.Call():
                return self._nonnegative_calls(node)
            case ast.Tuple():
                return all((self.lower(e, env) or 0) >= 0 > -1 for e in node.elts) and all(
                    self.lower(e, env) is not None for e in node.elts
                )
        return False

    # Forms

    def _linear(self, node: ast.expr, env: Environment) -> Linear | None:
        """The form of an expression; ``None`` where its value may change by itself."""
        match node:
            case ast.Constant():
                return Linear((), node.value) if type(node.value) is int else None
            case ast.Name():
                if node.id in self._constants and node.id not in self._parameters:
                    return Linear((), self._constants[node.id])
                return self._atom(node)
            case ast.UnaryOp(op=ast.USub()):
                inner = self._linear(node.operand, env)
                return inner.scale(-1) if inner is not None else None
            case ast.UnaryOp(op=ast.UAdd()):
                return self._linear(node.operand, env)
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult()):
                left, right = self._linear(node.left, env), self._linear(node.right, env)
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

    def _atom(self, node: ast.expr) -> Linear:
        key = ast.unparse(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            match = _COORDINATE.match(node.func.id)
            if match is not None:
                key = "@" + match[1]
        if key not in self._nodes:
            self._nodes[key] = node
            self._names_of[key] = frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
        return Linear.of({key: 1})

    def _coordinate_atom(self, symbol: str) -> str:
        """The atom of a coordinate that may not be written in the function."""
        key = "@" + symbol
        if key not in self._nodes:
            call = ast.Call(ast.Name(f"kd_{symbol}_0", ast.Load()), [], [])
            self._nodes[key] = ast.Subscript(  # a size, whatever calls are known
                ast.Attribute(call, "shape", ast.Load()), ast.Constant(0), ast.Load()
            )
            self._names_of[key] = frozenset()
        return key

    def _is_stable(self, node: ast.expr) -> bool:
        """Whether a value changes only when a variable in it does."""
        match node:
            case ast.Constant() | ast.Name():
                return True
            case ast.Attribute():
                return node.attr in _SIZES and isinstance(node.value, ast.Name)
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
                if self._nonnegative_calls(node):
                    return not node.args
                return self._dotted(node.func) in ("len", "min", "max", "abs", "int") and all(
                    self._is_stable(a) for a in node.args
                )
        return False

    def _dotted(self, node: ast.expr) -> str | None:
        """The name of a function that is called, if it is what its name says."""
        name = _dotted(node)
        return None if name is None or name in self._opaque else name

    # Which variables are integers

    def _integer_variables(self, tree: ast.FunctionDef) -> frozenset[str]:
        """Locals that are given nothing but integers."""
        values: dict[str, list[ast.expr | None]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    _pair_up(target, node.value, values)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                old = ast.Name(node.target.id, ast.Load())
                values.setdefault(node.target.id, []).append(ast.BinOp(old, node.op, node.value))
            elif isinstance(node, ast.For | ast.comprehension):
                is_range = (
                    isinstance(node.iter, ast.Call) and self._dotted(node.iter.func) == "range"
                )
                if is_range and isinstance(node.target, ast.Name):
                    values.setdefault(node.target.id, []).append(ast.Constant(0))
                else:
                    _pair_up(node.target, None, values)
            elif isinstance(node, ast.NamedExpr):
                _pair_up(node.target, node.value, values)
        integers = frozenset(values) - self._parameters
        while True:  # start with all, and take away until nothing changes
            kept = frozenset(
                name
                for name in integers
                if all(
                    v is not None and self._is_integer_expression(v, integers) for v in values[name]
                )
            )
            if kept == integers:
                return integers
            integers = kept

    def _is_integer_expression(self, node: ast.expr, integers: frozenset[str]) -> bool:
        def both(*parts: ast.expr) -> bool:
            return all(self._is_integer_expression(p, integers) for p in parts)

        match node:
            case ast.Constant():
                return isinstance(node.value, int)
            case ast.Name():
                is_constant = node.id in self._constants and node.id not in self._parameters
                return node.id in integers or is_constant
            case ast.Attribute():
                return node.attr in _SIZES
            case ast.Subscript():
                return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
            case ast.Compare():
                return True
            case ast.UnaryOp():
                return both(node.operand)
            case ast.BinOp():
                return not isinstance(node.op, ast.Div) and both(node.left, node.right)
            case ast.IfExp():
                return both(node.body, node.orelse)
            case ast.BoolOp():
                return both(*node.values)
            case ast.Call():
                name = self._dotted(node.func)
                if self._nonnegative_calls(node) or name in ("int", "len"):
                    return True
                last = (name or "").rpartition(".")[2]
                if last in _UNSIGNED_CASTS or last in ("int8", "int16", "int32", "int64", "intp"):
                    return True
                return name in ("min", "max", "abs") and both(*node.args)
        return False

    def _names_made_integer(self, node: ast.expr, env: Environment) -> frozenset[str]:
        """Names that must be integers because an expression is one."""
        found: set[str] = set()
        definitions = dict(env.definitions)

        def add(part: ast.expr) -> None:
            match part:
                case ast.Name():
                    if part.id not in found:
                        found.add(part.id)
                        form = definitions.get(part.id)
                        for atom in form.atoms if form is not None else ():
                            add(self._nodes[atom])
                case ast.BinOp():
                    if not isinstance(part.op, ast.Div):
                        add(part.left)
                        add(part.right)
                case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert()):
                    add(part.operand)
                case ast.IfExp():
                    add(part.body)
                    add(part.orelse)
                case ast.Call() if self._dotted(part.func) in ("min", "max", "abs"):
                    for argument in part.args:
                        add(argument)

        add(node)
        return frozenset(found)

    def _unsure_names(self, atom: str) -> Iterable[str]:
        """Names in an atom that may be floats."""
        node = self._nodes[atom]
        if self._is_integer_expression(node, self._integers):
            return ()
        return self._names_of[atom] - self._integers - {"len", "min", "max", "abs", "int"}

    # What statements do

    def forget(self, names: Iterable[str], env: Environment) -> Environment:
        """Drop what is known of variables; keep bounds of others that were known through them."""
        gone = frozenset(names)
        if not gone:
            return env
        kept: list[tuple[str, Linear]] = []
        facts: list[Fact] = []
        for name, form in env.definitions:
            if name not in gone and not self._mentions(form, gone):
                kept.append((name, form))
            elif name not in gone:
                low = self._lower_of_form(form, env, frozenset())
                if low is not None:
                    facts.append(Fact(Linear.of({name: 1}, -low)))
        facts += [f for f in env.facts if not self._mentions(f.form, gone)]
        return Environment(frozenset(facts), tuple(kept), env.tuples - gone)

    def _mentions(self, form: Linear, names: frozenset[str]) -> bool:
        return any(self._names_of[atom] & names for atom in form.atoms)

    def assign(self, target: ast.expr, value: ast.expr, env: Environment) -> Environment:
        """What holds after an assignment."""
        if isinstance(target, ast.Tuple | ast.List):
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                return self._assign_in_parallel(target.elts, value.elts, env)
            is_nonnegative = self._is_nonnegative_tuple(value, env)
            names = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
            env = self.forget(names, env)
            if is_nonnegative:
                plain = {e.id for e in target.elts if isinstance(e, ast.Name)}
                env = replace(env, facts=env.facts | {Fact(self._variable(n)) for n in plain})
            return env
        if not isinstance(target, ast.Name):
            return env
        return self._assign_name(target.id, value, env)

    def _assign_in_parallel(
        self, targets: list[ast.expr], values: list[ast.expr], env: Environment
    ) -> Environment:
        lows = [self.lower(v, env) for v in values]
        names = {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        new = self.forget(names, env)
        facts = {
            Fact(self._variable(t.id) - Linear((), low))
            for t, low in zip(targets, lows, strict=True)
            if isinstance(t, ast.Name) and low is not None
        }
        return replace(new, facts=new.facts | facts)

    def _assign_name(self, name: str, value: ast.expr, env: Environment) -> Environment:
        variable = self._variable(name)
        form = self._linear(value, env)
        is_tuple = self._is_nonnegative_tuple(value, env)
        if form is not None and abs(form.factor(name)) == 1 and self._only_as_itself(form, name):
            shifted = self._shift(name, form, env)
            return replace(shifted, tuples=shifted.tuples - {name})
        low = self.lower(value, env)
        extra: set[Fact] = set()
        if low is not None:
            extra.add(Fact(variable - Linear((), low)))
        call = self._dotted(value.func) if isinstance(value, ast.Call) else None
        if call in ("min", "max") and isinstance(value, ast.Call) and len(value.args) > 1:
            for argument in value.args:
                other = self._linear(argument, env)
                if other is not None and not self._mentions(other, frozenset((name,))):
                    difference = variable - other if call == "max" else other - variable
                    # A NaN among them would make it false.
                    extra.add(Fact(difference, needs_integers=True))
        new = self.forget((name,), env)
        definitions = new.definitions
        if form is not None and not self._mentions(form, frozenset((name,))):
            definitions = (*definitions, (name, form))
        tuples = new.tuples | {name} if is_tuple else new.tuples
        return Environment(new.facts | extra, definitions, tuples)

    def _only_as_itself(self, form: Linear, name: str) -> bool:
        return all(a == name or name not in self._names_of[a] for a in form.atoms)

    def _shift(self, name: str, form: Linear, env: Environment) -> Environment:
        """``x = x + form``: rewrite what is known with the old value in terms of the new."""
        factor = form.factor(name)
        rest = form - Linear.of({name: factor})
        variable = self._variable(name)
        # new = factor * old + rest, so old = factor * (new - rest), as factor is 1 or -1.
        old = (variable - rest).scale(factor)
        gone = frozenset((name,))
        facts: set[Fact] = set()
        for fact in env.facts:
            if not self._mentions(fact.form, gone):
                facts.add(fact)
            elif self._only_as_itself(fact.form, name):
                facts.add(replace(fact, form=fact.form.substitute(name, old)))
        low = self._lower_of_form(form, env, frozenset())
        if low is not None:
            facts.add(Fact(variable - Linear((), low)))
        definitions: list[tuple[str, Linear]] = []
        for defined, value in env.definitions:
            if defined == name:
                difference = variable - (value.scale(factor) + rest)
                facts.add(Fact(difference))
                facts.add(Fact(difference.scale(-1)))
            elif not self._mentions(value, gone):
                definitions.append((defined, value))
            elif self._only_as_itself(value, name):
                definitions.append((defined, value.substitute(name, old)))
        return Environment(frozenset(facts), tuple(definitions), env.tuples)

    def _variable(self, name: str) -> Linear:
        return self._atom(ast.Name(name, ast.Load()))

    def enter_for(
        self, node: ast.For, entry: Environment, head: Environment, changed: set[str]
    ) -> Environment:
        """What holds at the start of each round of a ``for``."""
        names = {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
        env = self.forget(names, head)
        call = node.iter
        if not isinstance(call, ast.Call) or self._dotted(call.func) != "range":
            return env
        if not isinstance(node.target, ast.Name) or call.keywords or not 1 <= len(call.args) <= 3:
            return env
        first: ast.expr = call.args[0] if len(call.args) > 1 else ast.Constant(0)
        stop = call.args[1] if len(call.args) > 1 else call.args[0]
        step: ast.expr = call.args[2] if len(call.args) > 2 else ast.Constant(1)
        variable = self._variable(node.target.id)
        gone = frozenset(changed)
        facts: set[Fact] = set()
        low_step = self.lower(step, entry)
        step_form = self._linear(step, entry)
        is_down = step_form is not None and not step_form.terms and step_form.constant < 0
        if not is_down and (low_step is None or low_step < 0):
            return env
        # The bounds of a range are integers, or Numba refuses it.
        low_end, high_end = (stop, first) if is_down else (first, stop)
        integers = self._names_made_integer(low_end, entry)
        low = self.lower(low_end, entry, integers)
        if low is not None:
            facts.add(Fact(variable - Linear((), low + is_down)))
        for end, is_low in ((low_end, True), (high_end, False)):
            form = self._linear(end, entry)
            if form is not None and not self._mentions(form, gone):
                difference = variable - form if is_low else form - variable
                facts.add(Fact(difference, is_strict=is_low == is_down))
        return replace(env, facts=env.facts | facts)

    # Conditions

    def assume(self, test: ast.expr, truth: bool, env: Environment | None) -> Environment | None:
        """What holds where a condition was found true, or false; ``None`` where that cannot be."""
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
                if not truth and len(test.ops) > 1:
                    return env
                lefts = [test.left, *test.comparators[:-1]]
                for left, op, right in zip(lefts, test.ops, test.comparators, strict=True):
                    env = self._compare(left, type(op), right, truth, env)
                return env
            case ast.Name() | ast.BinOp() | ast.Call():
                return self._compare(test, ast.NotEq, ast.Constant(0), truth, env)
        return env

    def _compare(
        self,
        left: ast.expr,
        op: type[ast.cmpop],
        right: ast.expr,
        truth: bool,
        env: Environment,
    ) -> Environment:
        if not truth:
            if op not in _OPPOSITE:
                return env
            op = _OPPOSITE[op]
        first, second = self._linear(left, env), self._linear(right, env)
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
                integers = frozenset(n for a in form.atoms for n in self._names_of[a])
                if self._lower_of_form(form, env, integers) == 0:
                    facts.add(Fact(form, is_strict=True, needs_integers=True))
        facts = {f for f in facts if f.form.terms}
        return replace(env, facts=env.facts | facts)

    # Where ways meet

    def join(self, one: Environment | None, other: Environment | None) -> Environment | None:
        """What holds on both of two ways."""
        if one is None or other is None:
            return one or other
        if one == other:
            return one
        definitions = tuple(d for d in one.definitions if d in other.definitions)
        facts = set(one.facts & other.facts)
        for mine, theirs in ((one, other), (other, one)):
            for fact in mine.facts - theirs.facts:
                form = Linear(fact.form.terms, 0)
                facts |= self._weaker(form, one, other)
        defined = {n for n, _ in (*one.definitions, *other.definitions)}
        for name in defined - {n for n, _ in definitions}:
            facts |= self._weaker(self._variable(name), one, other)
        return Environment(frozenset(facts), definitions, one.tuples & other.tuples)

    def _weaker(self, form: Linear, one: Environment, other: Environment) -> set[Fact]:
        found = []
        for env in (one, other):
            low = self._lower_of_form(form, env, frozenset())
            if low is None:
                return set()
            found.append(low)
        return {Fact(form - Linear((), min(found)))}

    def widen(self, before: Environment, after: Environment) -> Environment:
        """Let only such bounds change in a loop as come to rest: to 0 or -1, or away."""
        known = {fact.form.terms for fact in before.facts}
        facts = set()
        for fact in after.facts:
            if fact in before.facts:
                facts.add(fact)
            elif fact.form.terms not in known:
                continue
            elif fact.form.constant <= 0:
                facts.add(replace(fact, form=Linear(fact.form.terms, 0)))
            elif fact.form.constant == 1:
                facts.add(fact)
        return replace(after, facts=frozenset(facts))


def _least(bounds: Iterable[int | None]) -> int | None:
    found = list(bounds)
    return None if any(b is None for b in found) else min(b for b in found if b is not None)


def _dotted(node: ast.expr) -> str | None:
    """``np.int32`` of such a chain of attributes; ``None`` for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return None if base is None else f"{base}.{node.attr}"
    return None


def _pair_up(
    target: ast.expr, value: ast.expr | None, values: dict[str, list[ast.expr | None]]
) -> None:
    """Note what each name of a target is given."""
    if isinstance(target, ast.Name):
        values.setdefault(target.id, []).append(value)
    elif isinstance(target, ast.Tuple | ast.List):
        elements: list[ast.expr | None] = [None] * len(target.elts)
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
            elements = list(value.elts)
        elif isinstance(value, ast.Call | ast.Attribute):
            # Coordinates and shapes are tuples of integers.
            elements = [value if isinstance(value, ast.Call) else ast.Constant(0)] * len(
                target.elts
            )
            if isinstance(value, ast.Attribute) and value.attr != "shape":
                elements = [None] * len(target.elts)
        for element, part in zip(target.elts, elements, strict=True):
            _pair_up(element, part, values)
