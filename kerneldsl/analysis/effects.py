"""Which array parameters a function may read and write.

Aliases are followed without regard to order: a variable stands for everything that is assigned to
it anywhere. Device functions are followed by argument position. Where a function is not known, its
arguments count as read and written.

Ranks are not known here. A value such as ``x[i]`` is taken for an element, which an augmented
assignment of the variable that holds it does not write back, where no expression of the function
indexes `x` deeper; otherwise it is a view.
"""

from __future__ import annotations

import ast
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from kerneldsl.analysis.expressions import base_name
from kerneldsl.analysis.library_names import name_of_function, outside_value
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics import Effect, Typing

__all__ = ["array_effects"]

#: A parameter's position, and how many indices lead from the parameter to the value.
_Alias = tuple[int, int]
_MAX_DEPTH = 8

_PLAIN_ATTRIBUTES = frozenset({"shape", "size", "ndim", "dtype", "itemsize", "nbytes", "strides"})
_VIEW_METHODS = frozenset({"reshape", "ravel", "view", "transpose", "squeeze"})
_READING_METHODS = frozenset(
    """
    sum prod min max mean std var any all argmin argmax item copy astype dot cumsum cumprod
    flatten nonzero ptp conj conjugate tolist
    """.split()  # noqa: SIM905 - a list of words is easier to read
)
_WRITING_FUNCTIONS = frozenset(("copyto", "put", "place", "putmask", "fill_diagonal", "shuffle"))


def array_effects(unit: FunctionUnit) -> tuple[frozenset[int], frozenset[int]]:
    """Find the parameters whose arrays may be read, and those whose arrays may be written.

    Parameters
    ----------
    unit : FunctionUnit
        A kernel or device function.

    Returns
    -------
    read, written : frozenset of int
        Positions of parameters. A scalar counts as neither as far as can be seen: a parameter
        counts that is subscripted, or given to a function that may look into it.
    """
    summary = _summarize(unit)
    return frozenset(summary.read), frozenset(summary.written)


class _Summary:
    """What a function does to its parameters."""

    def __init__(self) -> None:
        self.read: set[int] = set()
        self.written: set[int] = set()
        self.depth: dict[int, int] = {}
        self.returned: set[_Alias] = set()


_summaries: WeakKeyDictionary[FunctionUnit, _Summary] = WeakKeyDictionary()


def _summarize(unit: FunctionUnit) -> _Summary:
    known = _summaries.get(unit)
    if known is None:
        known = _Effects(unit).run()
        _summaries[unit] = known
    return known


class _Effects(ast.NodeVisitor):
    """Collects the effects of one function; its aliases first."""

    def __init__(self, unit: FunctionUnit) -> None:
        self._unit = unit
        self._summary = _Summary()
        self._aliases: dict[str, set[_Alias]] = {
            name: {(i, 0)} for i, name in enumerate(unit.parameters)
        }

    def run(self) -> _Summary:
        tree = self._unit.tree
        bindings = list(_bindings(tree))
        changed = True
        while changed:
            changed = False
            for target, value in bindings:
                changed |= self._bind(target, value)
        for node in ast.walk(tree):
            self._measure_depth(node)
        for node in ast.walk(tree):
            self.visit_one(node)
        extra = tree.args.vararg or tree.args.kwarg or tree.args.kwonlyargs
        if extra:  # Numba binds such arguments in ways of its own
            self._summary.read |= set(range(len(self._unit.parameters)))
            self._summary.written |= self._summary.read
        return self._summary

    def _bind(self, target: ast.expr, value: ast.expr | set[_Alias]) -> bool:
        """Let a target stand for a value; say whether that was news."""
        if isinstance(target, ast.Tuple | ast.List):
            elements = value.elts if isinstance(value, ast.Tuple | ast.List) else None
            if elements is not None and len(elements) == len(target.elts):
                pairs = list(zip(target.elts, elements, strict=True))
                return any(self._bind(t, v) for t, v in pairs)
            found = self._alias_of(value) if isinstance(value, ast.expr) else value
            return any(self._bind(t, found) for t in target.elts)
        if not isinstance(target, ast.Name):
            return False
        found = self._alias_of(value) if isinstance(value, ast.expr) else value
        known = self._aliases.setdefault(target.id, set())
        if found <= known:
            return False
        known |= found
        return True

    def _alias_of(self, node: ast.expr) -> set[_Alias]:
        """The parameters' memory that a value may be a part of."""
        match node:
            case ast.Name():
                return set(self._aliases.get(node.id, ()))
            case ast.Subscript():
                indices = _count_indices(node.slice)
                return {(p, min(d + indices, _MAX_DEPTH)) for p, d in self._alias_of(node.value)}
            case ast.Attribute():
                if node.attr in _PLAIN_ATTRIBUTES:
                    return set()
                return self._alias_of(node.value)
            case ast.IfExp():
                return self._alias_of(node.body) | self._alias_of(node.orelse)
            case ast.BoolOp():
                return set().union(*(self._alias_of(v) for v in node.values))
            case ast.Tuple() | ast.List():
                return set().union(*(self._alias_of(e) for e in node.elts))
            case ast.Starred() | ast.NamedExpr():
                return self._alias_of(node.value)
            case ast.Call():
                return self._alias_of_call(node)
        return set()

    def _alias_of_call(self, node: ast.Call) -> set[_Alias]:
        use = self._unit.use_of(node)
        if use is not None:
            return self._alias_of(node.args[0]) if use.intrinsic.typing is Typing.VALUE else set()
        callee = self._unit.callee_of(node)
        if callee is not None and not _is_flexible(node, callee):
            found: set[_Alias] = set()
            for position, depth in _summarize(callee).returned:
                for p, d in self._alias_of(node.args[position]):
                    found.add((p, min(d + depth, _MAX_DEPTH)))
            return found
        if callee is None and _makes_scalars(self._function_of(node)):
            return set()
        inputs = [*node.args, *(k.value for k in node.keywords)]
        if isinstance(node.func, ast.Attribute):
            if node.func.attr in _READING_METHODS:
                return set()
            inputs.append(node.func.value)
        return set().union(*(self._alias_of(a) for a in inputs))

    def _measure_depth(self, node: ast.AST) -> None:
        """Note how deep each parameter is indexed anywhere."""
        found: set[_Alias] = set()
        if isinstance(node, ast.Subscript):
            found = self._alias_of(node)
        elif isinstance(node, ast.Call):
            callee = self._unit.callee_of(node)
            if callee is not None and not _is_flexible(node, callee):
                for position, depth in _summarize(callee).depth.items():
                    found |= {(p, d + depth) for p, d in self._alias_of(node.args[position])}
            use = self._unit.use_of(node)
            if use is not None and Effect.ATOMIC in use.intrinsic.effect:
                indices = _count_indices(node.args[1])
                found = {(p, d + indices) for p, d in self._alias_of(node.args[0])}
        for position, depth in found:
            known = self._summary.depth.get(position, 0)
            self._summary.depth[position] = max(known, min(depth, _MAX_DEPTH))

    def _views(self, node: ast.expr) -> set[int]:
        """Positions whose memory a value may be a view of; elements are no views."""
        depth = self._summary.depth
        return {p for p, d in self._alias_of(node) if d == 0 or d < depth.get(p, 0)}

    def _positions(self, node: ast.expr) -> set[int]:
        return {p for p, _ in self._alias_of(node)}

    def visit_one(self, node: ast.AST) -> None:
        """Record what one node does, apart from the nodes below it."""
        summary = self._summary
        match node:
            case ast.Subscript(ctx=ast.Load()):
                summary.read |= self._positions(node.value)
            case ast.Subscript():
                summary.written |= self._positions(node.value)
            case ast.AugAssign(target=ast.Subscript() as target):
                summary.read |= self._positions(target.value)
            case ast.AugAssign(target=ast.Name() as target):
                subscripted = {p for p in self._views(target) if summary.depth.get(p, 0) > 0}
                summary.read |= subscripted
                summary.written |= subscripted
            case ast.Attribute(ctx=ast.Store()):
                summary.written |= self._positions(node.value)
            case ast.For() | ast.comprehension():
                summary.read |= self._positions(node.iter)
            case ast.Return(value=ast.expr() as value):
                summary.returned |= self._alias_of(value)
            case ast.Call():
                self._call(node)
            case ast.Lambda() | ast.FunctionDef() if node is not self._unit.tree:
                for inner in ast.walk(node):  # a closure of a Numba function
                    if isinstance(inner, ast.Name):
                        summary.read |= self._positions(inner)
                        summary.written |= self._positions(inner)

    def _call(self, node: ast.Call) -> None:
        summary = self._summary
        arguments = [*node.args, *(k.value for k in node.keywords)]
        use = self._unit.use_of(node)
        if use is not None:
            if Effect.ATOMIC in use.intrinsic.effect:
                summary.read |= self._positions(node.args[0])
                summary.written |= self._positions(node.args[0])
            return
        callee = self._unit.callee_of(node)
        if callee is not None and not _is_flexible(node, callee):
            effects = _summarize(callee)
            for position in effects.read:
                summary.read |= self._positions(node.args[position])
            for position in effects.written:
                summary.written |= self._positions(node.args[position])
            return
        function = self._function_of(node) if callee is None else None
        if isinstance(node.func, ast.Attribute):
            self._method(node.func)
        if _looks_at_scalars(function):
            return
        for i, argument in enumerate(arguments):
            views = self._views(argument)
            summary.read |= views
            if not _only_reads(function, i, node):
                summary.written |= views

    def _method(self, method: ast.Attribute) -> None:
        views = self._views(method.value)
        if method.attr in _VIEW_METHODS:
            return
        self._summary.read |= views
        if method.attr not in _READING_METHODS:
            self._summary.written |= views

    def _function_of(self, node: ast.Call) -> Any:
        """The object that is called, or ``None`` where it is made at run time."""
        if base_name(node.func) in self._aliases:
            return None
        return outside_value(node.func, self._unit.namespace)


def _bindings(tree: ast.FunctionDef) -> list[tuple[ast.expr, ast.expr]]:
    """Every target with the value that it may be bound to."""
    found: list[tuple[ast.expr, ast.expr]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            found += [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.NamedExpr | ast.AnnAssign) and node.value is not None:
            found.append((node.target, node.value))
        elif isinstance(node, ast.For | ast.comprehension):
            # An item of an array is reached by one index; enumerate and zip pass arrays on.
            item = ast.Subscript(node.iter, ast.Constant(0), ast.Load())
            found.append((node.target, item))
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            found.append((node.optional_vars, node.context_expr))
    return found


def _count_indices(index: ast.expr) -> int:
    """How many axes an index takes away at least; a slice takes none."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    count = 0
    for part in parts:
        is_new_axis = isinstance(part, ast.Constant) and (part.value is None or part.value is ...)
        count += not (isinstance(part, ast.Slice) or is_new_axis)
    return count


def _is_flexible(node: ast.Call, callee: FunctionUnit) -> bool:
    """Whether arguments and parameters cannot be paired by position."""
    return (
        bool(node.keywords)
        or len(node.args) != len(callee.parameters)
        or any(isinstance(a, ast.Starred) for a in node.args)
    )


_SCALAR_BUILTINS = (
    abs, bool, complex, divmod, float, int, len, max, min, pow, print, range, round
)  # fmt: skip


def _looks_at_scalars(function: Any) -> bool:
    """Whether a function cannot look into an array that it is given."""
    return (
        any(function is known for known in _SCALAR_BUILTINS)
        or (name_of_function(function) or "").startswith(("math.", "cmath."))
        or (isinstance(function, type) and issubclass(function, np.generic | BaseException))
    )


def _makes_scalars(function: Any) -> bool:
    """Whether a result is never a view of an argument; an element counts as none."""
    return isinstance(function, np.ufunc) or (
        _looks_at_scalars(function) and function not in (max, min)
    )


def _only_reads(function: Any, position: int, node: ast.Call) -> bool:
    """Whether a function of NumPy's or a builtin leaves an argument as it is."""
    if isinstance(function, np.ufunc):
        return position < function.nin and position < len(node.args)
    module, _, name = (name_of_function(function) or "").rpartition(".")
    if not module:
        return bool(name)  # a builtin
    is_numpy = module.partition(".")[0] == "numpy"
    has_out = any(k.arg == "out" for k in node.keywords)
    return is_numpy and not has_out and name not in _WRITING_FUNCTIONS
