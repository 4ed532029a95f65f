"""Cards of tuples of things: accesses, findings, plans, specializations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from kerneldsl.cards.launches import specializations_rows
from kerneldsl.explain import AccessReport, Explanation, Finding
from kerneldsl.explain.roofline import Roofline
from kerneldsl.explain.text import (
    ACCESS_HEADERS,
    access_row,
    launch_lines,
    short_number,
    summary_lines,
)
from kerneldsl.launch.specialization_info import SpecializationInfo
from kerneldsl.planner.plan import LaunchPlan
from kerneldsl.planner.words import plan_rows
from kerneldsl.utilities.formatting import format_duration, html_table, text_table
from kerneldsl.utilities.html import Html, card, element, facts_table, fold, items, table
from kerneldsl.utilities.shown import ShownTuple

__all__ = [
    "access_card",
    "explanation_card",
    "finding_card",
    "finding_rows",
    "roofline_card",
    "tuple_card",
    "tuple_text",
]


def explanation_card(found: Explanation) -> Html:
    """Return the card of an explanation: findings first, then accesses and the numbers."""
    head, *assumed = launch_lines(found)
    return card(
        head,
        *(element("p", each) for each in assumed),
        *map(_finding, found.findings),
        fold("Accesses", table(ACCESS_HEADERS, map(access_row, found.accesses)), is_open=True),
        items(summary_lines(found)),
    )


def access_card(access: AccessReport) -> Html:
    """Return the card of an access: its place, its index as a formula, what it costs."""
    rows = zip(ACCESS_HEADERS[1:], access_row(access)[1:], strict=True)
    return card(
        f"{access.operation} {access.text}",
        _place(access),
        facts_table(
            (
                ("index", ", ".join(map(str, access.index)) or None),
                *((name, value or None) for name, value in rows if name != "access"),
                ("bytes a thread", access.itemsize),
                ("counts are", access.certainty),
            )
        ),
    )


def finding_card(finding: Finding) -> Html:
    return card(None, _finding(finding))


def finding_rows(
    findings: Iterable[Finding],
) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
    """Return the headers and rows of a table of findings."""
    return ("line", "about", "found", "remedy"), (
        (each.where.lineno, each.kind, each.what, each.remedy) for each in findings
    )


def roofline_card(found: Roofline) -> Html:
    """Return the card of a roofline: which roof there is, and what it is made of."""
    return card(
        f"{found.device}: limited by {found.roof}",
        facts_table(
            (
                ("flops a byte", f"{found.intensity:.3g}"),
                ("limited by arithmetic from", f"{found.ridge:.3g} flops a byte on"),
                ("memory takes at least", format_duration(1e9 * found.memory_s)),
                ("arithmetic takes at least", format_duration(1e9 * found.arithmetic_s)),
                ("device memory", f"{short_number(found.memory_bytes_per_s)}B/s"),
                ("level-2 cache", f"{short_number(found.l2_bytes_per_s)}B/s"),
                ("arithmetic", f"{short_number(found.peak_flops_per_s)}flop/s"),
            )
        ),
    )


def _place(of: AccessReport | Finding) -> Html:
    return element("pre", element("span", of.where.render(), class_="row"))


def _finding(finding: Finding) -> Html:
    return fold(
        element(
            "span", f"{finding.kind}, line {finding.where.lineno}: {finding.what}", class_="finding"
        ),
        _place(finding),
        element("p", f"{finding.why}. {finding.remedy}."),
        is_open=True,
    )


#: Things of a tuple that are shown; a launch has hundreds of plans.
_MAX_ROWS = 40
_Rows: TypeAlias = tuple[Sequence[str], Iterable[Sequence[object]]]
#: Function that returns the headers and rows of a table, by the class of a tuple's items.
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
