"""Which loads may see a write of their own barrier interval.

A *barrier interval* is what runs between two barriers. Within one, threads run in any order, so a
load at one address gives every thread the same value only if nothing in its interval can write
there. The statements are laid out as a graph; from each load a search runs forwards and backwards
until it meets a barrier, and collects the writes on its way.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from kerneldsl.analysis.effects import array_effects
from kerneldsl.analysis.expressions import base_name, is_extent
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics import Effect

__all__ = ["Roots", "array_roots", "conflicting_loads"]

#: The memory a variable may stand for: a parameter, or the place of a shared or local array.
Roots = frozenset[str]


class _Step:
    """One statement's, or one test's, accesses, or one barrier."""

    def __init__(self) -> None:
        self.is_barrier = False
        self.loads: list[ast.Subscript] = []
        self.stores: set[str] = set()
        self.after: list[_Step] = []
        self.before: list[_Step] = []


def array_roots(unit: FunctionUnit) -> dict[str, Roots]:
    """Map each variable to the memory it may stand for, whatever path was taken."""
    roots: dict[str, set[str]] = {p: {f"parameter:{p}"} for p in unit.parameters}
    changed = True
    while changed:
        changed = False
        for node in ast.walk(unit.tree):
            if isinstance(node, ast.Assign):
                found = _roots_of(node.value, roots, unit)
                for target in node.targets:
                    for name in ast.walk(target):
                        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                            known = roots.setdefault(name.id, set())
                            if not found <= known:
                                known |= found
                                changed = True
    return {name: frozenset(found) for name, found in roots.items()}


def _roots_of(node: ast.expr, roots: dict[str, set[str]], unit: FunctionUnit) -> set[str]:
    use = unit.use_of(node)
    if use is not None:
        kind = use.intrinsic.effect
        if kind & (Effect.ALLOCATE_SHARED | Effect.ALLOCATE_LOCAL):
            assert isinstance(node, ast.Call)
            assert isinstance(node.func, ast.Name)
            if use.static.get("shape") == (0,):
                return {"dynamic shared"}  # every such declaration is the same memory
            return {f"array:{node.func.id}"}
        return set()
    if isinstance(node, ast.Name):
        return set(roots.get(node.id, ()))
    if isinstance(node, ast.IfExp):
        return _roots_of(node.body, roots, unit) | _roots_of(node.orelse, roots, unit)
    if isinstance(node, ast.Tuple | ast.List):
        return set().union(*(_roots_of(e, roots, unit) for e in node.elts), set())
    if isinstance(node, ast.Subscript | ast.Attribute | ast.NamedExpr):
        return _roots_of(node.value, roots, unit)
    if isinstance(node, ast.Call):  # a view made by a function of its arguments
        return set().union(*(_roots_of(a, roots, unit) for a in node.args), set())
    return set()


class _Layout:
    """Lays a unit's statements out as a graph of steps."""

    def __init__(self, unit: FunctionUnit, roots: dict[str, Roots]) -> None:
        self.unit = unit
        self.roots = roots
        self.steps: list[_Step] = []
        self.loops: list[tuple[_Step, _Step]] = []  # (where continue goes, where break goes)
        self.exit = _Step()

    def step(self, *sources: _Step) -> _Step:
        new = _Step()
        self.steps.append(new)
        for source in sources:
            _connect(source, new)
        return new

    def block(self, statements: list[ast.stmt], current: _Step) -> _Step:
        for node in statements:
            current = self.statement(node, current)
        return current

    def statement(self, node: ast.stmt, current: _Step) -> _Step:
        match node:
            case ast.If():
                test = self.access(node.test, current)
                body = self.block(node.body, self.step(test))
                orelse = self.block(node.orelse, self.step(test))
                return self.step(body, orelse)
            case ast.While() | ast.For():
                entry = current if isinstance(node, ast.While) else self.access(node.iter, current)
                head, leave = self.step(entry), self.step()
                test = self.access(node.test, head) if isinstance(node, ast.While) else head
                self.loops.append((head, leave))
                body = self.block(node.body, self.step(test))
                self.loops.pop()
                _connect(body, head)
                _connect(test, leave)
                return leave
            case ast.Break() | ast.Continue():
                head, leave = self.loops[-1]
                _connect(current, leave if isinstance(node, ast.Break) else head)
                return self.step()  # nothing leads here
            case ast.Return():
                _connect(current, self.exit)
                return self.step()
            case _:
                return self.access(node, current)

    def access(self, node: ast.AST, current: _Step) -> _Step:
        """Loads and stores of one simple statement or test; a barrier in it stands between."""
        loads, stores, barrier = self._gather(node)
        if not barrier:
            step = self.step(current)
            step.loads, step.stores = loads, stores
            return step
        before = self.step(current)
        before.loads = loads
        wall = self.step(before)
        wall.is_barrier = True
        after = self.step(wall)
        after.stores = stores
        return after

    def _gather(self, node: ast.AST) -> tuple[list[ast.Subscript], set[str], bool]:
        loads: list[ast.Subscript] = []
        stores: set[str] = set()
        barrier = False
        for inner in ast.walk(node):
            if isinstance(inner, ast.Subscript):
                if is_extent(inner):
                    continue
                if isinstance(inner.ctx, ast.Load):
                    loads.append(inner)
                else:
                    stores |= self.names_of(inner)
            elif isinstance(inner, ast.Call):
                use, callee = self.unit.use_of(inner), self.unit.callee_of(inner)
                if use is not None:
                    barrier = barrier or use.intrinsic.is_barrier
                    if use.intrinsic.effect & Effect.ATOMIC:
                        stores |= self.names_of(inner.args[0])
                elif callee is not None:
                    _, written = array_effects(callee)
                    for position in written:
                        stores |= self.names_of(inner.args[position])
        return loads, stores, barrier

    def names_of(self, node: ast.expr) -> Roots:
        name = base_name(node)
        return self.roots.get(name, frozenset()) if name is not None else frozenset()


def _connect(source: _Step, target: _Step) -> None:
    source.after.append(target)
    target.before.append(source)


def conflicting_loads(
    unit: FunctionUnit, roots: dict[str, Roots], *, arguments_may_overlap: bool
) -> set[ast.Subscript]:
    """Find the loads that a write of their own barrier interval may change.

    Parameters
    ----------
    unit : FunctionUnit
        A kernel whose block-level functions have been inlined.
    roots : dict
        From :func:`array_roots`.
    arguments_may_overlap : bool
        Whether two array arguments may be the same memory.

    Returns
    -------
    set of ast.Subscript
        Nodes of the unit's tree.
    """
    layout = _Layout(unit, roots)
    layout.block(unit.tree.body, layout.step())
    found = set()
    for step in layout.steps:
        if not step.loads:
            continue
        written = set(step.stores)
        written |= _stores_until_barrier(step, lambda s: s.after)
        written |= _stores_until_barrier(step, lambda s: s.before)
        for load in step.loads:
            if _overlap(layout.names_of(load), written, arguments_may_overlap):
                found.add(load)
    return found


def _stores_until_barrier(start: _Step, neighbours: Callable[[_Step], list[_Step]]) -> set[str]:
    stores: set[str] = set()
    seen = {start}
    pending = list(neighbours(start))
    while pending:
        step = pending.pop()
        if step in seen or step.is_barrier:
            continue
        seen.add(step)
        stores |= step.stores
        pending.extend(neighbours(step))
    return stores


def _overlap(read: Iterable[str], written: set[str], arguments_may_overlap: bool) -> bool:
    read = set(read)
    if read & written:
        return True
    if not arguments_may_overlap:
        return False
    return any(r.startswith("parameter:") for r in read) and any(
        w.startswith("parameter:") for w in written
    )
