"""Variables of the source, with their assignments and reads: findings name them."""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

from kerneldsl.frontend.parts import Part
from kerneldsl.ir.operations import SourcePlace, Value

__all__ = ["CHOSEN", "RESULT", "Assignment", "SourceNames"]

#: Name of the variable for the result of a conditional expression; no Python name is equal to it.
CHOSEN = "if"
#: The variable that holds the result of the function that is read.
RESULT = "return"


class Assignment(NamedTuple):
    """An assignment of a value to a variable, or to a member of one that is a tuple."""

    #: Name of the variable, with the index of a member, as in ``pair[1]``.
    name: str
    value: Value
    #: The target, a parameter, or the expression that a function returns.
    place: Part
    #: The assigned expression; ``None`` for a parameter and a variable of a loop.
    source: ast.expr | None
    #: Index of the member of the source, if the source is not written as a tuple.
    member: str
    #: The call of the function that is read.
    caller: SourcePlace | None


class SourceNames:
    """Assignments and reads of the variables of a kernel and of what it calls."""

    def __init__(self) -> None:
        self.assignments: list[Assignment] = []
        #: Reads of each value by a name.
        self.reads: dict[Value, list[Part]] = {}

    def assign(
        self,
        name: str,
        value: Any,
        place: Part,
        source: ast.expr | None,
        caller: SourcePlace | None,
        member: str = "",
    ) -> None:
        """Note an assignment; of a tuple one for each member."""
        if isinstance(value, Value):
            self.assignments.append(Assignment(name, value, place, source, member, caller))
        elif isinstance(value, tuple):
            for number, each in enumerate(value):
                part, within = source, f"{member}[{number}]"
                if isinstance(source, ast.Tuple) and number < len(source.elts):
                    part, within = source.elts[number], ""
                self.assign(f"{name}[{number}]", each, place, part, caller, within)

    def read(self, value: Any, place: Part) -> None:
        """Note that an expression names a variable; of a tuple all members are read."""
        if isinstance(value, Value):
            self.reads.setdefault(value, []).append(place)
        elif isinstance(value, tuple):
            for each in value:
                self.read(each, place)
