"""The card of an explanation."""

from __future__ import annotations

from kerneldsl.explain import Explanation, Finding
from kerneldsl.explain.text import ACCESS_HEADERS, access_row, launch_lines, summary_lines
from kerneldsl.utilities.html import Html, card, element, fold, items, table

__all__ = ["explanation_card"]


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


def _finding(finding: Finding) -> Html:
    return fold(
        element(
            "span", f"{finding.kind}, line {finding.where.lineno}: {finding.what}", class_="finding"
        ),
        element("pre", element("span", finding.where.render(), class_="row")),
        element("p", f"{finding.why}. {finding.remedy}."),
        is_open=True,
    )
