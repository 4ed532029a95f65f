"""Faults that a kernel reports in debug mode, and the exceptions that the host makes of them.

The first thread that fails claims the record of its launch by exchanging `state` from 0 to 1,
fills it, and ends. The host reads the record when the kernel has finished. The compiler keeps a
table of the places and texts of faults.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import NamedTuple

from kerneldsl.errors import SourceLocation, fault_class
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.frontend.user_places import user_place
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "FAULT_FIELDS",
    "FAULT_RECORD_BYTES",
    "FaultRecord",
    "FaultSite",
    "FaultTable",
    "raise_fault",
]

#: Fields of the record in order: name, :mod:`struct` format and offset in bytes.
FAULT_FIELDS: tuple[tuple[str, str, int], ...] = (
    ("state", "i", 0),
    ("site", "i", 4),
    ("axis", "i", 8),
    ("padding", "i", 12),
    ("index", "q", 16),
    ("bound", "q", 24),
    ("thread_x", "i", 32),
    ("thread_y", "i", 36),
    ("thread_z", "i", 40),
    ("block_x", "i", 44),
    ("block_y", "i", 48),
    ("block_z", "i", 52),
)
_STRUCT = struct.Struct("=" + "".join(code for _, code, _ in FAULT_FIELDS))
#: Size of the record in bytes; all zeros means that nothing failed.
FAULT_RECORD_BYTES = _STRUCT.size


class FaultSite(NamedTuple):
    """A place in a kernel that can fail."""

    #: Class of the exception: ``IndexError``, ``AssertionError``, or the one that ``raise`` names.
    kind: type[BaseException]
    #: Text of the exception; empty for an index: its text is made of the record.
    message: str
    #: The place in the user's file.
    location: SourceLocation
    #: The indexed array, as the source writes it.
    array: str | None = None


class FaultTable(NamedTuple):
    """The places of a compiled kernel, by their number."""

    #: ``sites[n]`` is the site that the kernel records as *n*.
    sites: tuple[FaultSite, ...] = ()


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """Record written by a failed thread."""

    #: 0 where nothing failed.
    state: int
    #: Number of the place in the fault table.
    site: int
    #: Axis of the array, from 0.
    axis: int
    #: The index, and the extent of that axis.
    index: int
    bound: int
    #: Coordinates of the thread.
    thread_idx: tuple[int, int, int]
    block_idx: tuple[int, int, int]

    @classmethod
    def from_bytes(cls, record: bytes) -> FaultRecord:
        """Read a record of `FAULT_RECORD_BYTES` bytes, in native byte order."""
        state, site, axis, _, index, bound, *where = _STRUCT.unpack(record[:FAULT_RECORD_BYTES])
        return cls(
            state,
            site,
            axis,
            index,
            bound,
            (where[0], where[1], where[2]),
            (where[3], where[4], where[5]),
        )


def raise_fault(record_bytes: bytes, table: FaultTable, kernel: FunctionUnit) -> None:
    """Raise the exception that a kernel recorded, with the user's place.

    Raises `KernelFault` where the record is filled: an exception that is also of the class that the
    kernel raised.
    """
    record = FaultRecord.from_bytes(record_bytes)
    if record.state == 0:
        return
    if -record.bound <= record.index < 0:
        # Signed, it would be in range: it is an unsigned number of 64 bits.
        record = replace(record, index=record.index + 2**64)
    site = table.sites[record.site]
    place = f"thread {record.thread_idx} of block {record.block_idx}"
    if site.array is not None:
        what = (
            f"Index {record.index} is out of range for axis {record.axis} of {site.array} "
            f"with extent {record.bound}, in {place}"
        )
    else:
        what = f"{site.kind.__name__} in {place}" + (f": {site.message}" if site.message else "")
    raise fault_class(site.kind)(
        what,
        thread_idx=record.thread_idx,
        block_idx=record.block_idx,
        where=user_place(site.location, kernel),
        value=record.index if site.array is not None else site.message,
        limit=_valid_indices(record) if site.array is not None else None,
        remedy="Guard the access, or correct the index" if site.array is not None else None,
    )


def _valid_indices(record: FaultRecord) -> str:
    if record.bound == 0:
        return "The axis is empty"
    below = f"0 to {record.bound - 1}"
    return f"Valid are {below}" + (f", and -{record.bound} to -1" if record.index < 0 else "")
