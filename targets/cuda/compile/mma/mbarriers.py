"""Barriers in shared memory by which copies and threads of a block wait for each other.

References
----------
PTX ISA, section "Parallel Synchronization and Communication Instructions: mbarrier".
"""

from __future__ import annotations

from llvmlite import ir

from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["BARRIER_BYTES", "arrive", "expect_bytes", "initialize", "make_visible", "wait_for"]

#: Size of a barrier.
BARRIER_BYTES = 8
_VOID, _I1, _I32, _I64 = ir.VoidType(), ir.IntType(1), ir.IntType(32), ir.IntType(64)
_OF_BLOCK = "scope.cta.space.cta"


def initialize(builder: ir.IRBuilder, barrier: ir.Value, arrivals: int) -> None:
    """Make a barrier of memory; a phase ends with so many arrivals."""
    call_nvvm(builder, "mbarrier.init.shared", _VOID, [barrier, _I32(arrivals)])


def make_visible(builder: ir.IRBuilder) -> None:
    """Let copies see the barriers that this thread has made."""
    call_nvvm(builder, "fence.mbarrier_init.release.cluster", _VOID, [])


def wait_for(builder: ir.IRBuilder, barrier: ir.Value, parity: ir.Value) -> None:
    """Wait for the end of the current phase of a parity; of the one before phase 0 at once."""
    again, done = (builder.append_basic_block(f"phase.{each}") for each in ("wait", "done"))
    builder.branch(again)
    builder.position_at_end(again)
    name = f"mbarrier.try.wait.parity.{_OF_BLOCK}"
    builder.cbranch(call_nvvm(builder, name, _I1, [barrier, parity]), done, again)
    builder.position_at_end(done)


def expect_bytes(builder: ir.IRBuilder, barrier: ir.Value, nbytes: int) -> None:
    """Arrive at a barrier. Its phase ends when copies have brought so many bytes."""
    name = f"mbarrier.arrive.expect.tx.{_OF_BLOCK}"
    call_nvvm(builder, name, _I64, [barrier, _I32(nbytes)])


def arrive(builder: ir.IRBuilder, barrier: ir.Value) -> None:
    """Arrive at a barrier."""
    call_nvvm(builder, f"mbarrier.arrive.{_OF_BLOCK}", _I64, [barrier, _I32(1)])
