"""Element types of dates and durations: NumPy's ``datetime64`` and ``timedelta64`` with a unit.

Both are integers of 64 bits; the smallest is NaT. Units are NumPy's, without multiples
such as 25 seconds. Years are 12 months; what follows, from weeks on, are exact multiples too.
Between the two groups there is a calendar, and no factor.

References
----------
NumPy, "Datetimes and timedeltas", section "Datetime units".
"""

from __future__ import annotations

import re

__all__ = ["NAT", "common_unit", "is_time_name", "unit_factor", "unit_of"]

#: Number of a missing date or duration.
NAT = -(2**63)

#: Each unit and how many of the next one it is; there is none after months and attoseconds.
_NEXT = {
    "Y": 12,
    "M": None,
    "W": 7,
    "D": 24,
    "h": 60,
    "m": 60,
    **dict.fromkeys(("s", "ms", "us", "ns", "ps", "fs"), 1000),
    "as": None,
}
_UNITS = tuple(_NEXT)
_NAME = re.compile(rf"(datetime|timedelta)64\[({'|'.join(_UNITS)})\]")


def is_time_name(name: object) -> bool:
    """Return whether an element type's name is that of dates or durations.

    Examples
    --------
    >>> [is_time_name(f"timedelta64{unit}") for unit in ("[ms]", "[25s]", "")]
    [True, False, False]
    """
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def unit_of(name: str) -> str:
    """Return the unit of an element type of dates or durations.

    - raises `KeyError` for another name.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise KeyError(name)
    return found[2]


def unit_factor(unit: str, finer: str) -> int | None:
    """Return how many of a unit one of another is; ``None`` if that is no whole number.

    Examples
    --------
    >>> unit_factor("h", "s"), unit_factor("s", "s"), unit_factor("s", "h"), unit_factor("M", "D")
    (3600, 1, None, None)
    """
    factor = 1
    for each in _UNITS[_UNITS.index(unit) :]:
        if each == finer:
            return factor
        step = _NEXT[each]
        if step is None:
            return None
        factor *= step
    return None


def common_unit(one: str, two: str) -> str | None:
    """Return the finer of two units, as NumPy's operators do; ``None`` where a calendar is needed.

    Examples
    --------
    >>> common_unit("h", "ms"), common_unit("M", "Y"), common_unit("D", "M")
    ('ms', 'M', None)
    """
    if unit_factor(one, two) is not None:
        return two
    return one if unit_factor(two, one) is not None else None
