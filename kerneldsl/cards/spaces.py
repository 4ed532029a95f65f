"""Cards of spaces of compile-time parameters, and of their members."""

from __future__ import annotations

from kerneldsl.planner.space import Member, Space
from kerneldsl.utilities.formatting import format_bytes, format_count
from kerneldsl.utilities.html import Html, card, element, facts_table, fold, table

__all__ = ["member_card", "space_card"]

#: Members that the table lists.
_SHOWN = 64


def space_card(space: Space) -> Html:
    """Return the card of a space: its parameters, and its members folded."""
    rows = [
        (*(value for _, value in member.values), space.tile(member), _shared(space, member))
        for member in space.members[:_SHOWN]
    ]
    more = len(space) - len(rows)
    return card(
        f"Space of {format_count(len(space), 'member')}",
        facts_table(
            (name, ", ".join(map(str, values))) for name, values in space.parameters.items()
        ),
        fold(
            "Members",
            table((*space.parameters, "indices of a block", "shared memory"), rows),
            element("p", f"and {more} more") if more else Html(),
        ),
    )


def _shared(space: Space, member: Member) -> str | None:
    nbytes = space.shared_bytes(member)
    return format_bytes(nbytes) if nbytes else None


def member_card(member: Member) -> Html:
    return card(
        "Member of a space",
        facts_table((*member.values, ("threads of a block", member.block_threads))),
    )
