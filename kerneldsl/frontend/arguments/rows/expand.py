"""Write statements over rows of arrays as loops over their elements.

What is an element and what a row depends on the ranks of a kernel's arguments, so this is done for
their kinds: ``o[i] = a[i] * 2`` stays as it is where `a` and `o` have one axis, and becomes a loop
if they have two. All that follows, analyses and targets, sees loops.

An assignment to a row computes each element from the same element of the rows that are read, in
the order of the elements. Where rows of one array may overlap otherwise, as in ``x[1:] = x[:-1]``,
NumPy copies first, and the assignment is refused here.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from weakref import ReferenceType, WeakKeyDictionary, ref

from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.arguments.copying import CopyingTransformer
from kerneldsl.frontend.arguments.inferred_types import types_of_values
from kerneldsl.frontend.arguments.known_values import Elements, Value, value_of_kind
from kerneldsl.frontend.arguments.quick_tests import may_have_rows
from kerneldsl.frontend.arguments.rows.elements import ElementWriter, RowView, is_full
from kerneldsl.frontend.arguments.rows.reductions import (
    FUNCTIONS,
    REDUCTIONS,
    dot_unit,
    reduction_unit,
)
from kerneldsl.frontend.expressions import base_name, index_parts
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.library_names import library_name
from kerneldsl.frontend.syntax import call, load, store
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind

__all__ = ["before_expansion", "expand_rows"]

_Values = tuple[Value, ...]
#: A unit without rows is not held here by itself, or it would live permanently.
_known: WeakKeyDictionary[FunctionUnit, dict[_Values, FunctionUnit | None]] = WeakKeyDictionary()
#: Functions with loops, to what they were made of.
_origins: WeakKeyDictionary[FunctionUnit, ReferenceType[FunctionUnit]] = WeakKeyDictionary()


def expand_rows(unit: FunctionUnit, kinds: Sequence[Kind]) -> FunctionUnit:
    """Return a kernel with loops in the place of statements over rows.

    Parameters
    ----------
    unit : FunctionUnit
        The kernel.
    kinds : sequence of Kind
        Kinds of its arguments.

    Returns
    -------
    FunctionUnit
        The unit itself if it has none; the same one for the same kinds.

    Raises
    ------
    UnsupportedConstructError
        If a row is assigned from another part of the same array, which may overlap it.
    """
    return _expand(unit, tuple(map(value_of_kind, kinds)))


def before_expansion(unit: FunctionUnit) -> FunctionUnit:
    """Return the function that :func:`expand_rows` made one of, or the function itself."""
    origin = _origins.get(unit)
    return (origin() if origin is not None else None) or unit


def _expand(unit: FunctionUnit, values: _Values) -> FunctionUnit:
    known = _known.setdefault(unit, {})
    if values not in known:
        has_rows = not unit.is_plain_numba and _may_have_rows(unit, values)
        made = _Expansion(unit, values).run() if has_rows else unit
        if made is not unit:
            _origins[made] = ref(unit)
        # One for all threads that ask at once: code is found by the unit.
        known.setdefault(values, None if made is unit else made)
    return known[values] or unit


def _may_have_rows(unit: FunctionUnit, values: _Values) -> bool:
    ranks = (value.ndim for value in values if isinstance(value, Elements))
    has_tuples = any(isinstance(value, tuple) for value in values)
    return may_have_rows(unit, max(ranks, default=0), has_tuples=has_tuples)


class _Expansion(CopyingTransformer):
    """Expands the statements of one function, for what is known of its arguments."""

    def __init__(self, unit: FunctionUnit, values: _Values) -> None:
        self._unit = unit
        self._types = types_of_values(unit, values)
        self._names = FreshNames.for_unit(unit)
        self._callees = dict(unit.callees)
        self._namespace = dict(unit.namespace)
        self._has_changed = False

    def run(self) -> FunctionUnit:
        """Return the function, expanded."""
        tree = self._unit.tree
        body: list[ast.stmt] = []
        for statement in tree.body:
            made = self.visit(statement)
            body += made if isinstance(made, list) else [made]
        if not self._has_changed:
            return self._unit
        expanded = ast.FunctionDef(tree.name, tree.args, body, [], None, None)
        ast.copy_location(expanded, tree)
        return replace(
            self._unit,
            tree=ast.fix_missing_locations(expanded),
            callees=self._callees,
            namespace=self._namespace,
        )

    def has_copied(self, node: ast.AST, copied: ast.AST) -> None:
        if node in self._types:  # a row whose index has changed is still one
            self._types[copied] = self._types[node]  # type: ignore[index]

    # Statements

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        if len(node.targets) != 1 or not self._is_row(node.targets[0]):
            return self.generic_visit(node)
        visited = self.generic_visit(node)
        assert isinstance(visited, ast.Assign)
        return self._loop(visited, visited.targets[0], None, visited.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | list[ast.stmt]:
        if not self._is_row(node.target):
            return self.generic_visit(node)
        visited = self.generic_visit(node)
        assert isinstance(visited, ast.AugAssign)
        return self._loop(visited, visited.target, visited.op, visited.value)

    def _is_row(self, target: ast.expr) -> bool:
        found = self._types.get(target)
        return isinstance(target, ast.Subscript) and isinstance(found, Elements) and found.ndim > 0

    def _loop(
        self, node: ast.stmt, target: ast.expr, operator: ast.operator | None, value: ast.expr
    ) -> list[ast.stmt]:
        """Return the loops that compute and store each element."""
        writer = ElementWriter(self._unit, self._types, self._names)
        if writer.rank(value) > writer.rank(target):
            return [node]  # which the compiler says something about
        self._has_changed = True
        _refuse_overlap(self._unit, node, target, value, writer)
        row = writer.view(target)
        loops = [self._names.make("k") for _ in row.axes]
        element = writer.element(value, loops)
        stored = row.element(loops, ast.Store())
        body: ast.stmt = (
            ast.Assign([stored], element)
            if operator is None
            else ast.AugAssign(stored, operator, element)
        )
        for number in reversed(range(len(loops))):
            extent = call(self._range(), row.extent(number))
            body = ast.For(store(loops[number]), extent, [body], [], None)
        checks = [check for view in writer.views for check in self._checks(row, view)]
        made = [*writer.before, *checks, body]
        for each in made:
            if not hasattr(each, "lineno"):
                ast.copy_location(each, node)
            ast.fix_missing_locations(each)
        return made

    def _checks(self, row: RowView, view: RowView) -> list[ast.stmt]:
        """Return what debug mode checks: rows are as long as the one that is written."""
        offset = len(row.axes) - len(view.axes)
        return [
            ast.Assert(
                ast.Compare(view.extent(number), [ast.Eq()], [row.extent(number + offset)]),
                ast.Constant("rows of different lengths in an assignment"),
            )
            for number in range(len(view.axes))
            if view != row
        ]

    def _range(self) -> str:
        """Return a name of Python's ``range``."""
        for name, value in self._namespace.items():
            if value is range:
                return name
        taken = {n.id for n in walk_here(self._unit.tree) if isinstance(n, ast.Name)}
        name = "range" if "range" not in taken else self._names.make("range")
        self._namespace[name] = range
        return name

    # Expressions

    def visit_Call(self, node: ast.Call) -> ast.AST:
        callee = self._unit.callee_of(node)
        if callee is not None:
            return self._device_call(node, callee)
        if self._unit.use_of(node) is not None:
            return self.generic_visit(node)
        found = self._reduction(node)
        return self.generic_visit(node) if found is None else found

    def _device_call(self, node: ast.Call, callee: FunctionUnit) -> ast.AST:
        visited = self.generic_visit(node)
        if len(node.args) != len(callee.parameters) or node.keywords:
            return visited
        expanded = _expand(callee, tuple(self._types.get(each) for each in node.args))
        if expanded is callee:
            return visited
        assert isinstance(visited, ast.Call)
        return self._call(visited, expanded, visited.args)

    def _reduction(self, node: ast.Call) -> ast.AST | None:
        """Return the call of the function that reduces a row, where this is one."""
        if node.keywords:
            return None
        function = library_name(node.func, self._unit.namespace)
        operands: list[ast.expr] = list(node.args)
        name = FUNCTIONS.get(function or "")
        if function is None and isinstance(node.func, ast.Attribute):
            name = node.func.attr if node.func.attr in (*REDUCTIONS, "dot") else None
            operands = [node.func.value, *node.args]
        elif function == "numpy.dot":
            name = "dot"
        rows = [self._types.get(each) for each in operands]
        dtypes = [r.dtype for r in rows if isinstance(r, Elements) and r.ndim == 1]
        if name is None or len(dtypes) != len(rows) or len(rows) != 1 + (name == "dot"):
            return None
        made = dot_unit(*dtypes) if name == "dot" else reduction_unit(name, dtypes[0])
        visited = [self.visit(each) for each in operands]
        return self._call(node, made, visited)

    def _call(self, node: ast.Call, callee: FunctionUnit, arguments: list[ast.expr]) -> ast.Call:
        self._has_changed = True
        name = next((n for n, known in self._callees.items() if known is callee), None)
        if name is None:
            name = self._names.make(callee.name)
            self._callees[name] = callee
        function = ast.copy_location(load(name), node.func)
        made = ast.copy_location(ast.Call(function, arguments, []), node)
        if node in self._types:
            self._types[made] = self._types[node]
        return made


def _refuse_overlap(
    unit: FunctionUnit, node: ast.stmt, target: ast.expr, value: ast.expr, writer: ElementWriter
) -> None:
    """Raise if an assignment reads another part of the array that it writes.

    Rows of one array that are cut out by the same slices are the same row or apart, whatever their
    other indices are: each element depends on its own alone.

    Raises
    ------
    UnsupportedConstructError
        With the row that is read.
    """
    written = _pattern(unit, target, writer)
    for read in _rows_in(value, writer):
        found = _pattern(unit, read, writer)
        if found[0] == written[0] and found != written:
            raise UnsupportedConstructError(
                f"{ast.unparse(target)} is assigned from {ast.unparse(read)}, which may overlap it",
                where=unit.locate(node),
                limit="A row is assigned element by element; nothing is copied before",
                remedy="Write the loop in the order that is meant, or copy through a "
                "kd.local.array",
            )


def _rows_in(value: ast.expr, writer: ElementWriter) -> list[ast.expr]:
    """Return the rows in an expression over rows."""
    if writer.array(value) is not None:
        return [value]
    return [row for part in writer.parts(value) for row in _rows_in(part, writer)]


def _pattern(
    unit: FunctionUnit, node: ast.expr, writer: ElementWriter
) -> tuple[str | None, tuple[str, ...] | str]:
    """Return the array that a view is of, and its slices by axis; an integer is no matter which.

    A variable that holds a view is followed to what it is bound to, if that is one thing.
    """
    seen: set[str] = set()
    while isinstance(node, ast.Name) and node.id not in seen:
        seen.add(node.id)
        bound = writer.bound_once(node.id)
        if bound is None or writer.array(bound) is None:
            break
        node = bound
    if isinstance(node, ast.Name):
        return node.id, ()
    if isinstance(node, ast.Subscript):
        whole = writer.array(node.value)
        if whole is None:  # an array of a tuple
            return ast.unparse(node), ()
        root, slices = _pattern(unit, node.value, writer)
        texts = [_text(part) for part in index_parts(node)]
        texts += [":"] * (whole.ndim - len(texts))
        if slices == ():
            return root, tuple(texts)
        if isinstance(slices, tuple) and slices.count(":") == len(texts):
            inner = iter(texts)
            return root, tuple(next(inner) if each == ":" else each for each in slices)
    return base_name(node), ast.unparse(node)


def _text(part: ast.expr) -> str:
    if is_full(part):
        return ":"
    return ast.unparse(part) if isinstance(part, ast.Slice) else "an integer"
