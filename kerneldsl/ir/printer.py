"""Print a function as text."""

from __future__ import annotations

from typing import Any

from kerneldsl.ir.operations import Function, Operation, Region, Value

__all__ = ["print_function", "print_region"]


def print_function(function: Function, body: Region | None = None) -> str:
    """Return the text of a function; `body` is another region in the place of its body."""
    names = _Names()
    header = ", ".join(f"{names.of(v)}: {_type(v)}" for v in function.body.arguments)
    lines = [f"kernel {function.name}({header}) {{"]
    _region(function.body if body is None else body, names, lines, 1)
    return "\n".join([*lines, "}"])


def print_region(region: Region) -> str:
    """Return the text of the operations of a region."""
    lines: list[str] = []
    _region(region, _Names(), lines, 0)
    return "\n".join(lines)


class _Names:
    def __init__(self) -> None:
        self._names: dict[Value, str] = {}
        self._counts: dict[str, int] = {}

    def of(self, value: Value) -> str:
        found = self._names.get(value)
        if found is None:
            stem = value.name
            count = self._counts.get(stem, 0)
            self._counts[stem] = count + 1
            found = f"%{stem}.{count}" if stem and count else f"%{stem or count}"
            self._names[value] = found
        return found


def _type(value: Value) -> str:
    text = str(value.type)
    return text.replace("array(", "").replace(", 1d, C)", "[::1]").replace(", 2d, C)", "[:, ::1]")


def _attribute(value: Any) -> str:
    if hasattr(value, "typing_key"):
        value = value.typing_key
    if hasattr(value, "__name__"):
        return str(value.__name__)
    if hasattr(value, "name") and isinstance(value.name, str):
        return value.name
    return str(value)


def _region(region: Region, names: _Names, lines: list[str], depth: int) -> None:
    for operation in region.operations:
        _operation(operation, names, lines, depth)


def _operation(operation: Operation, names: _Names, lines: list[str], depth: int) -> None:
    indent = "  " * depth
    if operation.name == "yield":
        if operation.operands:
            lines.append(f"{indent}yield {', '.join(map(names.of, operation.operands))}")
        return
    results = ", ".join(f"{names.of(v)}: {_type(v)}" for v in operation.results)
    shown = dict(operation.attributes)
    name = operation.name
    if name == "numba":
        name = f"numba.{_attribute(shown.pop('function'))}"
    marks = shown.pop("nonnegative", ())
    if not all(marks):
        shown["may_wrap"] = tuple(n for n, is_marked in enumerate(marks) if not is_marked)
    attributes = ", ".join(
        f"{key}={_attribute(value)}" if key != "value" else f"{value}"
        for key, value in shown.items()
        if key not in ("signature", "use", "call", "site", "called", "name", "memory")
    )
    text = f"{indent}{results + ' = ' if results else ''}{name}"
    if attributes:
        text += f"[{attributes}]"
    if operation.operands:
        text += f" {', '.join(map(names.of, operation.operands))}"
    if operation.place is not None and not operation.regions:
        text += f"  # {operation.place[0]}"
    if not operation.regions:
        lines.append(text)
        return
    for number, region in enumerate(operation.regions):
        arguments = ", ".join(f"{names.of(v)}: {_type(v)}" for v in region.arguments)
        lines.append(
            (text if number == 0 else f"{indent}}}")
            + (f" ({arguments})" if arguments else "")
            + " {"
        )
        _region(region, names, lines, depth + 1)
    lines.append(f"{indent}}}")
