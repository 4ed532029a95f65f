"""Options that are True or False."""

from __future__ import annotations

from typing import Any

from kerneldsl.errors.kernels import wrong_type

__all__ = ["read_flag"]


def read_flag(name: str, value: Any) -> bool:
    """Return an option that is a bool; raise `ArgumentTypeError` for anything else."""
    if isinstance(value, bool):
        return value
    raise wrong_type(name, value, "It must be True or False")
