"""A launch plan in words: one line, a page, or a table for a notebook."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from kerneldsl.planner.bounds import BOUND_WORDS
from kerneldsl.target import ElementMapping

if TYPE_CHECKING:
    from kerneldsl.planner.plan import LaunchPlan, PlanAlternative

__all__ = ["explain_plan", "headline", "plan_html"]

_LIMITERS = {"shared_memory": "shared memory", "virtual_resources": "virtual resources"}


def headline(plan: LaunchPlan) -> str:
    """Say in one line what is launched.

    Parameters
    ----------
    plan : LaunchPlan
        What was decided.

    Returns
    -------
    str
    """
    over = "" if plan.extent is None else f" over {_dims(plan.extent)}"
    if plan.host is not None:
        return f"{plan.kernel}{over} on {plan.device}: {_host(plan)}."
    parts = [
        f"{_many(plan.grid_blocks, 'block')} of {_dims(plan.block_dim)} "
        f"thread{'' if math.prod(plan.block_dim) == 1 else 's'}"
    ]
    if plan.mapping.item_count > 1:
        parts.append(_mapping(plan.mapping))
    if plan.cluster_dim is not None:
        one = math.prod(plan.cluster_dim) == 1
        parts.append(f"clusters of {_dims(plan.cluster_dim)} block{'' if one else 's'}")
    if plan.is_cooperative:
        parts.append("cooperative")
    parts += [f"{name} {value}" for name, value in plan.parameters if name != "block"]
    # A device that is only described is called by its architecture.
    where = plan.device if plan.arch in plan.device else f"{plan.device} ({plan.arch})"
    return f"{plan.kernel}{over} on {where}: {', '.join(parts)}."


def explain_plan(plan: LaunchPlan) -> str:
    """Say in words what was decided, why, and what lost against it.

    Parameters
    ----------
    plan : LaunchPlan
        What was decided.

    Returns
    -------
    str
        The headline; what the plan does to the device; the alternatives as a table; notes.
    """
    lines = [headline(plan)]
    lines += [f"  {each}" for each in (*facts(plan), *plan.reasons)]
    if plan.considered:
        lines.append(f"  {_compared(plan.considered_count)} the best of the others:")
        lines += [f"    {row}" for row in _table(_rows(plan))]
    lines += [f"  Note: {note}" for note in plan.notes]
    return "\n".join(lines)


def plan_html(plan: LaunchPlan) -> str:
    """The same as HTML, for notebooks."""
    rows = _rows(plan)
    head = "".join(f"<th style='text-align:left'>{escape(cell)}</th>" for cell in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{escape(c)}</td>" for c in row) + "</tr>"
        for row in rows[1:]
    )
    listed = "".join(f"<li>{escape(each)}</li>" for each in (*facts(plan), *plan.reasons))
    notes = "".join(f"<p><b>Note:</b> {escape(note)}</p>" for note in plan.notes)
    table = f"<table><tr>{head}</tr>{body}</table>" if plan.considered else ""
    return f"<p><b>{escape(headline(plan))}</b></p><ul>{listed}</ul>{table}{notes}"


def facts(plan: LaunchPlan) -> list[str]:
    """What the plan does to the device, a sentence each."""
    found = []
    if plan.occupancy is not None:
        by = " and ".join(_LIMITERS.get(name, name) for name in plan.limiters)
        spills = f", {_many(plan.spill_bytes, 'byte')} spilled" if plan.spill_bytes else ""
        found.append(
            f"Occupancy {_percent(plan.occupancy)}: a multiprocessor holds "
            f"{_many(plan.active_blocks or 0, 'block')} at once, limited by {by} "
            f"({_many(plan.registers or 0, 'register')} a thread{spills})."
        )
    if plan.carveout_bytes:
        found.append(
            f"Shared memory: {_many(plan.shared_bytes, 'dynamic byte')} a block; the blocks of a "
            f"multiprocessor need a carve-out of {plan.carveout_bytes}."
        )
    if plan.waves is not None and plan.tail_efficiency is not None:
        found.append(
            f"Waves {plan.waves:.2f}"
            + (
                f"; {_percent(plan.tail_efficiency)} of the places for blocks are taken."
                if plan.waves > 1
                else ": all blocks run at once."
            )
        )
    if plan.bytes_in_flight and plan.bytes_to_saturate:
        found.append(
            f"Bytes in flight {_bytes(plan.bytes_in_flight)}; memory is busy all the time with "
            f"{_bytes(plan.bytes_to_saturate)}."
        )
    if plan.predicted_ns is not None and plan.bound is not None:
        moved = f" for {_bytes(plan.bytes_moved)}" if plan.bytes_moved else ""
        found.append(
            f"Predicted {_time(plan.predicted_ns)}{moved}, limited by {BOUND_WORDS[plan.bound]}."
        )
    return found


def _rows(plan: LaunchPlan) -> list[tuple[str, ...]]:
    names = tuple(name for name, _ in plan.parameters)
    # Of a space, the members' values say everything.
    head = names or ("block", "items", "vector")
    rows: list[tuple[str, ...]] = [(*head, "predicted", "")]
    compared: list[tuple[LaunchPlan | PlanAlternative, str]] = [(plan, "taken")]
    compared += [(other, other.why) for other in plan.considered]
    for each, why in compared:
        values = dict(each.parameters)
        own = (_dims(each.block_dim), _dims(each.mapping.items), str(each.mapping.vector))
        rows.append(
            (
                *(tuple(str(values.get(name, "")) for name in names) if names else own),
                "–" if each.predicted_ns is None else _time(each.predicted_ns),
                why,
            )
        )
    return rows


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _host(plan: LaunchPlan) -> str:
    assert plan.host is not None
    if not plan.host.is_parallel:
        return "in the calling thread"
    return f"{_many(plan.host.threads, 'thread')}, {plan.host.chunk} at a time"


def _mapping(mapping: ElementMapping) -> str:
    text = f"{_dims(mapping.items)} items a thread"
    if mapping.vector > 1:
        text += f" in vectors of {mapping.vector}"
    elif mapping.items[0] > 1:
        text += " a block apart" if mapping.order == "strided" else " side by side"
    return text


def _dims(dims: tuple[int, ...]) -> str:
    """Extents as a person writes them: trailing ones left out."""
    kept = list(dims)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "×".join(map(str, kept))


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _compared(count: int) -> str:
    verb = "was" if count == 1 else "were"
    return f"{_many(count, 'plan')} {verb} compared. This one, and"


def _bytes(count: int) -> str:
    if count < 1000:
        return _many(count, "byte")
    return _in_units(count, ("KB", "MB", "GB", "TB"), 1e3)


def _time(ns: float) -> str:
    return _in_units(ns, ("ns", "µs", "ms", "s"), 1.0)


def _in_units(number: float, units: tuple[str, ...], first: float) -> str:
    """Three digits, in the unit that leaves one to three of them before the point."""
    for unit in units:
        # Rounded first: 999.9 of a unit is 1 of the next.
        rounded = float(f"{number / first:.3g}")
        if rounded < 1000:
            return f"{rounded:g} {unit}"
        first *= 1e3
    return f"{number * 1e3 / first:.0f} {units[-1]}"
