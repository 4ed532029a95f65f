"""An explanation as text: a table of accesses, and the findings with their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kerneldsl.utilities.formatting import format_percent

if TYPE_CHECKING:
    from kerneldsl.explain.accesses import AccessReport
    from kerneldsl.explain.explanation import Explanation

__all__ = [
    "ACCESS_HEADERS",
    "access_row",
    "explanation_text",
    "launch_lines",
    "short_number",
    "summary_lines",
]

ACCESS_HEADERS = ("line", "access", "memory", "stride", "requests", "sectors", "used", "wavefronts")
#: Microseconds that a launch takes whatever its kernel does.
_LAUNCH_US = 1
_MARKS = {"exact": "", "estimate": " ~", "bound": " ≤"}


def explanation_text(found: Explanation) -> str:
    rows = _table([ACCESS_HEADERS, *map(access_row, found.accesses)])
    lines = [*launch_lines(found), "", *rows, "", *summary_lines(found)]
    for finding in found.findings:
        lines += ["", str(finding)]
    return "\n".join(lines)


def launch_lines(found: Explanation) -> list[str]:
    """Return what is explained, and what was assumed of it."""
    threads = " × ".join(map(str, found.block_dim))
    blocks = " × ".join(map(str, found.grid_dim))
    lines = [f"{found.kernel}({found.signature}), {blocks} blocks of {threads}, {found.arch}"]
    if found.assumed:
        pairs = ", ".join(f"{name} = {value}" for name, value in found.assumed.items())
        lines.append(f"assumed: {pairs}")
    return lines


def summary_lines(found: Explanation) -> list[str]:
    """Return the facts about the whole launch, one in each line."""
    lines = []
    if any(each.certainty != "exact" for each in found.accesses):
        lines.append("~ for evenly spread indices, ≤ for all threads that data may let do it")
    lines.append(
        f"{short_number(found.flops())} flops; at least {short_number(found.dram_read_bytes)} "
        f"bytes read and {short_number(found.dram_written_bytes)} written; "
        f"{format_percent(found.lanes_at_work)} of lanes at work"
    )
    for dtype, formula in found.formulas.flops.items():
        lines.append(f"{dtype} flops: {formula}")
    lines.append(f"bytes that threads ask for: {found.formulas.requested_bytes}")
    met = found.formulas.met()
    if met:
        pairs = ", ".join(f"{name} = {value:.4g}" for name, value in met.items())
        lines.append(f"shares of executions in this launch: {pairs}")
    roof = found.roofline
    least_us = 1e6 * max(roof.memory_s, roof.arithmetic_s)
    lines.append(
        f"{roof.intensity:.3g} flops a byte. {roof.device}: limited by {roof.roof}, "
        f"at least {least_us:.3g} µs" + ", less than a launch takes" * (least_us < _LAUNCH_US)
    )
    if found.occupancy is not None:
        registers = found.occupancy.kernel.registers
        lines.append(f"{registers} registers a thread. {found.occupancy.summary()}")
    lines += map(str, found.passes or ())
    if found.left_out:
        lines.append(f"not counted: what {', '.join(found.left_out)} access by themselves")
    return lines


def access_row(access: AccessReport) -> tuple[str, ...]:
    """Return an access's row of a table below `ACCESS_HEADERS`."""
    is_global, is_shared = access.space == "global", access.space == "shared"
    return (
        str(access.where.lineno),
        f"{access.operation} {access.text}",
        access.space,
        "" if access.stride is None else str(access.stride),
        short_number(access.requests) + _MARKS[access.certainty],
        f"{access.sectors_per_request:.4g}" if is_global else "",
        format_percent(access.efficiency) if is_global else "",
        f"{access.wavefronts_per_request:.4g}" if is_shared else "",
    )


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(t.ljust(w) for t, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def short_number(value: float) -> str:
    """Return a number with a prefix for thousands.

    Examples
    --------
    >>> short_number(2048), short_number(3.5e9), short_number(12)
    ('2.05k', '3.5G', '12')
    """
    for limit, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{prefix}"
    return f"{value:.3g}"
