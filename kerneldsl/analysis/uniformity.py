"""Find which values all threads of a scope share, and which barriers all of them reach.

A domain of :mod:`kerneldsl.analysis.dataflow` over the lattice of
:mod:`kerneldsl.analysis.divergence`. A value is as varying as what it is computed from
(:mod:`kerneldsl.analysis.uniform_values`). A variable that is assigned under a varying condition
varies after it; a loop that threads leave at different times makes its variables vary after it, and
its body a varying place. An early ``return`` does not: threads that have left the kernel are not
waited for. A device function is interpreted for each call, with what is known of its arguments.

References
----------
Karrenberg and Hack, "Improving Performance of OpenCL on CPUs", CC 2012 (divergence analysis);
CUDA C++ Programming Guide, section "Synchronization Functions".
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping

from kerneldsl.analysis.aliases import Root
from kerneldsl.analysis.dataflow import Branching, Dataflow, Frame, Loop
from kerneldsl.analysis.divergence import (
    Divergence,
    Environment,
    Fact,
    Form,
    Uniformity,
    Value,
    join,
    join_values,
    level_of,
    merge,
)
from kerneldsl.analysis.effects import Accesses
from kerneldsl.analysis.expressions import assigned_names, operands
from kerneldsl.analysis.intervals import Intervals
from kerneldsl.analysis.library_names import name_of_function
from kerneldsl.analysis.traits import BarrierProblem
from kerneldsl.analysis.uniform_memory import CalleeMemory, KernelMemory, Memory
from kerneldsl.analysis.uniform_values import COUNTING_FUNCTIONS, ExpressionRules
from kerneldsl.frontend.syntax import load
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Scope
from kerneldsl.language.reserved import RESERVED_PREFIX
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["UniformityResult", "analyze_uniformity", "barrier_problems"]


@dataclass(frozen=True, slots=True, eq=False)
class UniformityResult:
    """Results of the uniformity analysis of one kernel."""

    #: Level of each expression node, at its worst over every way to it.
    expressions: dict[ast.AST, Uniformity]
    #: Level of the control of each statement node: UNIFORM where all threads that are still in the
    #: kernel run it together.
    places: dict[ast.AST, Uniformity]
    #: Barriers in places that are not uniform.
    problems: list[BarrierProblem]

    def is_uniform(self, node: ast.AST) -> bool:
        """Return whether an expression has one value in the scope, in a place all its threads run.

        Of an array that is its place in memory and its shape, not what its elements are.
        """
        return self.expressions.get(node, Uniformity.VARYING) is Uniformity.UNIFORM

    def is_uniform_place(self, node: ast.AST) -> bool:
        """Return whether all threads that are still in the kernel run a statement together."""
        return self.places.get(node, Uniformity.VARYING) is Uniformity.UNIFORM


def analyze_uniformity(
    unit: FunctionUnit,
    *,
    arguments_may_overlap: bool = False,
    tuples: Collection[str] = (),
    varying_names: Iterable[str] = (),
    declared: Mapping[str, Root] | None = None,
    scope: Scope = Scope.BLOCK,
) -> UniformityResult:
    """Analyse a kernel.

    Block-level functions of the unit are inlined. `tuples` are the parameters that are tuples. In a
    tree whose ids were replaced already, `varying_names` stand for the thread's own index, and
    `declared` are the variables that hold shared and local arrays, with their memory. The scope
    between whose threads values are compared is the block, the warp or the grid.
    """
    accesses = Accesses(unit, declared)
    memory = KernelMemory(
        accesses,
        Intervals(unit, accesses, max(scope, Scope.BLOCK)),
        arguments_may_overlap=arguments_may_overlap,
        scope=scope,
    )
    return _interpret(unit, memory, tuples, varying_names, declared or (), scope)


def barrier_problems(
    unit: FunctionUnit, tuples: Collection[str]
) -> tuple[tuple[BarrierProblem, ...], tuple[BarrierProblem, ...]]:
    """Find the barriers that not every thread is known to reach.

    They are reported for launches in which no two array arguments are the same memory, and for
    those in which any two may be.
    """
    accesses = Accesses(unit)
    intervals = Intervals(unit, accesses)

    def problems(*, may_overlap: bool) -> tuple[BarrierProblem, ...]:
        memory = KernelMemory(accesses, intervals, arguments_may_overlap=may_overlap)
        return tuple(_interpret(unit, memory, tuples).problems)

    overlapping = problems(may_overlap=True)
    # Where arrays are known to be apart, no value varies more.
    return (problems(may_overlap=False) if overlapping else ()), overlapping


def _interpret(
    unit: FunctionUnit,
    memory: KernelMemory,
    tuples: Collection[str],
    varying_names: Iterable[str] = (),
    array_names: Collection[str] = (),
    scope: Scope = Scope.BLOCK,
) -> UniformityResult:
    analysis = _Analysis(unit, memory, array_names, scope)
    environment = {
        name: Value(form=Form.OTHER if name in tuples else Form.ARRAY) for name in unit.parameters
    }
    for name in varying_names:
        what = f"`{name}` is the thread's own index"
        fact = Divergence(Uniformity.VARYING, what, unit.locate(unit.tree))
        environment[name] = Value(fact, form=Form.NUMBERS)
    analysis.block(unit.tree.body, environment)
    problems = [
        BarrierProblem(
            unit.locate(node),
            divergence.text,
            divergence.chain(),
            divergence.level is Uniformity.VARYING,
            analysis.remedies.get(node),
        )
        for node, divergence in analysis.barriers.items()
    ]
    return UniformityResult(analysis.levels, analysis.places, problems)


class _Exits:
    """Exits of a loop, statements that skip the rest of its body, and the variables there.

    `control` says how the way to the loop varies.
    """

    def __init__(self, control: Fact) -> None:
        self.control = control
        self.breaks: Fact = None
        self.continues: Fact = None
        self.at_break: Environment = {}
        self.at_continue: Environment = {}
        #: How varying :attr:`breaks` was when this round began.
        self.known = Uniformity.UNIFORM


class _Analysis(ExpressionRules, Dataflow[Environment]):
    """Interprets the statements of one function; a statement changes the environment in place."""

    def __init__(
        self, unit: FunctionUnit, memory: Memory, array_names: Collection[str], scope: Scope
    ) -> None:
        ExpressionRules.__init__(self, unit, memory, array_names, scope)
        Dataflow.__init__(self)
        self.places: dict[ast.AST, Uniformity] = {}
        self.exits: dict[ast.AST, _Exits] = {}
        #: How the condition of each branch and loop varied when it was last tested.
        self.tests: dict[ast.AST, Fact] = {}
        #: What is returned so far; ``None`` before the first ``return`` with a value.
        self.returned: Value | None = None
        self._results: dict[object, Value] = {}

    # -- statements ---------------------------------------------------------------------------

    def statement(self, node: ast.stmt, state: Environment) -> Environment | None:
        control = self.control
        if self.loops:
            exits = self.exits[self.loops[-1].node]
            self.control = join(control, exits.breaks, exits.continues)
        self.places[node] = max(self.places.get(node, Uniformity.UNIFORM), level_of(self.control))
        after = super().statement(node, state)
        self.control = control
        return after

    def transfer(self, node: ast.stmt, state: Environment) -> Environment:
        if isinstance(node, ast.Return):
            self.left = join(self.left, self.control)
        match node:
            case ast.Assign():
                value = self.value(node.value, state)
                for target in node.targets:
                    self.store(target, node.value, value, state, at=node)
            case ast.AugAssign():
                self.augment(node, state)
            case ast.Return(value=ast.expr() as source):
                value = self.value(source, state).chosen_by(self.control)
                known = self.returned
                self.returned = value if known is None else join_values(known, value)
            case _:
                for part in operands(node):
                    self.value(part, state)
        return state

    def store(
        self, target: ast.expr, source: ast.expr, value: Value, env: Environment, *, at: ast.AST
    ) -> None:
        if isinstance(target, ast.Name):
            is_users = target.id in self.unit.spellings or not target.id.startswith(RESERVED_PREFIX)
            if value.worst is not None and is_users:
                what = f"`{self.shown(target.id)}` is assigned `{self.text(source)}`"
                fact = self.because(value.fact, what, source) if value.fact else None
                extent = self.because(value.extent, what, source) if value.extent else None
                value = Value(fact, extent, value.form)
            env[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            self.unpack(target, source, value, env, at)
        else:
            self.value(target, env)

    def unpack(
        self,
        target: ast.Tuple | ast.List,
        source: ast.expr,
        value: Value,
        env: Environment,
        at: ast.AST,
    ) -> None:
        """Assign the items of a value."""
        if isinstance(source, ast.Tuple | ast.List) and len(source.elts) == len(target.elts):
            parts = [(part, self.value(part, env)) for part in source.elts]
        else:
            # Of a tuple, or of an array, which is then read.
            item = Value(self.contents(value, source, at), value.extent, value.form)
            parts = [(source, item)] * len(target.elts)
        for element, (part, known) in zip(target.elts, parts, strict=True):
            self.store(element, part, known, env, at=at)

    def augment(self, node: ast.AugAssign, env: Environment) -> None:
        value = self.value(node.value, env)
        fact = self.contents(value, node.value, node)
        if isinstance(node.target, ast.Name):
            before = ast.copy_location(load(node.target.id), node.target)
            known = self.value(before, env)
            fact = join(self.contents(known, node.target, node), fact)
            value = Value(fact, join(known.extent, value.extent), known.form)
        self.store(node.target, node.value, value, env, at=node)

    # -- branches and loops -------------------------------------------------------------------

    def enter(self, node: Loop, state: Environment) -> Environment:
        self.exits[node] = _Exits(self.control)
        return state

    def test(self, node: Branching, state: Environment) -> Environment:
        if isinstance(node, ast.If):
            self.tests[node] = self.condition(node.test, state)
            return state
        exits, body = self.exits[node], dict(state)
        exits.known = level_of(exits.breaks)
        exits.continues = None  # a `continue` skips only the rest of its own iteration
        self.control = exits.control
        if isinstance(node, ast.While):
            self.tests[node] = self.condition(node.test, body)
        else:
            self.tests[node] = self.iteration(node, body)
        return body

    def assume(self, node: Branching, truth: bool, tested: Environment) -> Environment:
        self.control = join(self.control, self._choice(node))
        return dict(tested)

    def _choice(self, node: Branching) -> Fact:
        """Return how it varies between threads which side they take, or when they leave a loop."""
        breaks = None if isinstance(node, ast.If) else self.exits[node].breaks
        return join(self.tests[node], breaks)

    def join(self, one: Environment, two: Environment) -> Environment:
        return merge(one, two)

    def repeat(self, frame: Frame[Environment], end: Environment | None) -> Environment | None:
        assert end is not None
        exits = self.exits[frame.node]
        end = merge(end, exits.at_continue)
        what = "is assigned in a loop with a divergent continue"
        self.choose(frame.changed, end, exits.continues, what, frame.node)
        head = merge(frame.head, end)
        is_same = level_of(exits.breaks) == exits.known and _are_same(frame.head, head)
        return None if is_same else head

    def leave(self, frame: Frame[Environment], tested: Environment) -> Environment:
        # A loop that runs no time leaves its target as it was.
        state = merge(frame.head, self.exits[frame.node].at_break)
        what = "is assigned in a loop with a divergent exit"
        self.choose(frame.changed, state, self._choice(frame.node), what, frame.node)
        return state

    def after(self, node: ast.If, state: Environment | None) -> Environment:
        assert state is not None
        what = "is assigned in a divergent branch"
        fact = self._choice(node)
        if fact is not None:
            self.choose(assigned_names(node), state, fact, what, node)
        return state

    def behind(self, node: ast.Break | ast.Continue, state: Environment) -> Environment:
        exits = self.exits[self.loops[-1].node]
        if isinstance(node, ast.Break):
            exits.breaks = join(exits.breaks, self.control)
            exits.at_break = merge(exits.at_break, state)
        else:
            exits.continues = join(exits.continues, self.control)
            exits.at_continue = merge(exits.at_continue, state)
        return state

    def choose(
        self, names: Iterable[str], env: Environment, fact: Fact, what: str, node: ast.stmt
    ) -> None:
        """Let variables vary as much as the choice between the ways that assign them."""
        for name in names:
            known = env.get(name)
            if fact is None or known is None:
                continue
            cause = self.because(fact, f"`{self.shown(name)}` {what}", node)
            env[name] = known.chosen_by(cause)

    def iteration(self, node: ast.For, env: Environment) -> Fact:
        """Take an item; say how the number of items varies."""
        value = self.value(node.iter, env)
        self.take(node.target, node.iter, value, node, env)
        fact = value.worst
        if fact is None:
            return None
        what = f"the loop over `{self.text(node.iter)}` runs a varying number of times"
        return self.because(fact, what, node.iter)

    def take(
        self, target: ast.expr, source: ast.expr, value: Value, node: ast.For, env: Environment
    ) -> None:
        """Assign an item of what a loop runs over."""
        name = None
        if isinstance(source, ast.Call):
            name = name_of_function(self.memory.accesses.function_of(source))
        if name in ("enumerate", "numpy.ndenumerate", "zip") and isinstance(target, ast.Tuple):
            assert isinstance(source, ast.Call)
            sources = source.args
            targets = target.elts
            if name != "zip":
                sources, targets = source.args[:1], target.elts[1:]
                starts = [self.value(start, env) for start in source.args[1:]]
                shape = value.extent if name == "numpy.ndenumerate" else None
                count = Value(join(shape, *(start.worst for start in starts)), form=Form.NUMBERS)
                self.store(target.elts[0], source, count, env, at=node)
            for element, part in zip(targets, sources, strict=False):
                self.take(element, part, self.value(part, env), node, env)
            return
        form = Form.NUMBERS if name in COUNTING_FUNCTIONS else value.form
        item = Value(self.contents(value, source, node), value.extent, form)
        self.store(target, source, item, env, at=node)

    # -- device functions ---------------------------------------------------------------------

    def called(self, callee: FunctionUnit, node: ast.Call, arguments: list[Value]) -> Value:
        doubts: dict[int, str] = {}
        for position, argument in enumerate(node.args):
            doubt = self.memory.doubt(self.memory.accesses.views(argument), node)
            if doubt is not None:
                doubts[position] = doubt
        if callee.is_plain_numba:
            result = self.plain_result(callee, node, arguments)
        else:
            levels = tuple(argument.levels for argument in arguments)
            key = (node, levels, tuple(doubts.items()))
            known = self._results.get(key)
            result = known or self.result(callee, arguments, doubts)
            self._results[key] = result
        if result.worst is None:
            return result
        cause = self.because(result.worst, f"`{self.text(node)}` returns what varies", node)
        fact = cause if result.fact is not None else None
        return Value(fact, result.extent, result.form)

    def result(self, callee: FunctionUnit, arguments: list[Value], doubts: dict[int, str]) -> Value:
        """Return what a device function returns for these arguments."""
        memory = CalleeMemory(Accesses(callee), doubts)
        analysis = _Analysis(callee, memory, (), self.scope)
        environment = dict(zip(callee.parameters, arguments, strict=True))
        analysis.block(callee.tree.body, environment)
        return analysis.returned or Value()

    def plain_result(self, callee: FunctionUnit, node: ast.Call, arguments: list[Value]) -> Value:
        """Return what a Numba function returns, which may be written in all of Python.

        It uses no intrinsic, and computes from its arguments if all that it calls does.
        """
        fact = self._contents_of_all(node, arguments)
        for unit in callee.reachable():
            inside = _Analysis(unit, CalleeMemory(Accesses(unit), {}), (), self.scope)
            for call in walk_here(unit.tree):
                if isinstance(call, ast.Call) and not inside.is_known(call):
                    what = f"`{self.text(node)}` calls a function that cannot be analyzed"
                    return self.unknown(node, fact, what)
        return Value(fact, fact)


def _are_same(before: Environment, after: Environment) -> bool:
    """Return whether variables vary as they did; most of them are the same values."""
    return len(before) == len(after) and all(
        value is after[name] or value.levels == after[name].levels for name, value in before.items()
    )
