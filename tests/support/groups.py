"""Give what the operations of warps and blocks give, for the slow references.

Values stand under the index of their lane or thread; who takes no part has none. The order in which
they are combined is that of the language page, written down once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.support.warps import WARP_SIZE

__all__ = [
    "GROUPS",
    "GROUP_WORDS",
    "added_as",
    "greatest",
    "least",
    "of_group",
    "of_one_type",
    "rounded",
    "scan_of_warp",
    "tree",
]

#: The groups by name.
GROUPS = ("warp", "block")

_Combine = Callable[[Any, Any], Any]
_Values = Mapping[int, Any]


def added_as(value: Any) -> Any:
    """A number as sums take it."""
    number = np.asarray(value)
    if number.dtype.kind == "b" or (number.dtype.kind == "i" and number.dtype.itemsize < 4):
        return np.int32(value)
    if number.dtype.kind == "u" and number.dtype.itemsize < 4:
        return np.uint32(value)
    if number.dtype.itemsize == 2:
        return np.float32(value)
    return number.dtype.type(value)


def rounded(value: Any, like: Any) -> Any:
    """A sum in the type of what was added."""
    dtype = np.asarray(like).dtype
    return dtype.type(value) if dtype.itemsize == 2 and dtype.kind not in "iu" else value


def _add(a: Any, b: Any) -> Any:
    return a + b


def greatest(a: Any, b: Any) -> Any:
    if a != a:
        return b
    if b != b:
        return a
    if a == b:
        return b if np.signbit(a) else a
    return max(a, b)


def least(a: Any, b: Any) -> Any:
    if a != a:
        return b
    if b != b:
        return a
    if a == b:
        return a if np.signbit(a) else b
    return min(a, b)


def tree(values: _Values, combine: _Combine) -> Any:
    """All values of a warp: neighbours first, then neighbouring pairs, and so on."""
    level = dict(values)
    while set(level) != {0}:
        parts: dict[int, Any] = {}
        for index in sorted(level):
            known = parts.get(index // 2)
            is_first = index // 2 not in parts
            parts[index // 2] = level[index] if is_first else combine(known, level[index])
        level = parts
    return level[0]


def scan_of_warp(values: _Values, combine: _Combine, width: int = WARP_SIZE) -> dict[int, Any]:
    """Each value with all before it: what an upper half has, behind all of the lower half."""
    if width == 1:
        return dict(values)
    half = width // 2
    low = scan_of_warp({i: v for i, v in values.items() if i < half}, combine, half)
    high = scan_of_warp({i - half: v for i, v in values.items() if i >= half}, combine, half)
    if low:
        last = low[max(low)]
        high = {i: combine(last, v) for i, v in high.items()}
    return low | {i + half: v for i, v in high.items()}


def _warps(values: _Values) -> dict[int, dict[int, Any]]:
    warps: dict[int, dict[int, Any]] = {}
    for number in sorted(values):
        warps.setdefault(number // WARP_SIZE, {})[number % WARP_SIZE] = values[number]
    return warps


def _reduce(values: _Values, combine: _Combine) -> Any:
    totals = [tree(warp, combine) for warp in _warps(values).values()]
    result = totals[0]
    for total in totals[1:]:
        result = combine(result, total)
    return result


def _scan(values: _Values, combine: _Combine) -> dict[int, Any]:
    result: dict[int, Any] = {}
    for number, warp in _warps(values).items():
        scanned = scan_of_warp(warp, combine)
        if result:
            last = result[max(result)]
            scanned = {lane: combine(last, value) for lane, value in scanned.items()}
        result |= {number * WARP_SIZE + lane: value for lane, value in scanned.items()}
    return result


def _sum(given: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
    total = _reduce({i: added_as(args[0]) for i, args in given.items()}, _add)
    return {i: rounded(total, args[0]) for i, args in given.items()}


def _extreme(combine: _Combine) -> Callable[[Mapping[int, tuple[Any, ...]]], dict[int, Any]]:
    def answer(given: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        return dict.fromkeys(given, _reduce({i: args[0] for i, args in given.items()}, combine))

    return answer


def _reduced(given: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
    operation = next(iter(given.values()))[1]
    total = _reduce({i: args[0] for i, args in given.items()}, of_one_type(operation))
    return dict.fromkeys(given, total)


def of_one_type(operation: _Combine) -> _Combine:
    """An operation whose result has the type of its operands."""

    def combine(a: Any, b: Any) -> Any:
        return np.asarray(operation(a, b)).astype(np.asarray(a).dtype)[()]

    return combine


def _scan_with(given: Mapping[int, tuple[Any, ...]]) -> tuple[dict[int, Any], _Combine]:
    """Each value with all before it, not rounded yet, and what combines them."""
    operation = next(iter(given.values()))[1]
    if operation is None:
        return _scan({i: added_as(args[0]) for i, args in given.items()}, _add), _add
    combine = of_one_type(operation)
    return _scan({i: args[0] for i, args in given.items()}, combine), combine


def _inclusive(given: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
    scanned, _ = _scan_with(given)
    return {i: rounded(value, given[i][0]) for i, value in scanned.items()}


def _exclusive(given: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
    scanned, combine = _scan_with(given)
    answers: dict[int, Any] = {}
    before: Any = None
    for number in sorted(scanned):
        x, _, initial = given[number]
        kind = type(scanned[number])
        if initial is not None:
            initial = kind(rounded(initial, x))
            answer = initial if before is None else combine(initial, before)
        else:
            answer = kind(0) if before is None else before
        answers[number] = rounded(answer, x)
        before = scanned[number]
    return answers


def _broadcast(given: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
    return {i: given[int(source)][0] for i, (_, source) in given.items()}


def _exchange(given: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
    return {i: given.get(int(source), (x,))[0] for i, (x, source) in given.items()}


def _sort(given: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
    threads = sorted(given)

    def key(thread: int) -> Any:
        value = given[thread][0]
        return (1, 0) if value != value else (0, value)

    order = sorted(threads, key=key)
    has_values = given[threads[0]][1] is not None
    return {
        thread: given[source] if has_values else given[source][0]
        for thread, source in zip(threads, order, strict=True)
    }


def _truths(given: Mapping[int, tuple[Any, ...]]) -> list[bool]:
    return [bool(args[0]) for args in given.values()]


#: Each operation: from the arguments of who takes part, to what each of them gets.
_WORDS: dict[str, Callable[[Mapping[int, tuple[Any, ...]]], dict[int, Any]]] = {
    "sum": _sum,
    "max": _extreme(greatest),
    "min": _extreme(least),
    "any": lambda given: dict.fromkeys(given, any(_truths(given))),
    "all": lambda given: dict.fromkeys(given, all(_truths(given))),
    "count": lambda given: dict.fromkeys(given, np.int32(sum(_truths(given)))),
    "reduce": _reduced,
    "broadcast": _broadcast,
    "exchange": _exchange,
    "sort": _sort,
    "inclusive_scan": _inclusive,
    "exclusive_scan": _exclusive,
}
GROUP_WORDS = frozenset(_WORDS)


def of_group(word: str, given: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
    """Return what each thread of a group gets.

    Parameters
    ----------
    word : str
        One of :data:`GROUP_WORDS`.
    given : mapping
        For each lane or thread that takes part, its arguments.
    """
    with np.errstate(all="ignore"):
        return _WORDS[word](given)
