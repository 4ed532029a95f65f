"""The text of a plan as a value: what an interpreter shows, and reads again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

__all__ = ["plan_repr", "short_repr"]

_WIDTH = 96
_INDENT = "    "


def short_repr(value: Any) -> str:
    """Return a dataclass as the call that makes it, without fields that have their default.

    Examples
    --------
    >>> from kerneldsl import ElementMapping
    >>> short_repr(ElementMapping((4, 1, 1), vector=4))
    'ElementMapping(items=(4, 1, 1), vector=4)'
    """
    return f"{type(value).__name__}({', '.join(_given(value))})"


def plan_repr(plan: Any, headline: str) -> str:
    """Return a plan as the call that makes it, broken into lines, under what it says in one line.

    `headline` stands in a comment, so that the whole is an expression.
    """
    lines = [f"{type(plan).__name__}(  # {' '.join(headline.split())}"]
    current = ""
    for part in (f"{each}," for each in _given(plan)):
        if current and len(_INDENT) + len(current) + 1 + len(part) > _WIDTH:
            lines.append(_INDENT + current)
            current = ""
        current = f"{current} {part}".lstrip()
    return "\n".join([*lines, _INDENT + current, ")"])


def _given(value: Any) -> Iterator[str]:
    for field in fields(value):
        if not field.repr:
            continue
        found = getattr(value, field.name)
        if field.default is MISSING or found != field.default:
            yield f"{field.name}={_written(found)}"


def _written(value: Any) -> str:
    """Return an expression of a field's value; a tuple of long ones has a line for each."""
    if hasattr(value, "__dataclass_fields__"):
        return short_repr(value)
    if type(value) is not tuple:
        return repr(value)
    parts = [_written(item) for item in value]
    if sum(map(len, parts)) < _WIDTH:
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    inner = "".join(f"{2 * _INDENT}{part},\n" for part in parts)
    return f"(\n{inner}{_INDENT})"
