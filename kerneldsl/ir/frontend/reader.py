"""Reader of a normal form: variables, operations, tables by kind of node.

Modules of this package add functions to the tables: :func:`reads` for expressions,
:func:`reads_statement` for statements.
"""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from numba import errors, types

from kerneldsl.frontend.expressions import assigned_names
from kerneldsl.frontend.library_names import outside_value
from kerneldsl.frontend.parts import Part
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.frontend.members import MISSING, NamedMembers, class_of, is_typed, leaves, settled
from kerneldsl.ir.frontend.origins import Origins
from kerneldsl.ir.frontend.source_names import SourceNames
from kerneldsl.ir.operations import Binding, Effect, Operation, Region, SourcePlace, Value
from kerneldsl.ir.refusals import (
    LaterRefusal,
    Refusal,
    as_refusal,
    condition_refusal,
    memory_refusal,
    undefined_refusal,
    words,
)
from kerneldsl.ir.typing import Typing
from kerneldsl.language.reserved import RESERVED_PREFIX
from kerneldsl.lowering.types import NumbaTile, constant_records, numba_class
from kerneldsl.utilities.tracebacks import warn_user

if TYPE_CHECKING:
    from kerneldsl.ir.frontend.tile_expressions import TileReader

__all__ = ["NotReadError", "Read", "Reader", "constant_of", "reader_of", "reads", "reads_statement"]

#: Reads an expression.
Read: TypeAlias = Callable[["Reader", Any], Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])
_EXPRESSIONS: dict[type[ast.AST], Read] = {}
_OF_INTEGERS = ast.BitAnd | ast.BitOr | ast.BitXor | ast.LShift | ast.RShift
_STATEMENTS: dict[type[ast.AST], Callable[[Reader, Any], None]] = {}


class NotReadError(Exception):
    """The source has what this front end does not read."""


def reads(*kinds: type[ast.expr]) -> Callable[[_Function], _Function]:
    """Return a decorator that registers a function of a reader and a node for expressions."""

    def register(function: _Function) -> _Function:
        _EXPRESSIONS.update(dict.fromkeys(kinds, function))
        return function

    return register


def reader_of(node: ast.expr) -> Read:
    """Return what reads an expression that is no tile."""
    read = _EXPRESSIONS.get(type(node))
    if read is None:
        raise NotReadError(ast.unparse(node))
    return read


def reads_statement(*kinds: type[ast.stmt]) -> Callable[[_Function], _Function]:
    """Return a decorator that registers a function of a reader and a node for statements."""

    def register(function: _Function) -> _Function:
        _STATEMENTS.update(dict.fromkeys(kinds, function))
        return function

    return register


def _never(unit: FunctionUnit, arguments: list[Any]) -> Any:
    raise NotReadError(f"a call of {unit.name}")


def _keep_nothing(name: str, value: Any, argument: int = 0) -> None:
    """Keep no variable for debuggers."""


class Reader:
    """The state of reading one kernel: the unit that is read, its variables, its operations."""

    def __init__(self, unit: FunctionUnit, typing: Typing) -> None:
        self.kernel = self.unit = unit
        self.typing = typing
        #: A tuple is known by its members, and is no value. A variable may be lazy.
        self.variables: dict[str, Any] = {}
        #: The region that is read, and its operations.
        self.region: Region = Region()
        self.operations: list[Operation] = self.region.operations
        #: Loop variables without a type yet, each with a callback that records that it is a tuple.
        self.expansions: dict[Value, Callable[[tuple[Any, ...]], None]] = {}
        #: Variables of loops that nothing assigns before the first iteration.
        self.unassigned: set[Value] = set()
        #: Types that were merged with variables without a type.
        self.guesses: dict[Value, set[Any]] = {}
        #: Loops of the function that are read.
        self.loops = 0
        #: Targets of control flow that leaves the function or loop being read.
        self.exits: dict[str, Any] = {}
        self.place = SourcePlace(unit.first_line, 0, unit, None)
        #: Variables and calls that hold each value of the function.
        self.bindings: dict[Value, list[Binding]] = {}
        #: The call of the function that is read.
        self.caller: SourcePlace | None = None
        #: Number of inlined calls of device functions around the place being read.
        self.depth = 0
        #: Whether linked functions stay calls; otherwise their bodies are read.
        self.calls_linked = False
        #: Returns the function that Numba's code calls for a unit of Numba. Without it, bodies are
        #: read.
        self.plain_function: Callable[[FunctionUnit], Any] | None = None
        #: Reads the body of a device function in the place of a call, from its arguments.
        self.call: Callable[[FunctionUnit, list[Any]], Any] = _never
        #: Adds an operation that says what a variable is assigned, if debuggers are to see it. The
        #: number is that of a parameter, from 1.
        self.keep: Callable[..., None] = _keep_nothing
        #: Checks of operations that can fail, in debug mode.
        self.faults: Any = None
        #: Whether a thread ends with an exception where Python raises one.
        self.raises = False
        #: Reason why a statement or expression was skipped, if a loop around it is read again.
        self.skipped: Refusal | None = None
        #: Whether early returns of a kernel stay; otherwise they become branches.
        self.keeps_returns = False
        #: Reads the expressions of a kernel with tiles.
        self.tiles: TileReader | None = None
        #: Variables of the function that hold tiles, to the type of these.
        self.tile_types: dict[str, Any] = {}
        #: The statement or expression that is read.
        self.source: Part | None = None
        #: Places in which variables are assigned and read.
        self.names = SourceNames()
        #: The type and line of the first float that a variable of a function is assigned.
        self.floats: dict[tuple[FunctionUnit, str], tuple[Any, int]] = {}
        #: Origins of the types of integers.
        self.origins = Origins()
        #: Records the types of nodes (:mod:`kerneldsl.ir.frontend.notes`), if they are needed.
        self.notes: Any = None

    # -- making operations ------------------------------------------------------------------------

    def add(
        self,
        name: str,
        operands: list[Value],
        results: tuple[Any, ...] = (),
        attributes: dict[str, Any] | None = None,
        regions: list[Region] | None = None,
        effect: Effect = Effect.NONE,
    ) -> Operation:
        made = Operation(name, operands, results, attributes, regions, effect, self.place)
        made.source = self.source
        self.operations.append(made)
        return made

    def constant(self, value: Any, kind: Any = None) -> Any:
        if isinstance(value, tuple):
            members = map(self.constant, value)
            named = class_of(type(value))
            return tuple(members) if named is None else NamedMembers(members, named)
        if kind is None:
            kind = constant_records(value) or types.unliteral(self.typing.function(value))
        return self.add("const", [], (kind,), {"value": value}).result

    def outside(self, node: ast.expr) -> Any:
        """Return the object from outside the function that a name or an attribute is."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name) or root.id in self.variables:
            return None
        if root is node and root.id in self.unit.constants:
            return self.unit.constants[root.id].value
        found = outside_value(node, self.unit.namespace)
        if found is None and isinstance(node, ast.Name):
            found = vars(builtins).get(node.id)
        return numba_class(found) or found

    def into(self, region: Region, read: Callable[[], Iterable[Value] | None]) -> None:
        """Read into a region, which ends with a yield of what `read` returns, if anything."""
        outer = self.region
        self.region, self.operations = region, region.operations
        try:
            yielded = read()
            if yielded is not None and not region.is_left:
                self.add("yield", list(yielded))
        finally:
            self.region, self.operations = outer, outer.operations

    def cast(self, value: Value, kind: Any, attributes: dict[str, Any] | None = None) -> Value:
        """Convert a value, unless it has the type already."""
        return value if value.type == kind else self.convert(value, kind, attributes)

    def convert(self, value: Value, kind: Any, attributes: dict[str, Any] | None = None) -> Value:
        """Convert a value, also to the type that it has."""
        if self.typing.context.can_convert(value.type, kind) is None:
            raise Refusal(f"Cannot cast {words(value.type)} to {words(kind)}")
        return self.add("cast", [value], (kind,), attributes).result

    def casts(self, values: list[Value], kinds: list[Any]) -> list[Value]:
        return [self.cast(value, kind) for value, kind in zip(values, kinds, strict=True)]

    def numba(self, function: Any, operands: list[Value]) -> Value:
        signature = self.typing.operator(function, tuple(v.type for v in operands))
        if isinstance(signature.return_type, types.Array) and function is not operator.getitem:
            raise memory_refusal(signature.return_type)
        return self.add(
            "numba",
            operands,
            (signature.return_type,),
            {"function": function, "signature": signature},
        ).result

    def truth(self, value: Any, node: ast.expr) -> Value:
        """Return whether a value holds; `node` is its expression."""
        found: Value
        if isinstance(value, tuple):
            found = self.constant(bool(value))
            return found
        if value.type == types.boolean:
            found = value
            return found
        if isinstance(value.type, types.Array):
            raise condition_refusal(value.type).at(Part(self.unit, node))
        return self.numba(bool, [value])

    def known(self, name: str) -> Any:
        """Return the value of a variable, ``None`` if the function has none of this name."""
        if name not in self.variables:
            return None
        found = self.variables[name] = settled(self.variables[name])
        if not self.unit.follows_numba:
            for each in leaves(found):
                if each in self.unassigned and each.owner is self.region:
                    raise undefined_refusal(name)  # the first iteration always gets here
        if not is_typed(found):  # an earlier iteration assigns it
            raise undefined_refusal(name, LaterRefusal)
        return self.missing(name) if found is MISSING else found

    def missing(self, name: str) -> Any:
        """Return 0 for a variable that no path to here assigns, as Numba does, or refuse it."""
        if not self.unit.follows_numba:
            raise undefined_refusal(name)
        text = f"Detected uninitialized variable {name}: no path to line {self.place.line} of "
        text += f"{self.unit.qualname} assigns it, and it is 0 there"
        warn_user(text, errors.NumbaWarning)
        return self.constant(0)

    def bind(self, target: ast.Name, value: Any, source: ast.expr | None = None) -> None:
        """Assign a value to a variable; `source` is what the statement assigns, if it is known."""
        name = target.id
        self.names.assign(name, value, Part(self.unit, target), source, self.caller)
        if isinstance(value, Value) and not value.name:
            value.name = name
        if isinstance(value, Value) and isinstance(value.type, NumbaTile):
            from kerneldsl.ir.frontend.tile_refusals import refuse_two_tiles

            held = self.tile_types.setdefault(name, value.type)
            refuse_two_tiles(self.unit, name, held, value.type)
        if isinstance(value, Value) and isinstance(value.type, types.Float | types.Complex):
            self.floats.setdefault((self.unit, name), (value.type, self.place.line))
        if not name.startswith(RESERVED_PREFIX):
            self.hold(name, value)
            self.keep(name, value)
        self.variables[name] = value

    def hold(self, name: str | None, value: Any) -> None:
        """Note what holds a value: a variable, or a call that returned it."""
        if isinstance(value, tuple):
            for each in value:
                self.hold(name, each)
        elif isinstance(value, Value):
            self.bindings.setdefault(value, []).append(Binding(name, self.source))

    # -- reading ----------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> None:
        """Read statements up to the first one that control does not pass."""
        for statement in body:
            self.statement(statement)
            if self.region.is_left:
                return

    def statement(self, node: ast.stmt) -> None:
        outer, self.place = self.place, self.place_of(node)
        around, self.source = self.source, Part(self.unit, node)
        read = _STATEMENTS.get(type(node))
        if read is None:
            raise NotReadError(ast.dump(node)[:80])

        def placed() -> None:
            try:
                read(self, node)
            except (errors.NumbaError, ValueError) as error:
                refusal = self._placed(error, node)
                raise refusal from refusal.__cause__

        if self.attempt(placed) is not None:
            for name in assigned_names(node):
                self.variables[name] = Value(None, None, name)
        self.source = around
        # Operations after the statements of a loop or branch have its place.
        self.place = outer

    def attempt(self, read: Callable[[], Any]) -> Any:
        """Return what a function reads; a value without a type if a later reading can read it only.

        So it is if it reads a variable of a loop that has no type yet. The loop is read again when
        it has one. If it never has one, or no loop is read, that is an error.
        """
        state = self.variables, self.exits, self.place, self.source
        try:
            return read()
        except LaterRefusal as refusal:
            if not self.loops:
                raise
            self.skipped = self.skipped or refusal
            self.variables, self.exits, self.place, self.source = state
            return Value(None, None)

    def take_skipped(self) -> Refusal | None:
        """Return why a statement or expression was skipped, and forget it."""
        found, self.skipped = self.skipped, None
        return found

    def place_of(self, node: Any) -> SourcePlace:
        line = getattr(node, "lineno", self.place.line)
        end = getattr(node, "end_col_offset", None)
        return SourcePlace(line, getattr(node, "col_offset", 0), self.unit, self.caller, end)

    def at(self, node: ast.AST, act: Callable[..., Any], *values: Any) -> Any:
        """Return what a function gives; the operations that it adds have the place of a node."""
        outer, self.place = self.place, self.place_of(node)
        found = act(*values)
        self.place = outer
        return found

    def begin(self, node: ast.AST) -> None:
        """Note that a statement begins; one over rows begins for each element."""

    def value(self, node: ast.expr, read: Read | None = None) -> Any:
        """Read an expression: a value, or a tuple of values. `read` reads it otherwise."""
        return self.read(node, read) if self.tiles is None else self.tiles.value(node, read)

    def value_or_tile(self, node: ast.expr) -> Any:
        """Read an expression that may be a tile."""
        return self.read(node, None) if self.tiles is None else self.tiles.value_or_tile(node)

    def read(self, node: ast.expr, read: Read | None) -> Any:
        """Read an expression at its place."""
        outer = self.place
        if getattr(node, "lineno", outer.line) == outer.line:
            return self._value(node, read)
        self.place = self.place_of(node)
        found = self._value(node, read)
        self.place = outer
        return found

    def _value(self, node: ast.expr, read: Read | None) -> Any:
        read = read or reader_of(node)
        around, self.source = self.source, Part(self.unit, node)
        try:
            found = read(self, node)
        except (errors.NumbaError, ValueError) as error:
            refusal = self._placed(error, node)
            raise refusal from refusal.__cause__
        finally:
            self.source = around
        self.note(node, found)
        return found

    def note(self, node: ast.AST, found: Any) -> None:
        if self.notes is not None and isinstance(found, Value | tuple):
            self.notes.add(node, found)

    def _placed(self, error: Exception, node: ast.AST) -> Refusal:
        node = node.value if isinstance(node, ast.Expr) else node
        found = as_refusal(error)
        if found is not error:
            found.__cause__ = error
        if found.source is None:
            found.reason = self._float_among(node)
        return found.at(Part(self.unit, node))

    def _float_among(self, node: ast.AST) -> str:
        """Return which operand of a bitwise operation or shift is a float, and since where."""
        match node:
            case ast.BinOp(left=left, op=op, right=right):
                operands = [left, right]
            case ast.AugAssign(target=target, op=op, value=value):
                operands = [target, value]
            case _:
                return ""
        names = [each.id for each in operands if isinstance(each, ast.Name)]
        name = next((each for each in names if (self.unit, each) in self.floats), None)
        if name is None or not isinstance(op, _OF_INTEGERS):
            return ""
        kind, line = self.floats[self.unit, name]
        return f"{name} is {kind} where line {line} assigns it"

    def number(self, node: ast.expr) -> Value:
        """Read an expression that is no tuple."""
        found = self.value(node)
        if not isinstance(found, Value):
            raise NotReadError(f"a tuple: {ast.unparse(node)}")
        return found


def constant_of(value: Value) -> Any:
    owner = value.owner
    if isinstance(owner, Operation) and owner.name == "const":
        return owner.attributes["value"]
    return None
