"""Cards of tuples of things: accesses, findings, plans, specializations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from kerneldsl.cards.explanations import finding_rows
from kerneldsl.cards.measured import specializations_rows
from kerneldsl.explain import AccessReport, Finding
from kerneldsl.explain.text import ACCESS_HEADERS, access_row
from kerneldsl.launch.specialization_info import SpecializationInfo
from kerneldsl.planner.plan import LaunchPlan
from kerneldsl.planner.words import plan_rows
from kerneldsl.utilities.formatting import html_table, text_table
from kerneldsl.utilities.html import Html
from kerneldsl.utilities.shown import ShownTuple

__all__ = ["tuple_card", "tuple_text"]

#: Things of a tuple that are shown; a launch has hundreds of plans.
_MAX_ROWS = 40
_Rows: TypeAlias = tuple[Sequence[str], Iterable[Sequence[object]]]
#: Class of the things in a tuple to what gives the headers and rows of its table.
_ROWS: Mapping[type, Callable[[Any], _Rows]] = {
    AccessReport: lambda accesses: (ACCESS_HEADERS, map(access_row, accesses)),
    Finding: finding_rows,
    LaunchPlan: plan_rows,
    SpecializationInfo: specializations_rows,
}


def tuple_card(shown: ShownTuple[Any]) -> Html:
    """Return the card of a tuple: a row for each of the things in it."""
    left_out = _left_out(shown)
    return html_table(*_rows(shown), left_out or None)


def tuple_text(shown: ShownTuple[Any]) -> str:
    """Return what a terminal shows of a tuple."""
    return f"{text_table(*_rows(shown))}\n{_left_out(shown)}".rstrip() if shown else "()"


def _rows(shown: ShownTuple[Any]) -> _Rows:
    """Return the headers and rows, each numbered as it is indexed."""
    headers, rows = _ROWS[type(shown[0])](shown[:_MAX_ROWS]) if shown else (("empty",), ())
    return ("", *headers), ((f"[{n}]", *row) for n, row in enumerate(rows))


def _left_out(shown: ShownTuple[Any]) -> str:
    count = len(shown) - _MAX_ROWS
    return f"The first {_MAX_ROWS}; {count} more are not shown" if count > 0 else ""
