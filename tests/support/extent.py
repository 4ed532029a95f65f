"""How much a run of the tests covers: a quick part of it, or all.

``KERNELDSL_CHECK=quick``, which ``make check`` sets, leaves out the tests marked ``full`` and tries
fewer random examples in the others. Without it, and in ``make check-full``, everything is run.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Sequence
from typing import Any, TypeVar

import pytest

__all__ = ["IS_QUICK", "VARIABLE", "examples", "full_beyond", "is_full", "sample", "within_extent"]

_T = TypeVar("_T")

#: Environment variable with the extent: ``quick`` or ``full``.
VARIABLE = "KERNELDSL_CHECK"


def _read() -> bool:
    value = os.environ.get(VARIABLE) or "full"
    if value not in ("quick", "full"):
        raise ValueError(f"{VARIABLE} is {value!r}; it must be 'quick' or 'full'")
    return value == "quick"


#: Whether this is a quick run.
IS_QUICK = _read()
#: Class of what ``pytest.param`` returns.
_PARAMETER = type(pytest.param())
#: The part of the random examples that a quick run tries.
_QUICK_PART = 5


def examples(count: int, quick: int | None = None) -> int:
    """Number of random examples to try: `count`, or in a quick run a part of it.

    Parameters
    ----------
    count : int
        Examples of a full run.
    quick : int, optional
        Those of a quick run, where each compiles kernels of its own; a fifth of `count` by default.
    """
    if not IS_QUICK:
        return count
    return max(1, count // _QUICK_PART) if quick is None else quick


def sample(values: Sequence[_T], count: int) -> Sequence[_T]:
    """Values that one test tries in turn: all, or `count` of them at even distances.

    Parameters
    ----------
    values : sequence
        Those of a full run.
    count : int
        How many a quick run tries.
    """
    return values[:: -(-len(values) // count)] if IS_QUICK else values


def full_beyond(values: Iterable[Any], quick: Container[Any]) -> list[Any]:
    """Parameters of which a quick run takes only some.

    Parameters
    ----------
    values : iterable
        Values, or what ``pytest.param`` made of them. Of several names each must be of
        ``pytest.param``: a tuple is one value.
    quick : container
        Those of a quick run; the others are marked ``full``.
    """
    return within_extent([value if value in quick else _marked_full(value) for value in values])


def within_extent(parameters: list[Any]) -> list[Any]:
    """Parameters that this run tries: in a quick run, those that are not marked ``full``.

    Such ones would be left out later as well, but to collect thousands takes long. Where there are
    no others, all are returned.
    """
    kept = [each for each in parameters if not is_full(each)] if IS_QUICK else parameters
    return kept or parameters


def is_full(marked: Any) -> bool:
    """Return whether a parameter, or a test function, is marked ``full``."""
    marks = marked.marks if isinstance(marked, _PARAMETER) else getattr(marked, "pytestmark", ())
    return any(mark.name == "full" for mark in marks)


def _marked_full(value: Any) -> Any:
    if isinstance(value, _PARAMETER):
        return pytest.param(*value.values, marks=[*value.marks, pytest.mark.full], id=value.id)
    return pytest.param(value, marks=pytest.mark.full)
