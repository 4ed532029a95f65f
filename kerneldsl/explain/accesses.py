"""Reports of accesses: the index as a formula, and what the requests cost."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from kerneldsl.errors import SourceLocation
from kerneldsl.explain.symbols import Expression
from kerneldsl.planner.work import SECTOR_BYTES
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.shown import Shown

__all__ = ["AccessReport", "Certainty", "source_text"]

#: Counts are exact; of evenly spread indices, which data may be or not; or a bound, for all threads
#: that may do it.
Certainty: TypeAlias = Literal["exact", "estimate", "bound"]


@dataclass(frozen=True, eq=False)
class AccessReport(Shown):
    """An access of an array, over the whole grid.

    Parameters
    ----------
    array : str
        The array.
    space : {"global", "shared", "local", "constant"}
        Its memory.
    operation : {"load", "store", "atomic"}
        The kind of access.
    text : str
        The access in the kernel's source.
    where : SourceLocation
        Its line.
    itemsize : int
        Bytes that a thread requests.
    index : tuple of sympy.Expr
        Index along each axis, in coordinates, loop counters, parameters and extents.
    offset : sympy.Expr or None
        Elements from the first of an array, in its C or Fortran order. ``None`` if the access is
        not to a plain element, or the array has other strides.
    stride : sympy.Expr, int or None
        Elements from a thread's access to that of its neighbour. A formula if it depends on extents
        or parameters; ``None`` if it differs between threads.
    requests : float
        Requests of warps.
    threads : float
        Accesses of threads.
    sectors : float
        For global memory, the sectors of 32 bytes that all requests touch.
    needed_bytes : float
        The requested bytes of these sectors, each counted once per request.
    wavefronts, least_wavefronts : float
        For shared memory, the wavefronts of the requests, and their number without conflicts.
    certainty : {"exact", "estimate", "bound"}
        Whether the counts are exact, estimated, or an upper bound.
    is_tile : bool
        Whether the block accesses a tile; then there is no index.
    record_bytes, field_offset : int
        For a record or a field, the bytes of a record, and the offset of the field; strides count
        records. Otherwise 0.
    is_bytewise : bool
        Whether each byte is a request, as for a field of a packed dtype and a whole record.
    axis_bytes : tuple of int
        Bytes from an element of the array to the next along each axis; 0 along axes of extent 1.
    """

    array: str
    space: str
    operation: str
    text: str
    where: SourceLocation
    itemsize: int
    index: tuple[Expression, ...]
    offset: Expression | None
    stride: Expression | int | None
    requests: float
    threads: float
    sectors: float
    needed_bytes: float
    wavefronts: float
    least_wavefronts: float
    same_address: float
    certainty: Certainty
    is_tile: bool = False
    record_bytes: int = 0
    field_offset: int = 0
    is_bytewise: bool = False
    axis_bytes: tuple[int, ...] = ()

    @property
    def sectors_per_request(self) -> float:
        """Sectors that a request touches on average; 0 of what is not in global memory."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def wavefronts_per_request(self) -> float:
        """Wavefronts that a request takes on average; 0 of what is not in shared memory."""
        return self.wavefronts / self.requests if self.requests else 0.0

    @property
    def efficiency(self) -> float:
        """Requested part of the touched sectors' bytes; 1 if there are no sectors."""
        return self.needed_bytes / (SECTOR_BYTES * self.sectors) if self.sectors else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return it as numbers and text alone."""
        return {
            "array": self.array,
            "space": self.space,
            "operation": self.operation,
            "text": self.text,
            "file": self.where.filename,
            "line": self.where.lineno,
            "itemsize": self.itemsize,
            "index": [str(each) for each in self.index],
            "offset": None if self.offset is None else str(self.offset),
            "stride": None if self.stride is None else str(self.stride),
            "requests": self.requests,
            "threads": self.threads,
            "sectors": self.sectors,
            "sectors_per_request": self.sectors_per_request,
            "efficiency": self.efficiency,
            "wavefronts": self.wavefronts,
            "wavefronts_per_request": self.wavefronts_per_request,
            "same_address": self.same_address,
            "certainty": self.certainty,
            "is_tile": self.is_tile,
            "record_bytes": self.record_bytes,
            "field_offset": self.field_offset,
            "is_bytewise": self.is_bytewise,
            "axis_bytes": list(self.axis_bytes),
        }


def source_text(where: SourceLocation) -> str:
    """Return the user's text at a location; empty if it is not on one line."""
    if where.col_offset is None or where.end_col_offset is None:
        return ""
    text = where.line[where.col_offset : where.end_col_offset]
    return text if text.count("[") == text.count("]") and text.count("(") == text.count(")") else ""
