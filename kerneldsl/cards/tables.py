"""Cards of values that are a table and no more: devices, back ends, profiles.

These show at once: nothing here imports what analyzes or compiles kernels.
"""

from __future__ import annotations

from kerneldsl.profiling.profile import Profile
from kerneldsl.utilities.formatting import AsTable, html_table
from kerneldsl.utilities.html import Html

__all__ = ["profile_card", "profile_text", "table_card"]


def table_card(shown: AsTable) -> Html:
    return html_table(*shown._table(), shown._caption())


def profile_card(profile: Profile) -> Html:
    """Return the card of a profile: its summary."""
    return table_card(profile.summary())


def profile_text(profile: Profile) -> str:
    """Return what a terminal shows of a profile."""
    return f"{profile!r}\n{profile.summary()!r}"
