"""Reports of what was counted."""

from __future__ import annotations

from kerneldsl.explain.accesses import AccessReport, Certainty, source_text
from kerneldsl.explain.explanation import BranchReport
from kerneldsl.explain.indices import Indices
from kerneldsl.explain.sites import Site
from kerneldsl.explain.symbols import Expression, neighbour_stride
from kerneldsl.explain.tally import AccessTally, BranchTally
from kerneldsl.explain.values import Space

__all__ = ["report_access", "report_branch"]


def report_access(tally: AccessTally, indices: Indices) -> AccessReport:
    """Return the report of an access."""
    is_tile = tally.tile_share is not None
    index, offset = ((), None) if is_tile else indices.place(tally.operations)
    operation = "atomic" if tally.is_atomic else "store" if tally.is_store else "load"
    certainty: Certainty = "exact"
    if tally.depends_on_data:
        certainty = "estimate"
    elif tally.is_uncertain:
        certainty = "bound"
    memory = tally.memory
    is_counted = memory.space is Space.GLOBAL
    return AccessReport(
        array=memory.name,
        space=memory.space.value,
        operation=operation,
        text=shown_text(tally.site),
        where=tally.site.where,
        itemsize=tally.itemsize,
        index=index,
        offset=offset,
        stride=_stride(tally, offset),
        requests=tally.requests,
        threads=tally.lanes,
        sectors=tally.sectors if is_counted else 0.0,
        needed_bytes=tally.needed_bytes if is_counted else 0.0,
        wavefronts=tally.wavefronts,
        least_wavefronts=tally.least_wavefronts,
        same_address=tally.lanes / tally.addresses if tally.addresses else 1.0,
        certainty=certainty,
        is_tile=is_tile,
        record_bytes=0 if tally.part is None else tally.part.record_bytes,
        field_offset=0 if tally.part is None else tally.part.offset,
        is_bytewise=tally.part is not None and not tally.part.is_aligned,
        axis_bytes=tuple(
            nbytes if extent > 1 else 0
            for nbytes, extent in zip(memory.strides, memory.shape, strict=True)
        ),
    )


def _stride(tally: AccessTally, offset: Expression | None) -> Expression | int | None:
    """Return the stride as a formula if it contains symbols, else the counted number."""
    met = tally.stride
    if met is None or tally.depends_on_data:
        return None
    formula = None if offset is None else neighbour_stride(offset)
    return formula if formula is not None and formula.free_symbols else met


def report_branch(tally: BranchTally) -> BranchReport:
    """Return the report of a branch or a loop."""
    return BranchReport(
        tally.site.where,
        shown_text(tally.site),
        tally.is_loop,
        tally.warps,
        tally.divergent,
        tally.share,
        tally.depends_on_data,
    )


def shown_text(site: Site) -> str:
    """Return the user's text."""
    return source_text(site.where) or site.text
