"""Cards of what was measured or made: times, resources, specializations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kerneldsl.contract import Resources
from kerneldsl.launch.specialization_info import SpecializationInfo
from kerneldsl.launch.timing import Timing
from kerneldsl.utilities.formatting import format_bytes, format_duration
from kerneldsl.utilities.html import Html, card, facts_table, table

__all__ = [
    "resources_card",
    "specialization_card",
    "specializations_rows",
    "specializations_table",
    "timing_card",
]


def timing_card(timing: Timing) -> Html:
    """Return the card of a measured time."""
    return card(
        f"{format_duration(timing.median_ns)} a launch",
        facts_table(
            (
                ("median", format_duration(timing.median_ns)),
                ("best", format_duration(timing.min_ns)),
                ("samples", f"{timing.samples}, of {timing.launches:,} launches each"),
                ("device", timing.device),
                ("includes", timing.includes),
            )
        ),
    )


def resources_card(resources: Resources) -> Html:
    """Return the card of what a compiled kernel takes."""
    return card(
        "Resources of a kernel",
        facts_table(
            (
                ("registers of a thread", resources.registers),
                ("spilled by a thread", _bytes(resources.spill_bytes)),
                ("local memory of a thread", _bytes(resources.local_bytes)),
                ("static shared memory of a block", _bytes(resources.static_shared_bytes)),
                ("largest block", f"{resources.max_block_threads} threads"),
            )
        ),
    )


def _bytes(count: int | None) -> str | None:
    return None if count is None else format_bytes(count)


def specialization_card(info: SpecializationInfo) -> Html:
    """Return the card of a compiled form of a kernel."""
    return card("Compiled for", specializations_table((info,)))


def specializations_table(infos: Iterable[SpecializationInfo]) -> Html:
    """Return the table of compiled forms."""
    return table(*specializations_rows(infos))


def specializations_rows(
    infos: Iterable[SpecializationInfo],
) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
    """Return the headers and rows of the table of compiled forms."""
    return ("target", "architecture", "arguments", "launch", "block", "compiled in"), (
        (
            info.target,
            info.arch,
            info.signature,
            "grid and block" if info.forall_ndim is None else f"extent of rank {info.forall_ndim}",
            info.block_dim,
            format_duration(info.compile_s * 1e9),
        )
        for info in infos
    )
