"""Errors of arguments that are refused: their name, the value found, the limit and the remedy."""

from __future__ import annotations

from typing import Any

from kerneldsl.errors.kernels import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import safe_repr

__all__ = ["wrong_type", "wrong_value"]


def wrong_type(name: str, value: Any, limit: str, remedy: str | None = None) -> ArgumentTypeError:
    """Return the error of an argument's type, whatever the value is."""
    what = f"{name} is {safe_repr(value)}"
    return ArgumentTypeError(what, value=value, limit=limit, remedy=remedy)


def wrong_value(
    name: str,
    value: Any,
    limit: str,
    remedy: str | None = None,
    kind: Any = ArgumentValueError,
) -> Any:
    """Return the error of an argument's value, whatever that is."""
    return kind(f"{name} is {safe_repr(value)}", value=value, limit=limit, remedy=remedy)
