"""Cards of values that are a table and no more: devices, back ends, rankings."""

from __future__ import annotations

from kerneldsl.utilities.formatting import AsTable, html_table
from kerneldsl.utilities.html import Html

__all__ = ["table_card"]


def table_card(shown: AsTable) -> Html:
    """Return the card of a table."""
    return html_table(*shown._table(), shown._caption())
