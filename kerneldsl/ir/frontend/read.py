"""From a normal form to a typed function, in one forward pass.

Each operation is typed when it is made: the types of its operands are known by then. A variable
that a loop assigns has the type that holds its values before the loop and at the end of the body.
If that differs from the type before the loop, the loop is read again with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.frontend import attributes, calls, control, expressions, loops, statements  # noqa: F401
from kerneldsl.ir.frontend.faults import Faults
from kerneldsl.ir.frontend.findings.find import add_findings
from kerneldsl.ir.frontend.functions import read_kernel_body
from kerneldsl.ir.frontend.late_types import set_late_types
from kerneldsl.ir.frontend.reader import Reader
from kerneldsl.ir.frontend.tuples import unpacked
from kerneldsl.ir.operations import Function, Operation, Value
from kerneldsl.ir.rewriter import rewrite
from kerneldsl.ir.typing import Typing
from kerneldsl.language.kinds import Kind
from kerneldsl.lowering.types import element_type, numba_types

if TYPE_CHECKING:
    from kerneldsl.frontend.typed_unit import TypedUnit
    from kerneldsl.ir.frontend.notes import Notes

__all__ = ["argument_types", "read_function", "type_unit"]


def argument_types(unit: FunctionUnit, kinds: tuple[Kind, ...]) -> tuple[Any, ...]:
    """Return Numba's types of the arguments of a kernel.

    What these types, and those of the arrays that the kernel makes, register with Numba is known
    when the contexts are refreshed next.
    """
    for use in unit.all_uses():
        if "dtype" in use.static:
            element_type(use.static["dtype"])
    return numba_types(kinds)


def type_unit(unit: FunctionUnit, kinds: tuple[Any, ...], typing_context: Any) -> TypedUnit:
    """Return a normal form with the types of its nodes, for arguments of Numba's types.

    Raises as :func:`read_function`.
    """
    from kerneldsl.ir.frontend.notes import Notes

    notes = Notes(unit, kinds)
    read_function(unit, kinds, typing_context, notes=notes)
    return notes.typed(typing_context)


def read_function(
    unit: FunctionUnit,
    kinds: tuple[Any, ...],
    typing_context: Any,
    *,
    calls_linked: bool = False,
    plain_function: Callable[[FunctionUnit], Any] | None = None,
    debug: bool = False,
    raises: bool = False,
    notes: Notes | None = None,
    made_by: type[Reader] = Reader,
) -> Function:
    """Return the typed function of a normal form for arguments of Numba's types.

    With `calls_linked` linked functions are calls of other code. `plain_function` returns what
    Numba calls for one of its functions. Without these, bodies are read. In debug mode indices
    are checked, and ``assert`` and ``raise`` are faults. A target that `raises` ends a thread by an
    exception where Python does. `notes` get the types of nodes. `made_by` is the class of the
    reader.

    Raises :class:`NotReadError` for what this front end does not read. Raises Numba's
    ``TypingError`` where an operation has no type.
    """
    function = Function(unit.name, tuple(zip(unit.parameters, kinds, strict=True)), unit)
    reader = made_by(unit, Typing.of(typing_context))
    reader.bindings = function.bindings
    reader.calls_linked = calls_linked
    reader.plain_function = plain_function
    reader.faults = Faults() if debug else None
    reader.raises = raises
    reader.notes = notes

    def read() -> None:
        reader.variables = {
            name: unpacked(reader, value)
            for name, value in zip(unit.parameters, function.body.arguments, strict=True)
        }
        read_kernel_body(reader)

    reader.into(function.body, read)
    set_late_types(function.body)
    add_findings(function, reader.names)
    rewrite(function.body, {"cast": _plain})
    if reader.faults is not None:
        function.fault_sites = tuple(reader.faults.sites)
    return function


def _plain(operation: Operation) -> tuple[list[Operation], list[Value]] | None:
    """Drop what findings alone need: why a value is converted, and conversions to its own type."""
    operation.attributes = {}
    (value,) = operation.operands
    return ([], [value]) if value.type == operation.result.type else None
