"""Which memory a function's expressions stand for, and what they may read and write.

Aliases are followed without regard to order: a variable stands for everything that is assigned to
it anywhere. Device functions are followed by argument position. Where a function is not known, its
arguments count as read and written.

Ranks are not known here. A value such as ``x[i]`` is taken for an element, which an augmented
assignment of the variable that holds it does not write back, where no expression of the function
indexes `x` deeper; otherwise it is a view. To loop over a value, to unpack it, and to give it to
a function or method that arrays alone have, is to index it. :func:`augmented_values` tells where
that was assumed, for whoever knows the ranks.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from kerneldsl.analysis.library_names import name_of_function, outside_value
from kerneldsl.errors import SourceLocation
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.intrinsics import Effect, Typing
from kerneldsl.language.reserved import RESERVED_PREFIX

__all__ = [
    "READING_METHODS",
    "VIEW_METHODS",
    "Accesses",
    "Augmented",
    "Root",
    "array_effects",
    "augmented_values",
    "gives_scalar",
    "is_internal_call",
    "is_own",
    "root_of_array",
]

#: Memory by its owner: the position of a parameter, or the name of an array that is declared.
Root: TypeAlias = int | str
#: An owner, and how many indices lead from it to the value.
_Alias = tuple[Root, int]
_MAX_DEPTH = 8
_NO_ROOTS: frozenset[Root] = frozenset()

_PLAIN_ATTRIBUTES = frozenset({"shape", "size", "ndim", "dtype", "itemsize", "nbytes", "strides"})
#: Methods that give a view of their array.
VIEW_METHODS = frozenset({"reshape", "ravel", "view", "transpose", "squeeze"})
#: Methods that leave their array as it is, and give no view of it.
READING_METHODS = frozenset(
    """
    sum prod min max mean std var any all argmin argmax item copy astype dot cumsum cumprod
    flatten nonzero ptp conj conjugate tolist
    """.split()  # noqa: SIM905 - a list of words is easier to read
)
#: Methods that a scalar has too.
_SCALAR_METHODS = frozenset({"conj", "conjugate", "item"})
#: NumPy's functions, beside the ufuncs, that compute a scalar from scalars.
_SCALAR_FUNCTIONS = frozenset(
    f"numpy.{name}"
    for name in ("around", "clip", "imag", "isclose", "nan_to_num", "real", "round", "where")
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


class Augmented(NamedTuple):
    """An augmented assignment of a variable that may hold a view of a parameter's array.

    Parameters
    ----------
    position : int
        Of the parameter.
    index_count : int
        How many indices lead from the array to the value. It is an element where the array has no
        more axes, and else a view, which the assignment changes in place.
    where : SourceLocation
        The assignment.
    """

    position: int
    index_count: int
    where: SourceLocation


def augmented_values(unit: FunctionUnit) -> tuple[Augmented, ...]:
    """Find augmented assignments that write to an array if its rank is high enough.

    Parameters
    ----------
    unit : FunctionUnit
        A kernel or device function.
    """
    return tuple(dict.fromkeys(Accesses(unit, is_kernel=True).summarize().augmented))


def root_of_array(name: str, use: IntrinsicUse) -> Root:
    """The memory that a call of ``shared.array`` or ``local.array`` declares.

    Parameters
    ----------
    name : str
        The reserved name that is called.
    use : IntrinsicUse
        What it stands for.
    """
    if use.static.get("shape") == (0,):
        return "dynamic shared"  # every such declaration is the same memory
    return f"{'local' if Effect.ALLOCATE_LOCAL in use.intrinsic.effect else 'shared'}:{name}"


def is_own(root: Root) -> bool:
    """Whether memory is a thread's own: a local array."""
    return isinstance(root, str) and root.startswith("local:")


class _Summary:
    """What a function does to its parameters."""

    def __init__(self) -> None:
        self.read: set[int] = set()
        self.written: set[int] = set()
        self.depth: dict[int, int] = {}
        self.returned: set[_Alias] = set()
        self.augmented: list[Augmented] = []
        #: Parameters that may be indexed by several indices at once.
        self.indexed_by_tuples: frozenset[Root] = _NO_ROOTS

    def add(self, read: frozenset[Root], written: frozenset[Root]) -> None:
        self.read |= {root for root in read if isinstance(root, int)}
        self.written |= {root for root in written if isinstance(root, int)}


_summaries: WeakKeyDictionary[FunctionUnit, _Summary] = WeakKeyDictionary()


def _summarize(unit: FunctionUnit) -> _Summary:
    known = _summaries.get(unit)
    if known is None:
        known = Accesses(unit).summarize()
        _summaries[unit] = known
    return known


class Accesses:
    """What the expressions of one function stand for, read and write.

    Parameters
    ----------
    unit : FunctionUnit
        The function.
    declared : mapping, optional
        Variables that hold declared arrays, to their memory, where a target has replaced the calls
        that declare them.
    is_kernel : bool, optional
        Whether parameters are arguments of a launch, of which a tuple is known as one; an argument
        of a device function may be any value.
    """

    def __init__(
        self,
        unit: FunctionUnit,
        declared: Mapping[str, Root] | None = None,
        *,
        is_kernel: bool = False,
    ) -> None:
        self._unit = unit
        self._depth: dict[Root, int] = {}
        #: What expressions stand for, once variables are known.
        self._known: dict[ast.expr, set[_Alias]] | None = None
        self._aliases: dict[str, set[_Alias]] = {
            name: {(i, 0)} for i, name in enumerate(unit.parameters)
        }
        for name, root in (declared or {}).items():
            self._aliases[name] = {(root, 0)}
        bindings = list(_bindings(unit.tree))
        self._functions = _bound_functions(bindings, unit)
        self._tuple_names = set() if is_kernel else set(unit.parameters)
        self._tuple_names |= {
            target.id
            for target, value in bindings
            if isinstance(target, ast.Name)
            and (isinstance(value, ast.Tuple | ast.Name) or self._may_be_tuple(value))
        }
        changed = True
        while changed:
            changed = False
            for target, value in bindings:
                changed |= self._bind(target, value)
        self._known = {}
        for node in ast.walk(unit.tree):
            self._measure_depth(node)

    def roots(self, node: ast.expr) -> frozenset[Root]:
        """The memory that a value, or what can be reached through it, may be a part of."""
        return frozenset(root for root, _ in self._alias_of(node))

    def views(self, node: ast.expr) -> frozenset[Root]:
        """The memory that a value may be a view of; elements are no views."""
        found = self._alias_of(node)
        return frozenset(r for r, d in found if d <= 0 or d < self._depth.get(r, 0))

    def is_indexed(self, root: Root) -> bool:
        """Whether the function looks into memory as into an array."""
        return self._depth.get(root, 0) > 0

    def summarize(self) -> _Summary:
        """What a caller has to know."""
        summary = _Summary()
        tree = self._unit.tree
        for node in ast.walk(tree):
            summary.add(*self.of(node))
            summary.augmented += self._augmented_by(node)
            if isinstance(node, ast.Return) and node.value is not None:
                summary.returned |= self._alias_of(node.value)
        summary.indexed_by_tuples = self._indexed_by_tuples()
        summary.depth = {root: d for root, d in self._depth.items() if isinstance(root, int)}
        extra = tree.args.vararg or tree.args.kwarg or tree.args.kwonlyargs
        if extra:  # Numba binds such arguments in ways of its own
            summary.read |= set(range(len(self._unit.parameters)))
            summary.written |= summary.read
        return summary

    def _augmented_by(self, node: ast.AST) -> list[Augmented]:
        """What one node assigns in place if it is a view."""
        found: list[tuple[_Alias, SourceLocation]] = []
        match node:
            case ast.AugAssign(target=ast.Name() as target):
                where = self._unit.locate(node)
                found = [(alias, where) for alias in self._alias_of(target)]
            case ast.Call():
                callee = self._unit.callee_of(node)
                if callee is not None and not _is_flexible(node, callee):
                    for position, depth, where in _summarize(callee).augmented:
                        aliases = _deeper(self._alias_of(node.args[position]), depth)
                        found += [(alias, where) for alias in aliases]
        return [
            Augmented(root, depth, where)
            for (root, depth), where in found
            if isinstance(root, int) and root not in self._indexed_by_tuples()
        ]

    def _indexed_by_tuples(self) -> frozenset[Root]:
        """Memory that is indexed by a variable or call that may give several indices at once."""
        found = _NO_ROOTS
        for node in ast.walk(self._unit.tree):
            if isinstance(node, ast.Subscript) and self._may_be_tuple(node.slice):
                found |= self.roots(node.value)
            elif isinstance(node, ast.Call):
                callee = self._unit.callee_of(node)
                if callee is not None and not _is_flexible(node, callee):
                    for position in _summarize(callee).indexed_by_tuples:
                        if isinstance(position, int):
                            found |= self.roots(node.args[position])
        return found

    def _may_be_tuple(self, index: ast.expr) -> bool:
        match index:
            case ast.Name(id=name):
                return name in self._tuple_names or isinstance(
                    getattr(self._unit.constants.get(name), "value", None), tuple
                )
            case ast.Call() | ast.Attribute() | ast.IfExp():
                use = self._unit.use_of(index)
                return use is None or use.static.get("ndim", 1) > 1
        return False

    def _bind(self, target: ast.expr, value: ast.expr | set[_Alias]) -> bool:
        """Let a target stand for a value; say whether that was news."""
        if isinstance(target, ast.Tuple | ast.List):
            elements = value.elts if isinstance(value, ast.Tuple | ast.List) else None
            if elements is not None and len(elements) == len(target.elts):
                pairs = list(zip(target.elts, elements, strict=True))
                return any(self._bind(t, v) for t, v in pairs)
            found = self._alias_of(value) if isinstance(value, ast.expr) else value
            items = _deeper(found, 1)
            return any(self._bind(t, items) for t in target.elts)
        if not isinstance(target, ast.Name):
            return False
        found = self._alias_of(value) if isinstance(value, ast.expr) else value
        known = self._aliases.setdefault(target.id, set())
        if found <= known:
            return False
        known |= found
        return True

    def _alias_of(self, node: ast.expr) -> set[_Alias]:
        """The memory that a value may be a part of, and how deep in it."""
        if self._known is None:
            return self._find_alias(node)
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = self._find_alias(node)
        return known

    def _find_alias(self, node: ast.expr) -> set[_Alias]:
        match node:
            case ast.Name():
                return set(self._aliases.get(node.id, ()))
            case ast.Subscript():
                if _has_ellipsis(node.slice):  # always a view, if only of one element
                    return {(root, min(d, 0)) for root, d in self._alias_of(node.value)}
                return _deeper(self._alias_of(node.value), _count_indices(node.slice))
            case ast.Attribute():
                if node.attr in _PLAIN_ATTRIBUTES:
                    return set()
                return self._alias_of(node.value)
            case ast.IfExp():
                return self._alias_of(node.body) | self._alias_of(node.orelse)
            case ast.BoolOp():
                return set().union(*(self._alias_of(v) for v in node.values))
            case ast.Tuple() | ast.List():
                # What is taken out of it again by an index is what was put in.
                return _deeper(set().union(*(self._alias_of(e) for e in node.elts)), -1)
            case ast.BinOp(op=ast.Add()):  # of tuples
                return self._alias_of(node.left) | self._alias_of(node.right)
            case ast.Starred() | ast.NamedExpr():
                return self._alias_of(node.value)
            case ast.Call():
                return self._alias_of_call(node)
        return set()

    def _alias_of_call(self, node: ast.Call) -> set[_Alias]:
        use = self._unit.use_of(node)
        if use is not None:
            if use.intrinsic.effect & (Effect.ALLOCATE_SHARED | Effect.ALLOCATE_LOCAL):
                assert isinstance(node.func, ast.Name)
                return {(root_of_array(node.func.id, use), 0)}
            return self._alias_of(node.args[0]) if use.intrinsic.typing is Typing.VALUE else set()
        callee = self._unit.callee_of(node)
        if callee is not None and not _is_flexible(node, callee):
            found: set[_Alias] = set()
            for root, depth in _summarize(callee).returned:
                if isinstance(root, int):
                    found |= _deeper(self._alias_of(node.args[root]), depth)
                else:
                    found.add((root, depth))
            return found
        function = self.function_of(node)
        if _makes_scalars(function, node):
            return set()
        if name_of_function(function) in ("enumerate", "zip"):  # an item is a tuple of items
            return _deeper(set().union(*(self._alias_of(a) for a in node.args)), -1)
        inputs = [*node.args, *(k.value for k in node.keywords)]
        if isinstance(node.func, ast.Attribute):
            if node.func.attr in READING_METHODS:
                return set()
            inputs.append(node.func.value)
        return set().union(*(self._alias_of(a) for a in inputs))

    def _measure_depth(self, node: ast.AST) -> None:
        """Note how deep memory is indexed anywhere."""
        found: set[_Alias] = set()
        match node:
            case ast.Subscript():
                found = self._alias_of(node)
            case ast.For() | ast.comprehension():
                found = _deeper(self._alias_of(node.iter), 1)
            case ast.Assign(targets=targets, value=value) if not isinstance(
                value, ast.Tuple | ast.List
            ):
                if any(isinstance(target, ast.Tuple | ast.List) for target in targets):
                    found = _deeper(self._alias_of(value), 1)
            case ast.Compare(ops=ops, comparators=comparators):
                for op, comparator in zip(ops, comparators, strict=True):
                    if isinstance(op, ast.In | ast.NotIn):
                        found |= _deeper(self._alias_of(comparator), 1)
            case ast.Call():
                found = self._depth_of_call(node)
        for root, depth in found:
            self._depth[root] = max(self._depth.get(root, 0), min(depth, _MAX_DEPTH))

    def _depth_of_call(self, node: ast.Call) -> set[_Alias]:
        found: set[_Alias] = set()
        use = self._unit.use_of(node)
        if use is not None:
            if Effect.ATOMIC in use.intrinsic.effect:
                found = _deeper(self._alias_of(node.args[0]), _count_indices(node.args[1]))
            return found
        callee = self._unit.callee_of(node)
        if callee is not None:
            if not _is_flexible(node, callee):
                for position, depth in _summarize(callee).depth.items():
                    found |= _deeper(self._alias_of(node.args[position]), depth)
            return found
        if isinstance(node.func, ast.Attribute) and node.func.attr not in _SCALAR_METHODS:
            found |= _deeper(self._alias_of(node.func.value), 1)
        function = self.function_of(node)
        if name_of_function(function) is not None and not gives_scalar(function, node):
            for argument in node.args:
                found |= _deeper(self._alias_of(argument), 1)
        return found

    def of(self, node: ast.AST) -> tuple[frozenset[Root], frozenset[Root]]:
        """What one node may read and write, apart from the nodes below it."""
        match node:
            case ast.Subscript(ctx=ast.Load()):
                return self.roots(node.value), _NO_ROOTS
            case ast.Subscript():
                return _NO_ROOTS, self.roots(node.value)
            case ast.AugAssign(target=ast.Subscript() as target):
                return self.roots(target.value), _NO_ROOTS
            case ast.AugAssign(target=ast.Name() as target):
                found = frozenset(r for r in self.views(target) if self.is_indexed(r))
                return found, found
            case ast.Attribute(ctx=ast.Store()):
                return _NO_ROOTS, self.roots(node.value)
            case ast.For() | ast.comprehension():
                return self.roots(node.iter), _NO_ROOTS
            case ast.Call():
                return self._call(node)
            case ast.Lambda() | ast.FunctionDef() if node is not self._unit.tree:
                # A closure of a Numba function.
                names = [inner for inner in ast.walk(node) if isinstance(inner, ast.Name)]
                found = _NO_ROOTS.union(*(self.roots(name) for name in names))
                return found, found
        return _NO_ROOTS, _NO_ROOTS

    def _call(self, node: ast.Call) -> tuple[frozenset[Root], frozenset[Root]]:
        arguments = [*node.args, *(k.value for k in node.keywords)]
        use = self._unit.use_of(node)
        if use is not None:
            found = _NO_ROOTS
            if Effect.ATOMIC in use.intrinsic.effect:
                found = self.roots(node.args[0])
            return found, found
        if is_internal_call(node, self._unit):
            return _NO_ROOTS, _NO_ROOTS
        callee = self._unit.callee_of(node)
        if callee is not None and not _is_flexible(node, callee):
            effects = _summarize(callee)
            return (
                _NO_ROOTS.union(*(self.roots(node.args[p]) for p in effects.read)),
                _NO_ROOTS.union(*(self.roots(node.args[p]) for p in effects.written)),
            )
        function = self.function_of(node)
        read, written = set[Root](), set[Root]()
        if isinstance(node.func, ast.Attribute) and node.func.attr not in VIEW_METHODS:
            views = self.views(node.func.value)
            read |= views
            if node.func.attr not in READING_METHODS:
                written |= views
        if not _looks_at_scalars(function, node):
            for i, argument in enumerate(arguments):
                views = self.views(argument)
                read |= views
                if not _only_reads(function, i, node):
                    written |= views
        return frozenset(read), frozenset(written)

    def function_of(self, node: ast.Call) -> Any:
        """The outside object that is called, or ``None`` where it is not known."""
        if isinstance(node.func, ast.Name) and node.func.id in self._functions:
            return self._functions[node.func.id]
        return outside_value(node.func, self._unit.namespace)


def is_internal_call(node: ast.Call, unit: FunctionUnit) -> bool:
    """Whether a call is of a function that a pass or a target has put there.

    Such a function computes a value from its arguments, or a view of one, and writes nothing.
    """
    return (
        isinstance(node.func, ast.Name)
        and node.func.id.startswith(RESERVED_PREFIX)
        and not any(node.func.id in names for names in (unit.uses, unit.callees, unit.namespace))
    )


def _bound_functions(
    bindings: list[tuple[ast.expr, ast.expr]], unit: FunctionUnit
) -> dict[str, Any]:
    """Variables that hold a library's function or type, as in ``dtype = np.float32``."""
    counts = Counter(target.id for target, _ in bindings if isinstance(target, ast.Name))
    found = {}
    for target, value in bindings:
        if isinstance(target, ast.Name) and counts[target.id] == 1:
            function = outside_value(value, unit.namespace)
            if callable(function):
                found[target.id] = function
    return found


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


def _deeper(found: set[_Alias], indices: int) -> set[_Alias]:
    return {(r, max(-_MAX_DEPTH, min(depth + indices, _MAX_DEPTH))) for r, depth in found}


def _has_ellipsis(index: ast.expr) -> bool:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(part, ast.Constant) and part.value is ... for part in parts)


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


def _looks_at_scalars(function: Any, node: ast.Call) -> bool:
    """Whether a call cannot look into an array that the function is given."""
    if function in (max, min) and len(node.args) == 1:
        return False  # of an array's elements
    return (
        any(function is known for known in _SCALAR_BUILTINS)
        or (name_of_function(function) or "").startswith(("math.", "cmath."))
        or (isinstance(function, type) and issubclass(function, np.generic | BaseException))
    )


def gives_scalar(function: Any, node: ast.Call) -> bool:
    """Whether a function computes a scalar from scalars, and from arrays without dimensions."""
    return (
        isinstance(function, np.ufunc)
        or _looks_at_scalars(function, node)
        or name_of_function(function) in _SCALAR_FUNCTIONS
    )


def _makes_scalars(function: Any, node: ast.Call) -> bool:
    """Whether a result is never a view of an argument; an element counts as none."""
    return isinstance(function, np.ufunc) or (
        _looks_at_scalars(function, node) and function not in (max, min)
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
