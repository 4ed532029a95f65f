"""Raise the exceptions of kernels that are refused for a barrier, or failed, on the CPU."""

from __future__ import annotations

import builtins
import ctypes
import errno
import os
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from kerneldsl.contract import LaunchConfig
from kerneldsl.contract.findings import AS_ONE, BarrierProblem
from kerneldsl.errors import (
    BarrierDivergenceError,
    LaunchConfigError,
    OutOfMemoryError,
    fault_class,
)
from kerneldsl.frontend.trees import slices_of
from kerneldsl.lowering.faults import FAULT_FIELDS, raise_fault
from kerneldsl.utilities.formatting import format_bytes
from targets.cpu.runtime.native_tables import OVERRUN, STOPPED, read_dynamic_failure
from targets.cpu.runtime.signals import take_raised

if TYPE_CHECKING:
    from targets.cpu.runtime.artifact import CpuArtifact

__all__ = ["raise_incomplete", "raise_recorded", "refuse_divergent_barriers"]

_RECORD = struct.Struct("=" + "".join(code for _, code, _ in FAULT_FIELDS))
_THREAD = [name for name, _, _ in FAULT_FIELDS].index("thread_x")
#: Names of exceptions that compiled code may raise.
_EXCEPTIONS = frozenset(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, Exception)
)


def refuse_divergent_barriers(problems: Sequence[BarrierProblem]) -> None:
    """Raise for the first barrier that is not proved uniform."""
    for problem in problems:
        if problem.remedy is not None:
            raise BarrierDivergenceError(
                problem.what,
                where=problem.where,
                limit=AS_ONE,
                remedy=problem.remedy,
                chain=problem.chain,
            )
        rule = (
            "Every thread of a block must reach the same barrier"
            if problem.is_provable
            else "The CPU target runs only barriers that it can prove every thread reaches"
        )
        remedy = (
            "Move the barrier out of the condition, and guard only the work around it. If "
            "the other threads have nothing left to do, let them return first: if i >= n: return"
        )
        if not problem.is_provable:
            remedy += ". Or promise that all threads have the same value: kd.uniform(value)"
        raise BarrierDivergenceError(
            f"this barrier may be divergent: {problem.what}",
            where=problem.where,
            limit=rule,
            remedy=remedy,
            chain=problem.chain,
        )


def raise_recorded(record: bytes, artifact: CpuArtifact, config: LaunchConfig) -> None:
    """Raise the fault that a launch recorded, if any.

    An element kernel records a thread's index in the whole grid, since its blocks were merged; the
    block is computed from that here.
    """
    assert artifact.fault_table is not None
    if artifact.is_element_space and config.extent is None:
        record = _in_blocks(record, config)
    raise_fault(record, artifact.fault_table, artifact.specialization.unit)


def raise_incomplete(artifact: CpuArtifact, failure: int, shared_bytes: int) -> NoReturn:
    """Raise for a launch that was stopped, or in which there was no memory for its arrays.

    `failure` is the word `FAILURE` of the launch, and `shared_bytes` its dynamic shared memory. A
    launch that was stopped raises what the handler of the signal raised.
    """
    raised = take_raised()
    if raised is not None:
        raise raised
    if failure == STOPPED:
        raise KeyboardInterrupt
    if failure == OVERRUN:
        _raise_overrun(artifact, shared_bytes)
    beyond = read_dynamic_failure(-failure) if failure < 0 else None
    if beyond is not None:
        _raise_too_small(artifact, *beyond, shared_bytes)
    if failure < 0:
        _raise_unhandled(artifact, -failure)
    name, nbytes = artifact.specialization.unit.qualname, failure
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


def _raise_too_small(artifact: CpuArtifact, line: int, nbytes: int, shared_bytes: int) -> NoReturn:
    """Raise for a slice of dynamic shared memory that ends beyond it."""
    kernel = artifact.specialization.unit
    slices = ((unit, node) for unit in kernel.reachable() for node in slices_of(unit.tree))
    found = (each for each in slices if each[1].lineno == line)
    unit, node = next(found, (kernel, kernel.tree))
    raise LaunchConfigError(
        f"a slice of dynamic shared memory in {kernel.qualname} ends at byte {nbytes}",
        where=unit.locate(node),
        value=nbytes,
        limit=f"The launch gives {shared_bytes} bytes (shared_bytes), and what it writes is "
        "incomplete",
        remedy=f"Launch it as kernel[grid, block, stream, {nbytes}], or with more",
    )


def _raise_overrun(artifact: CpuArtifact, shared_bytes: int) -> NoReturn:
    unit = artifact.specialization.unit
    raise fault_class(IndexError)(
        f"{unit.qualname} wrote beyond its dynamic shared memory",
        thread_idx=None,
        block_idx=None,
        where=unit.locate(unit.tree),
        value=shared_bytes,
        limit=f"The launch gives {shared_bytes} bytes (shared_bytes); what is written far beyond "
        "them may have damaged the memory of the process",
        remedy="Launch it with as many as it uses, kernel[grid, block, stream, shared_bytes]; with "
        "debug=True the index is named",
    )


def _raise_unhandled(artifact: CpuArtifact, address: int) -> NoReturn:
    """Raise what an operation of Numba's raised in a kernel, such as an index beyond a tuple.

    At the address there is where Numba's pickle of the exception begins, and its length. Class and
    text are read from it; nothing is unpickled.
    """
    import pickletools  # of no use until something is raised

    begin, length = struct.unpack("=qi", ctypes.string_at(address, 12))
    words = [
        value
        for _, value, _ in pickletools.genops(ctypes.string_at(begin, length))
        if isinstance(value, str)
    ]
    kind = next((getattr(builtins, word) for word in words if word in _EXCEPTIONS), RuntimeError)
    # The strings after class and text are the name of a function and its file.
    text = next((word for word in words if " " in word and os.sep not in word), "")
    unit = artifact.specialization.unit
    raise fault_class(kind)(
        f"{kind.__name__} in a thread of {unit.qualname}" + (f": {text}" if text else ""),
        thread_idx=None,
        block_idx=None,
        where=unit.locate(unit.tree),
        value=text,
        limit="On a CPU it ends other threads, too, so what the launch writes is incomplete",
        remedy="Guard the operation by a condition",
    )


def _in_blocks(record: bytes, config: LaunchConfig) -> bytes:
    """Return the record with the thread's index in the grid given as block and thread."""
    values = list(_RECORD.unpack(record[: _RECORD.size]))
    for axis, extent in enumerate(config.block_dim):
        values[_THREAD + 3 + axis], values[_THREAD + axis] = divmod(values[_THREAD + axis], extent)
    return _RECORD.pack(*values)
