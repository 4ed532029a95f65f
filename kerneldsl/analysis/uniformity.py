"""Which values are the same in every thread of a block, and which barriers every thread reaches.

An abstract interpretation of the kernel's statements over the lattice
UNIFORM < UNPROVEN < VARYING (see :class:`~kerneldsl.language.intrinsics.Uniformity`). A value is as
varying as what it is computed from; a variable that is assigned under a varying condition varies
after it; a loop that threads leave at different times makes its variables vary after it, and its
body a varying place. An early ``return`` does not: threads that have left the kernel are not
waited for.

Every value that is not uniform knows its cause, so that a refusal can tell how it came to vary.

References
----------
Karrenberg and Hack, "Improving Performance of OpenCL on CPUs", CC 2012 (divergence analysis);
CUDA C++ Programming Guide, section "Synchronization Functions".
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kerneldsl.analysis.expressions import assigned_names, base_name, is_extent, text_of
from kerneldsl.analysis.intervals import Roots, array_roots, conflicting_loads
from kerneldsl.analysis.traits import BarrierProblem
from kerneldsl.errors import SourceLocation
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics import Effect, Uniformity

__all__ = ["Divergence", "UniformityResult", "analyze_uniformity"]


@dataclass(frozen=True, slots=True, eq=False)
class Divergence:
    """Why a value, or the way to a place, is not uniform.

    Parameters
    ----------
    level : Uniformity
        UNPROVEN or VARYING.
    text : str
        A sentence without its end, such as "`i` is assigned `tid + 1`".
    where : SourceLocation
        Where that stands.
    cause : Divergence or None
        What it comes from.
    """

    level: Uniformity
    text: str
    where: SourceLocation
    cause: Divergence | None = None

    def chain(self) -> tuple[str, ...]:
        """The sentences from here back to the source, each with its place."""
        lines: list[str] = []
        link: Divergence | None = self
        while link is not None and len(lines) < 8:
            lines.append(f"{link.text}  ({link.where})")
            link = link.cause
        return tuple(lines)


#: ``None`` stands for a uniform value.
_Fact = Divergence | None
_Environment = dict[str, _Fact]


def _join(*facts: _Fact) -> _Fact:
    """The most varying of several facts; the first of equals, so that iteration settles."""
    worst: _Fact = None
    for fact in facts:
        if fact is not None and (worst is None or fact.level > worst.level):
            worst = fact
    return worst


def _level(fact: _Fact) -> Uniformity:
    return Uniformity.UNIFORM if fact is None else fact.level


class UniformityResult:
    """What was found of one kernel.

    Attributes
    ----------
    expressions : dict
        Level of each expression node, at its worst over every way to it.
    places : dict
        Level of the control of each statement node: UNIFORM where all threads that are still in
        the kernel run it together.
    problems : list of BarrierProblem
        Barriers in places that are not uniform.
    """

    def __init__(self) -> None:
        self.expressions: dict[ast.AST, Uniformity] = {}
        self.places: dict[ast.AST, Uniformity] = {}
        self.problems: list[BarrierProblem] = []

    def is_uniform(self, node: ast.AST) -> bool:
        """Whether an expression has one value in the block, in a place all threads run."""
        return self.expressions.get(node, Uniformity.VARYING) is Uniformity.UNIFORM

    def is_uniform_place(self, node: ast.AST) -> bool:
        """Whether all threads that are still in the kernel run a statement together."""
        return self.places.get(node, Uniformity.VARYING) is Uniformity.UNIFORM


def analyze_uniformity(
    unit: FunctionUnit,
    *,
    arguments_may_overlap: bool = False,
    varying_names: Iterable[str] = (),
) -> UniformityResult:
    """Analyse a kernel.

    Parameters
    ----------
    unit : FunctionUnit
        With its block-level functions inlined.
    arguments_may_overlap : bool
        Whether two array arguments may be the same memory.
    varying_names : iterable of str
        Names that stand for the thread's own index, in a tree whose ids were replaced already.
    """
    return _Analysis(unit, arguments_may_overlap, tuple(varying_names)).run()


class _Loop:
    """What leaves a loop early, or skips the rest of its body."""

    def __init__(self) -> None:
        self.breaks: _Fact = None
        self.continues: _Fact = None


class _Analysis:
    def __init__(
        self, unit: FunctionUnit, arguments_may_overlap: bool, varying_names: tuple[str, ...]
    ) -> None:
        self.unit = unit
        self.varying_names = varying_names
        self.roots: dict[str, Roots] = array_roots(unit)
        self.conflicts = conflicting_loads(
            unit, self.roots, arguments_may_overlap=arguments_may_overlap
        )
        self.local_arrays = {
            name for name, use in unit.uses.items() if use.intrinsic.effect & Effect.ALLOCATE_LOCAL
        }
        self.result = UniformityResult()
        self.loops: list[_Loop] = []
        self.barriers: dict[ast.AST, Divergence] = {}

    def run(self) -> UniformityResult:
        environment: _Environment = dict.fromkeys(self.unit.parameters)
        for name in self.varying_names:
            what = f"`{name}` is the thread's own index"
            where = self.unit.locate(self.unit.tree)
            environment[name] = Divergence(Uniformity.VARYING, what, where)
        self.block(self.unit.tree.body, environment, None)
        for node, divergence in self.barriers.items():
            self.result.problems.append(
                BarrierProblem(
                    self.unit.locate(node),
                    divergence.text,
                    divergence.chain(),
                    divergence.level is Uniformity.VARYING,
                )
            )
        return self.result

    # -- statements ---------------------------------------------------------------------------

    def block(self, statements: Iterable[ast.stmt], env: _Environment, control: _Fact) -> None:
        for node in statements:
            here = control
            if self.loops:
                here = _join(control, self.loops[-1].breaks, self.loops[-1].continues)
            self._place(node, here)
            self.statement(node, env, here)

    def _place(self, node: ast.stmt, control: _Fact) -> None:
        places = self.result.places
        places[node] = max(places.get(node, Uniformity.UNIFORM), _level(control))

    def statement(self, node: ast.stmt, env: _Environment, control: _Fact) -> None:
        match node:
            case ast.Assign():
                fact = self.expression(node.value, env, control)
                for target in node.targets:
                    self.store(target, node.value, fact, env, control)
            case ast.AnnAssign(value=ast.expr() as value):
                fact = self.expression(value, env, control)
                self.store(node.target, value, fact, env, control)
            case ast.AugAssign():
                fact = self.expression(node.value, env, control)
                if isinstance(node.target, ast.Name):
                    fact = _join(env.get(node.target.id), fact)
                self.store(node.target, node.value, fact, env, control)
            case ast.If():
                self.branch(node, env, control)
            case ast.While() | ast.For():
                self.loop(node, env, control)
            case ast.Break():
                self.loops[-1].breaks = _join(self.loops[-1].breaks, control)
            case ast.Continue():
                self.loops[-1].continues = _join(self.loops[-1].continues, control)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.expression(child, env, control)

    def store(
        self, target: ast.expr, value: ast.expr, fact: _Fact, env: _Environment, control: _Fact
    ) -> None:
        if isinstance(target, ast.Name):
            if fact is not None:
                what = f"`{self.shown(target.id)}` is assigned `{self.text(value)}`"
                fact = Divergence(fact.level, what, self.unit.locate(value), fact)
            env[target.id] = fact
        elif isinstance(target, ast.Tuple | ast.List):
            parts: list[_Fact] = [fact] * len(target.elts)
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                parts = [self.expression(e, env, control) for e in value.elts]
            for element, part in zip(target.elts, parts, strict=True):
                self.store(element, value, part, env, control)
        else:
            self.expression(target, env, control)

    def branch(self, node: ast.If, env: _Environment, control: _Fact) -> None:
        test = self.condition(node.test, env, control)
        inner = _join(control, test)
        then_env, else_env = dict(env), dict(env)
        self.block(node.body, then_env, inner)
        self.block(node.orelse, else_env, inner)
        self.merge(env, then_env, else_env, node, test)

    def merge(
        self, env: _Environment, one: _Environment, two: _Environment, node: ast.stmt, test: _Fact
    ) -> None:
        """Join two ways; what either assigned varies as much as the choice between them."""
        stored = assigned_names(node)
        env.clear()
        for name in one.keys() | two.keys():
            fact = _join(one.get(name), two.get(name))
            if name in stored and _level(test) > _level(fact):
                assert test is not None
                what = f"`{self.shown(name)}` is assigned on one of two ways"
                fact = Divergence(test.level, what, self.unit.locate(node), test)
            env[name] = fact

    def loop(self, node: ast.While | ast.For, env: _Environment, control: _Fact) -> None:
        stored = assigned_names(node)
        frame = _Loop()
        while True:
            before = {name: _level(fact) for name, fact in env.items()}
            levels = (_level(frame.breaks), _level(frame.continues))
            if isinstance(node, ast.While):
                test = self.condition(node.test, env, control)
            else:
                test = self.iteration(node, env, control)
            leaving = _join(test, frame.breaks)
            body_env = dict(env)
            self.loops.append(frame)
            # A `continue` skips only the rest of its own iteration.
            frame.continues = None
            self.block(node.body, body_env, _join(control, leaving))
            self.loops.pop()
            skipped = frame.continues
            for name, at_end in body_env.items():
                fact = _join(env.get(name), at_end)
                if name in stored and _level(skipped) > _level(fact):
                    fact = skipped
                env[name] = fact
            after = {name: _level(fact) for name, fact in env.items()}
            if after == before and levels == (_level(frame.breaks), _level(frame.continues)):
                break
        leaving = _join(test, frame.breaks)
        if leaving is not None:
            for name in stored:
                if _level(leaving) > _level(env.get(name)):
                    what = f"`{self.shown(name)}` is assigned in a loop that threads leave apart"
                    env[name] = Divergence(leaving.level, what, self.unit.locate(node), leaving)
        self.block(node.orelse, env, _join(control, leaving))

    def iteration(self, node: ast.For, env: _Environment, control: _Fact) -> _Fact:
        fact = self.expression(node.iter, env, control)
        self.store(node.target, node.iter, fact, env, control)
        if fact is None:
            return None
        what = f"the loop over `{self.text(node.iter)}` runs a varying number of times"
        return Divergence(fact.level, what, self.unit.locate(node.iter), fact)

    def condition(self, test: ast.expr, env: _Environment, control: _Fact) -> _Fact:
        fact = self.expression(test, env, control)
        if fact is None:
            return None
        verb = "varies" if fact.level is Uniformity.VARYING else "is not known to be uniform"
        what = f"the condition `{self.text(test)}` {verb}"
        return Divergence(fact.level, what, self.unit.locate(test), fact)

    # -- expressions --------------------------------------------------------------------------

    def expression(self, node: ast.expr, env: _Environment, control: _Fact) -> _Fact:
        fact = self._expression(node, env, control)
        levels = self.result.expressions
        levels[node] = max(levels.get(node, Uniformity.UNIFORM), _level(fact))
        return fact

    def _expression(self, node: ast.expr, env: _Environment, control: _Fact) -> _Fact:
        match node:
            case ast.Name(ctx=ast.Load()):
                return env.get(node.id)
            case ast.Subscript():
                return self.subscript(node, env, control)
            case ast.Call():
                return self.call(node, env, control)
            case ast.BoolOp():
                # What stands behind a varying operand is evaluated by some threads only.
                facts: list[_Fact] = []
                for value in node.values:
                    facts.append(self.condition(value, env, _join(control, *facts)))
                return _join(*facts)
            case ast.IfExp():
                test = self.condition(node.test, env, control)
                inner = _join(control, test)
                return _join(
                    test,
                    self.expression(node.body, env, inner),
                    self.expression(node.orelse, env, inner),
                )
            case ast.NamedExpr():
                fact = self.expression(node.value, env, control)
                self.store(node.target, node.value, fact, env, control)
                return fact
            case ast.Attribute(value=ast.Name(), attr="shape" | "size" | "ndim" | "strides"):
                return None  # of an array that is itself chosen by a varying value: see subscript
            case _:
                return _join(*(self.expression(c, env, control) for c in _children(node)))

    def subscript(self, node: ast.Subscript, env: _Environment, control: _Fact) -> _Fact:
        address = self.expression(node.slice, env, control)
        base = self.expression(node.value, env, control)
        if not isinstance(node.ctx, ast.Load):
            return _join(address, base)
        name = base_name(node)
        if name is None or not self.roots.get(name) or is_extent(node):
            return _join(address, base)  # an element of a tuple, of a shape or of a constant
        worst = _join(address, base)
        here = self.unit.locate(node)
        if worst is not None:
            what = f"`{self.text(node)}` is loaded from a varying place"
            return Divergence(Uniformity.UNPROVEN, what, here, worst)
        if any(root.removeprefix("array:") in self.local_arrays for root in self.roots[name]):
            what = f"`{self.text(node)}` is loaded from a thread's own array"
            return Divergence(Uniformity.UNPROVEN, what, here)
        if node in self.conflicts:
            what = (
                f"`{self.text(node)}` is loaded from memory that may be written "
                "before the next or after the last barrier"
            )
            return Divergence(Uniformity.UNPROVEN, what, here)
        return None

    def call(self, node: ast.Call, env: _Environment, control: _Fact) -> _Fact:
        arguments = [self.expression(a, env, control) for a in node.args]
        arguments += [self.expression(k.value, env, control) for k in node.keywords]
        use = self.unit.use_of(node)
        if use is not None:
            intrinsic = use.intrinsic
            if intrinsic.is_barrier:
                if control is not None:
                    known = self.barriers.get(node)
                    if known is None or known.level < control.level:
                        self.barriers[node] = control
                return None
            if intrinsic.name == "uniform":
                return None
            if intrinsic.uniformity is Uniformity.UNIFORM:
                return _join(*arguments)
            if intrinsic.effect & Effect.ALLOCATE_LOCAL:
                return None  # every thread has its own, under the same name
            meaning = (
                "is the thread's own index"
                if intrinsic.uniformity is Uniformity.VARYING
                else "gives each thread a value of its own"
            )
            what = f"`{self.text(node)}` {meaning}"
            return Divergence(intrinsic.uniformity, what, self.unit.locate(node))
        callee = self.unit.callee_of(node)
        if callee is not None:
            return _join(*arguments, self.callee_fact(callee, node))
        return _join(*arguments)

    def callee_fact(self, callee: FunctionUnit, node: ast.Call) -> _Fact:
        """What a device function adds to its arguments: own ids, loads, atomics."""
        worst = Uniformity.UNIFORM
        for unit in callee.reachable():
            for use in unit.uses.values():
                if not use.intrinsic.effect & Effect.ALLOCATE_LOCAL:
                    worst = max(worst, use.intrinsic.uniformity)
            if any(isinstance(n, ast.Subscript) for n in ast.walk(unit.tree)):
                worst = max(worst, Uniformity.UNPROVEN)
        if worst is Uniformity.UNIFORM:
            return None
        what = f"`{self.text(node)}` calls a function that reads memory or the thread's index"
        return Divergence(worst, what, self.unit.locate(node))

    # -- words --------------------------------------------------------------------------------

    def text(self, node: ast.AST) -> str:
        return text_of(node, self.unit.locate(node).line)

    def shown(self, name: str) -> str:
        """Name a variable as the user called it."""
        return self.unit.spellings.get(name, name)


def _children(node: ast.AST) -> Iterator[ast.expr]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.keyword):
            yield child.value
