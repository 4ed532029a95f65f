"""Lines of the source in LLVM code that is written from several functions."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["LineMarks"]


class LineMarks:
    """Marks instructions with lines, for profilers and debuggers.

    A function that is written in the place of its call has its own lines, and the line of the call.
    """

    def __init__(self, context: Any, builder: ir.IRBuilder, unit: FunctionUnit) -> None:
        self._builder = builder
        self._lines = context.DIBuilder(
            builder.module, unit.filename, context, directives_only=True
        )
        self._lines.mark_subprogram(builder.function, unit.qualname, (), (), unit.first_line)
        self._scopes = {unit: self._lines.subprograms[-1]}
        self._places: dict[Any, Any] = {}
        self._lines.mark_location(builder, unit.first_line)

    def mark(self, place: Any) -> None:
        """Mark what is written from now on with the place of an operation."""
        self._builder.debug_metadata = self._location(place)

    def finish(self) -> None:
        """End the module's information."""
        self._lines.finalize()

    def _location(self, place: Any) -> Any:
        found = self._places.get(place)
        if found is None:
            fields = {"line": place.line, "column": 1, "scope": self._scope(place.unit)}
            if place.caller is not None:
                fields["inlinedAt"] = self._location(place.caller)
            is_call = place.caller is not None
            found = self._builder.module.add_debug_info("DILocation", fields, is_distinct=is_call)
            self._places[place] = found
        return found

    def _scope(self, unit: FunctionUnit) -> Any:
        found = self._scopes.get(unit)
        if found is None:
            lines, outer = self._lines, (self._lines.difile, self._lines.filepath)
            lines.filepath = unit.filename
            lines.difile = lines._di_file()
            function = self._builder.function
            name = unit.qualname
            found = lines._di_subprogram(
                name, f"{name}.{len(self._scopes)}", unit.first_line, function, {}
            )
            lines.difile, lines.filepath = outer
            self._scopes[unit] = found
        return found
