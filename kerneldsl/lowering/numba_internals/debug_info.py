"""Lines of code and memory of variables, as metadata of LLVM.

Profilers read the lines. Debuggers also read the variables: their names, types and memory. A
function that is written in the place of its call has its own lines, and the line of the call.

References
----------
LLVM, "Source Level Debugging with LLVM"; DWARF 4, sections 3.3, 4.1 and 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.datamodel.models import RecordModel, StructModel, UniTupleModel

from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["DebugLines", "Variables"]

#: Columns from this one on are numbers of calls. What is written in the place of a call has its
#: number, so that targets find the call of a line. Other lines have the column 1.
_FIRST_COLUMN = 2
_LARGEST_COLUMN = 2**16 - 1
_VERSIONS = {"Dwarf Version": 4, "Debug Info Version": 3}
_METADATA = ir.MetaDataType()


class DebugLines:
    """Marks the instructions of a function with the places of operations.

    - `builder`: at the start of the function.
    - `entry`: the function in the normal form. If it `is_made` for the one function that it calls,
      the code is that function's.
    - `has_variables`: whether :class:`Variables` describes variables, and nothing is optimized.
    """

    def __init__(
        self, builder: ir.IRBuilder, entry: FunctionUnit, *, is_made: bool, has_variables: bool
    ) -> None:
        self._builder, self._module = builder, builder.module
        self._made = entry if is_made else None
        unit = next(each for each in entry.reachable() if each is not self._made)
        self._scopes: dict[FunctionUnit, Any] = {}
        self._places: dict[Any, Any] = {}
        self._calls: dict[Any, tuple[int, Any]] = {}
        kind = "FullDebug" if has_variables else "DebugDirectivesOnly"
        self._compile_unit = self.add(
            "CompileUnit",
            is_distinct=True,
            # Debuggers that know CUDA evaluate expressions of C++, and none of Python.
            language=ir.DIToken("DW_LANG_C_plus_plus"),
            file=self._file(unit),
            producer="kerneldsl",
            isOptimized=not has_variables,
            emissionKind=ir.DIToken(kind),
        )
        self._module.add_named_metadata("llvm.dbg.cu", self._compile_unit)
        for name, version in _VERSIONS.items():
            flag = [ir.IntType(32)(2), name, ir.IntType(32)(version)]
            self._module.add_named_metadata("llvm.module.flags", self._module.add_metadata(flag))
        self._unit = unit

    def begin(self, kinds: Iterable[Any] = ()) -> None:
        """Begin the function; `kinds` are nodes of the types of its parameters."""
        name = self._builder.function.name
        self._scopes[self._unit] = scope = self._subprogram(self._unit, name, kinds)
        self._builder.function.set_metadata("dbg", scope)
        line = self._unit.tree.lineno
        self._builder.debug_metadata = self.add("Location", line=line, column=1, scope=scope)

    def add(self, kind: str, *, is_distinct: bool = False, **fields: Any) -> Any:
        """Add a node."""
        return self._module.add_debug_info(f"DI{kind}", fields, is_distinct=is_distinct)

    def mark(self, place: Any) -> None:
        """Mark what is written from now on with the place of an operation."""
        self._builder.debug_metadata = self.location(place)

    def location(self, place: Any) -> Any:
        """Return the node of a place."""
        found = self._places.get(place)
        if found is None:
            if place.unit is self._made:
                line, scope = self._unit.tree.lineno, self.scope(self._unit)
            else:
                line, scope = place.line, self.scope(place.unit)
            column, call = self._call(place.caller)
            at = {} if call is None else {"inlinedAt": call}
            found = self.add("Location", line=line, column=column, scope=scope, **at)
            self._places[place] = found
        return found

    def _call(self, caller: Any) -> tuple[int, Any]:
        """Return the column of what is written in the place of a call, and the node of that."""
        if caller is None or caller.unit is self._made:
            return 1, None
        found = self._calls.get(caller)
        if found is None:
            column, outer = self._call(caller.caller)
            at = {} if outer is None else {"inlinedAt": outer}
            scope = self.scope(caller.unit)
            # Two calls of a line are two nodes.
            node = self.add(
                "Location", is_distinct=True, line=caller.line, column=column, scope=scope, **at
            )
            number = min(_FIRST_COLUMN + len(self._calls), _LARGEST_COLUMN)
            found = self._calls[caller] = number, node
        return found

    def scope(self, unit: FunctionUnit) -> Any:
        """Return the node of a function."""
        found = self._scopes.get(unit)
        if found is None:
            found = self._subprogram(unit, f"{unit.name}.{len(self._scopes)}", ())
            self._scopes[unit] = found
        return found

    def _subprogram(self, unit: FunctionUnit, linkage: str, kinds: Iterable[Any]) -> Any:
        types_node = self._module.add_metadata([None, *kinds])
        file = self._file(unit)
        return self.add(
            "Subprogram",
            is_distinct=True,
            name=unit.qualname,
            linkageName=linkage,
            scope=file,
            file=file,
            line=unit.tree.lineno,
            scopeLine=unit.tree.lineno,
            type=self.add("SubroutineType", types=types_node),
            unit=self._compile_unit,
            spFlags=ir.DIToken("DISPFlagDefinition"),
        )

    def _file(self, unit: FunctionUnit) -> Any:
        path = Path(unit.filename)
        return self.add("File", filename=path.name, directory=str(path.absolute().parent))

    def local_variable(self, place: Any, name: str, argument: int, kind: Any) -> Any:
        """Return the node of a variable; `argument` is the number of a parameter, from 1, or 0."""
        unit = self._unit if place.unit is self._made else place.unit
        file, scope, line = self._file(unit), self.scope(unit), place.line
        fields = {"name": name, "arg": argument, "scope": scope, "file": file, "line": line}
        return self.add("LocalVariable", type=kind, **fields)


class Variables:
    """Keeps each variable of the program in memory of the thread, where debuggers read it.

    - `assignments`: the operations that assign variables, of one or several types.
    - `lines`: descriptions of the variables; ``None`` to keep them in memory only.
    """

    def __init__(
        self, context: Any, builder: ir.IRBuilder, assignments: Iterable[Any], lines: Any
    ) -> None:
        self._context, self._builder, self._lines = context, builder, lines
        self._kinds: dict[Any, dict[Any, None]] = {}
        self._memory: dict[Any, ir.Value] = {}
        #: Types of the variables of a function. All calls of it that are inlined have one variable.
        self._types: dict[Any, Any] = {}
        #: The type of each argument of a function, by its number, in the first call.
        self._numbered: dict[Any, Any] = {}
        self._parameters: dict[int, Any] = {}
        for each in assignments:
            kind, argument = each.operands[0].type, each.attributes["argument"]
            if not _has_memory(kind):
                continue
            self._kinds.setdefault(_key(each), {})[kind] = None
            if argument == len(self._parameters) + 1:  # others are of functions that are called
                self._parameters[argument] = kind

    def parameters(self) -> list[Any]:
        """Return nodes of the types of the parameters, if they are described."""
        if self._lines is None:
            return []
        return [self.described(kind) for kind in self._parameters.values()]

    def assign(self, operation: Any, read: Callable[[], ir.Value]) -> None:
        """Store what a variable is assigned; `read` returns it as Numba has it."""
        kind, key = operation.operands[0].type, _key(operation)
        if key not in self._kinds or not _has_memory(kind):
            return
        memory = self._memory.get(key)
        if memory is None:
            memory = self._memory[key] = self._declare(operation, [*self._kinds[key]])
        data = self._context.get_data_type(kind)
        place = self._builder.bitcast(memory, data.as_pointer())
        self._context.pack_value(self._builder, kind, read(), place)

    def _declare(self, operation: Any, kinds: list[Any]) -> ir.Value:
        data = [self._context.get_data_type(each) for each in kinds]
        largest = max(data, key=self._context.get_abi_sizeof)
        builder = self._builder
        marked, builder.debug_metadata = builder.debug_metadata, None
        with builder.goto_entry_block():
            memory = builder.alloca(largest, name=operation.attributes["name"])
            memory.align = max(map(self._context.get_abi_alignment, data))
            if self._lines is not None:
                builder.debug_metadata = self._lines.location(operation.place)
                self._describe(operation, kinds, memory)
        builder.debug_metadata = marked
        return memory

    def _describe(self, operation: Any, kinds: list[Any], memory: ir.Value) -> None:
        name, argument = operation.attributes["name"], operation.attributes["argument"]
        key = operation.place.unit, name, *kinds
        kind = self._types.get(key)
        if kind is None:
            kind = self.described(kinds[0]) if len(kinds) == 1 else self._union(kinds)
            self._types[key] = kind
        # LLVM aborts if a function has two arguments of a number, as for calls with other types.
        if self._numbered.setdefault((operation.place.unit, argument), kind) is not kind:
            argument = 0
        variable = self._lines.local_variable(operation.place, name, argument, kind)
        function = ir.FunctionType(ir.VoidType(), [_METADATA] * 3)
        declare = self._builder.module.declare_intrinsic("llvm.dbg.declare", (), function)
        self._builder.call(declare, [memory, variable, self._lines.add("Expression")])

    # -- types ------------------------------------------------------------------------------------

    def described(self, kind: Any) -> Any:
        """Return a node of a type of Numba's, as it is in memory."""
        model, data = self._context.data_model_manager[kind], self._context.get_data_type(kind)
        if isinstance(model, RecordModel):
            fields = [(name, each.type, each.offset) for name, each in kind.fields.items()]
            return self._composite(str(kind), data, fields)
        if isinstance(model, UniTupleModel):
            return self._elements(kind.dtype, len(kind), data)
        if isinstance(model, StructModel):
            members = [*map(self._context.get_data_type, model._members)]
            offsets, at = [], 0
            for member in members:
                at = -(-at // self._alignment(member)) * self._alignment(member)
                offsets.append(at)
                at += self._context.get_abi_sizeof(member)
            fields = [*zip(model._fields, model._members, offsets, strict=True)]
            return self._composite(str(kind), data, fields)
        if isinstance(kind, types.NestedArray):
            return self._elements(kind.dtype, kind.nitems, data)
        if isinstance(data, ir.PointerType):
            element = getattr(kind, "dtype", None)
            base = None if element is None else self.described(element)
            return self._lines.add("DerivedType", tag=_tag("pointer"), baseType=base, size=64)
        return self._lines.add(
            "BasicType", name=str(kind), size=self._bits(data), encoding=_encoding(kind, data)
        )

    def _alignment(self, data: ir.Type) -> int:
        return int(self._context.get_abi_alignment(data))

    def _bits(self, data: ir.Type) -> int:
        return 8 * int(self._context.get_abi_sizeof(data))

    def _composite(
        self, name: str, data: ir.Type, fields: list[tuple[str, Any, int]], tag: str = "structure"
    ) -> Any:
        members = [
            self._lines.add(
                "DerivedType",
                tag=ir.DIToken("DW_TAG_member"),
                name=name,
                baseType=self.described(kind),
                size=self._bits(self._context.get_data_type(kind)),
                **({} if tag == "union" else {"offset": 8 * offset}),
            )
            for name, kind, offset in fields
        ]
        return self._lines.add(
            "CompositeType",
            is_distinct=True,
            tag=_tag(tag),
            name=name,
            size=self._bits(data),
            elements=self._builder.module.add_metadata(members),
        )

    def _elements(self, kind: Any, count: int, data: ir.Type) -> Any:
        extent = self._lines.add("Subrange", count=count)
        return self._lines.add(
            "CompositeType",
            tag=_tag("array"),
            baseType=self.described(kind),
            size=self._bits(data),
            elements=self._builder.module.add_metadata([extent]),
        )

    def _union(self, kinds: list[Any]) -> Any:
        """Return the node of a variable that holds values of several types."""
        fields = [(f"_{kind}", kind, 0) for kind in sorted(kinds, key=str)]
        largest = max(map(self._context.get_data_type, kinds), key=self._context.get_abi_sizeof)
        return self._composite("union", largest, fields, "union")


def _key(operation: Any) -> Any:
    """Return the key of a variable. Two calls of a function have two of each name."""
    place = operation.place
    return place.caller, place.unit, operation.attributes["name"]


def _has_memory(kind: Any) -> bool:
    return not isinstance(kind, types.Opaque)


def _tag(name: str) -> Any:
    return ir.DIToken(f"DW_TAG_{name}_type")


def _encoding(kind: Any, data: ir.Type) -> Any:
    if isinstance(kind, types.Boolean):
        name = "boolean"
    elif isinstance(kind, types.Float) or not isinstance(data, ir.IntType):
        name = "float"
    else:
        name = "signed" if getattr(kind, "signed", False) else "unsigned"
    return ir.DIToken(f"DW_ATE_{name}")
