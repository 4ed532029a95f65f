"""Options that are True or False."""

from __future__ import annotations

from typing import Any

from kerneldsl.errors import ArgumentTypeError
from kerneldsl.errors.values import safe_repr

__all__ = ["read_flag"]


def read_flag(name: str, value: Any) -> bool:
    """Return an option that is a bool; raise `ArgumentTypeError` for anything else."""
    if isinstance(value, bool):
        return value
    raise ArgumentTypeError(
        f"{name} is {safe_repr(value)}", value=value, limit="It must be True or False"
    )
