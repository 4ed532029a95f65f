"""From what a launch left behind to the exception, on the CPU."""

from __future__ import annotations

import errno
import struct
from typing import TYPE_CHECKING, NoReturn

from kerneldsl.contract import LaunchConfig
from kerneldsl.errors import OutOfMemoryError
from kerneldsl.lowering.faults import FAULT_FIELDS, raise_fault
from kerneldsl.utilities.formatting import format_bytes
from targets.cpu.code import STOPPED

if TYPE_CHECKING:
    from targets.cpu.artifact import CpuArtifact

__all__ = ["raise_incomplete", "raise_recorded"]

_RECORD = struct.Struct("=" + "".join(code for _, code, _ in FAULT_FIELDS))
_THREAD = [name for name, _, _ in FAULT_FIELDS].index("thread_x")


def raise_recorded(record: bytes, artifact: CpuArtifact, config: LaunchConfig) -> None:
    """Raise the fault that a launch recorded, if any.

    An element kernel records a thread's index in the whole grid, since its blocks were merged; the
    block is computed from that here.
    """
    assert artifact.fault_table is not None
    if artifact.is_element_space and config.extent is None:
        record = _in_blocks(record, config)
    raise_fault(record, artifact.fault_table)


def raise_incomplete(artifact: CpuArtifact, nbytes: int) -> NoReturn:
    """Raise for a launch that was stopped, or in which there was no memory for scratch arrays.

    Of a launch that Ctrl-C stopped, Python's handler of the signal raises before this is begun.
    """
    if nbytes == STOPPED:
        raise KeyboardInterrupt
    name = artifact.specialization.unit.qualname
    raise OutOfMemoryError(
        f"{name} could not allocate {format_bytes(nbytes)} for the shared and local arrays of a "
        "block, so what it writes is incomplete",
        code=errno.ENOMEM,
        name="ENOMEM",
        value=nbytes,
        limit="The operating system refused them to one of the threads that share the launch",
        remedy="Free memory, or use smaller arrays or smaller blocks",
        doing=f"launch {name}",
    )


def _in_blocks(record: bytes, config: LaunchConfig) -> bytes:
    """Return the record with the thread's index in the grid told as block and thread."""
    values = list(_RECORD.unpack(record[: _RECORD.size]))
    for axis, extent in enumerate(config.block_dim):
        values[_THREAD + 3 + axis], values[_THREAD + axis] = divmod(values[_THREAD + axis], extent)
    return _RECORD.pack(*values)
