"""Define the domain of a kernel's integers: what statements do to bounds, their join and widening.

:mod:`kerneldsl.analysis.ranges` asks it about the indices of a function.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace

from kerneldsl.analysis.bounds import Bounds, Environment
from kerneldsl.analysis.dataflow import Branching, Dataflow, Frame, Loop
from kerneldsl.analysis.expressions import assigned_names, augmented_value, operands
from kerneldsl.analysis.linear import Fact, Linear
from kerneldsl.frontend.trees import walk_here

__all__ = ["Transfer"]

_MAX_ROUNDS = 6


class Transfer(Dataflow[Environment]):
    """The domain of a function's integers."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__()
        self.bounds = bounds
        self.forms = bounds.forms

    @abstractmethod
    def expression(self, node: ast.expr, env: Environment) -> None:
        """Look at an expression that is evaluated where this is known of variables."""

    def transfer(self, node: ast.stmt, state: Environment) -> Environment | None:
        match node:
            case ast.Assign():
                self.expression(node.value, state)
                for target in node.targets:
                    self.expression(target, state)
                for target in node.targets:
                    state = self.assign(target, node.value, state)
                return state
            case ast.AugAssign():
                self.expression(node.value, state)
                self.expression(node.target, state)
                return self.assign(node.target, augmented_value(node), state)
            case ast.Expr() | ast.Assert() | ast.Raise() | ast.Return():
                for part in operands(node):
                    self.expression(part, state)
                return None if isinstance(node, ast.Return) else state
        return self.forget(assigned_names(node), state)

    def enter(self, node: Loop, state: Environment) -> Environment:
        if isinstance(node, ast.For):
            self.expression(node.iter, state)
        return state

    def test(self, node: Branching, state: Environment) -> Environment:
        if not isinstance(node, ast.For):
            self.expression(node.test, state)
        return state

    def assume(self, node: Branching, truth: bool, tested: Environment) -> Environment | None:
        if not isinstance(node, ast.For):
            return self.bounds.assume(node.test, truth, tested)
        if not truth:
            return tested
        frame = self.loops[-1]
        return self.enter_for(node, frame.entry, tested, frame.changed)

    def repeat(self, frame: Frame[Environment], end: Environment | None) -> Environment | None:
        if end is None or frame.round == _MAX_ROUNDS:
            return None
        head = self.join(frame.head, end)
        if frame.round >= 1:
            head = self.widen(frame.head, head)
        if head == frame.head:
            return None
        if frame.round + 1 == _MAX_ROUNDS:
            return self.forget(frame.changed, frame.entry)
        return head

    # What statements do

    def forget(self, names: Iterable[str], env: Environment) -> Environment:
        """Drop what is known of variables; keep bounds of others that were known through them."""
        gone = frozenset(names)
        if not gone:
            return env
        kept: list[tuple[str, Linear]] = []
        facts: list[Fact] = []
        for name, form in env.definitions:
            if name not in gone and not self.forms.mentions(form, gone):
                kept.append((name, form))
            elif name not in gone:
                low = self.bounds.lower_of_form(form, env, frozenset())
                if low is not None:
                    facts.append(Fact(Linear.of({name: 1}, -low)))
        facts += [f for f in env.facts if not self.forms.mentions(f.form, gone)]
        return Environment(frozenset(facts), tuple(kept), env.tuples - gone)

    def assign(self, target: ast.expr, value: ast.expr, env: Environment) -> Environment:
        """Return what holds after an assignment."""
        if isinstance(target, ast.Tuple | ast.List):
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                return self._assign_in_parallel(target.elts, value.elts, env)
            is_nonnegative = self.bounds.is_nonnegative_tuple(value, env)
            names = {n.id for n in walk_here(target) if isinstance(n, ast.Name)}
            env = self.forget(names, env)
            if is_nonnegative:
                plain = {e.id for e in target.elts if isinstance(e, ast.Name)}
                env = replace(env, facts=env.facts | {Fact(self.forms.variable(n)) for n in plain})
            return env
        if not isinstance(target, ast.Name) or not self._follows(target.id):
            return env
        return self._assign_name(target.id, value, env)

    def _follows(self, name: str) -> bool:
        return self.bounds.names is None or name in self.bounds.names

    def _assign_in_parallel(
        self, targets: list[ast.expr], values: list[ast.expr], env: Environment
    ) -> Environment:
        lows = [self.bounds.lower(v, env) for v in values]
        names = {n.id for t in targets for n in walk_here(t) if isinstance(n, ast.Name)}
        new = self.forget(names, env)
        facts = {
            Fact(self.forms.variable(t.id) - Linear((), low))
            for t, low in zip(targets, lows, strict=True)
            if isinstance(t, ast.Name) and low is not None
        }
        return replace(new, facts=new.facts | facts)

    def _assign_name(self, name: str, value: ast.expr, env: Environment) -> Environment:
        variable = self.forms.variable(name)
        form = self.forms.form_of(value)
        is_tuple = self.bounds.is_nonnegative_tuple(value, env)
        if (
            form is not None
            and abs(form.factor(name)) == 1
            and self.forms.only_as_itself(form, name)
        ):
            shifted = self._shift(name, form, env)
            return replace(shifted, tuples=shifted.tuples - {name})
        low = self.bounds.lower(value, env)
        extra: set[Fact] = set()
        if low is not None:
            extra.add(Fact(variable - Linear((), low)))
        call = self.forms.integers.called(value.func) if isinstance(value, ast.Call) else None
        if call in ("min", "max") and isinstance(value, ast.Call) and len(value.args) > 1:
            for argument in value.args:
                other = self.forms.form_of(argument)
                if other is not None and not self.forms.mentions(other, frozenset((name,))):
                    difference = variable - other if call == "max" else other - variable
                    # A NaN among them would make it false.
                    extra.add(Fact(difference, needs_integers=True))
        new = self.forget((name,), env)
        definitions = new.definitions
        if form is not None and not self.forms.mentions(form, frozenset((name,))):
            definitions = (*definitions, (name, form))
        tuples = new.tuples | {name} if is_tuple else new.tuples
        return Environment(new.facts | extra, definitions, tuples)

    def _shift(self, name: str, form: Linear, env: Environment) -> Environment:
        """Rewrite what is known, after ``x = x + form``, in terms of the new value."""
        factor = form.factor(name)
        rest = form - Linear.of({name: factor})
        variable = self.forms.variable(name)
        # new = factor * old + rest, so old = factor * (new - rest), as factor is 1 or -1.
        old = (variable - rest).scale(factor)
        gone = frozenset((name,))
        facts: set[Fact] = set()
        for fact in env.facts:
            if not self.forms.mentions(fact.form, gone):
                facts.add(fact)
            elif self.forms.only_as_itself(fact.form, name):
                facts.add(replace(fact, form=fact.form.substitute(name, old)))
        low = self.bounds.lower_of_form(form, env, frozenset())
        if low is not None:
            facts.add(Fact(variable - Linear((), low)))
        definitions: list[tuple[str, Linear]] = []
        for defined, value in env.definitions:
            if defined == name:
                difference = variable - (value.scale(factor) + rest)
                facts.add(Fact(difference))
                facts.add(Fact(difference.scale(-1)))
            elif not self.forms.mentions(value, gone):
                definitions.append((defined, value))
            elif self.forms.only_as_itself(value, name):
                definitions.append((defined, value.substitute(name, old)))
        return Environment(frozenset(facts), tuple(definitions), env.tuples)

    def enter_for(
        self, node: ast.For, entry: Environment, head: Environment, changed: set[str]
    ) -> Environment:
        """Return what holds at the start of each round of a ``for``."""
        names = {n.id for n in walk_here(node.target) if isinstance(n, ast.Name)}
        env = self.forget(names, head)
        call = node.iter
        if not isinstance(call, ast.Call) or self.forms.integers.called(call.func) != "range":
            return env
        if not isinstance(node.target, ast.Name) or call.keywords or not 1 <= len(call.args) <= 3:
            return env
        if not self._follows(node.target.id):
            return env
        first: ast.expr = call.args[0] if len(call.args) > 1 else ast.Constant(0)
        stop = call.args[1] if len(call.args) > 1 else call.args[0]
        step: ast.expr = call.args[2] if len(call.args) > 2 else ast.Constant(1)
        variable = self.forms.variable(node.target.id)
        gone = frozenset(changed)
        facts: set[Fact] = set()
        low_step = self.bounds.lower(step, entry)
        step_form = self.forms.form_of(step)
        is_down = step_form is not None and not step_form.terms and step_form.constant < 0
        if not is_down and (low_step is None or low_step < 0):
            return env
        # The bounds of a range are integers, or Numba refuses it.
        low_end, high_end = (stop, first) if is_down else (first, stop)
        integers = self.bounds.names_made_integer(low_end, entry)
        low = self.bounds.lower(low_end, entry, integers)
        if low is not None:
            facts.add(Fact(variable - Linear((), low + is_down)))
        for end, is_low in ((low_end, True), (high_end, False)):
            form = self.forms.form_of(end)
            if form is not None and not self.forms.mentions(form, gone):
                difference = variable - form if is_low else form - variable
                facts.add(Fact(difference, is_strict=is_low == is_down))
        return replace(env, facts=env.facts | facts)

    # Where ways meet

    def join(self, one: Environment, other: Environment) -> Environment:
        """Return what holds on both of two ways."""
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
            facts |= self._weaker(self.forms.variable(name), one, other)
        return Environment(frozenset(facts), definitions, one.tuples & other.tuples)

    def _weaker(self, form: Linear, one: Environment, other: Environment) -> set[Fact]:
        found = []
        for env in (one, other):
            low = self.bounds.lower_of_form(form, env, frozenset())
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
