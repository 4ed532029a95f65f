"""numba.cuda.atomic: kerneldsl's atomic operations, by numba.cuda's names too."""

from __future__ import annotations

from typing import Any

from kerneldsl.kernels.decorators import func
from kerneldsl.language.intrinsics.atomics import atomic as _atomic

__all__ = ["compare_and_swap", "max", "min", "nanmax", "nanmin"]

#: kerneldsl's functions ignore NaN, too.
nanmax, nanmin = _atomic.max, _atomic.min


@func
def compare_and_swap(ary: Any, old: Any, val: Any) -> Any:
    """Store `val` in the first element if that is `old`; return what it was."""
    return _atomic.cas(ary, 0, old, val)


@func
def max(ary: Any, idx: Any, val: Any) -> Any:
    """Store the larger of an element and `val`, unless one is NaN; return what it was."""
    old = ary[idx]
    if old != old:  # noqa: PLR0124 -- NaN
        return old
    return _atomic.max(ary, idx, val)


@func
def min(ary: Any, idx: Any, val: Any) -> Any:
    """Store the smaller of an element and `val`, unless one is NaN; return what it was."""
    old = ary[idx]
    if old != old:  # noqa: PLR0124 -- NaN
        return old
    return _atomic.min(ary, idx, val)


def __getattr__(name: str) -> Any:
    return getattr(_atomic, name)


def __dir__() -> list[str]:
    return sorted({*dir(_atomic), *__all__})
