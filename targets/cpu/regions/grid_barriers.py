"""Barriers of the grid: a block stops at one, and goes on from there in the next pass.

A barrier of the grid ends a *pass* over the blocks. Each block runs up to the barrier, and stores
its number. When all blocks have done so, each is called again and goes on after that barrier.
Whatever a block or its threads need in a later pass is in the storage of the block, which lives as
long as the launch.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.operations import Operation
from kerneldsl.language.intrinsics.barriers import grid_group
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.runtime.native_tables import ALIGNMENT, FINISHED, LaunchWord

__all__ = ["HANDLERS", "NAME", "Passes", "holds_grid_barrier", "refuse_chains"]

NAME = grid_group.sync.name
_I64 = ir.IntType(64)


def holds_grid_barrier(operation: Operation) -> bool:
    return any(each.name == NAME for each in operation.walk())


def refuse_chains(unit: FunctionUnit) -> None:
    """Raise for a chain: a block that waits for another one's part may be before it in a pass."""
    for name, use in unit.uses.items():
        if use.intrinsic.is_of_chain:
            raise UnsupportedConstructError(
                f"kd.{use.intrinsic.name} is in a kernel with a barrier of the grid",
                where=unit.locate_use(name),
                limit="On the CPU blocks take turns between such barriers, and their order is not "
                "that of a chain's parts",
                remedy="Use two kernels, or add up over the grid: each block stores its sum, and "
                "reads those before it after kd.grid_group().sync()",
            )


class Passes:
    """The places at which a block goes on."""

    def __init__(self, emitter: CpuEmitter, block: ir.Value) -> None:
        builder = emitter.builder
        self.emitter = emitter
        emitter.memory = self._part(block)
        offset = emitter.storage.place(8)
        place = builder.gep(emitter.memory, [_I64(offset)], inbounds=True)
        self.state = builder.bitcast(place, _I64.as_pointer())
        emitter.start = builder.block
        first = builder.append_basic_block("first_pass")
        self.end = builder.append_basic_block("end_of_pass")
        self.choice = builder.switch(builder.load(self.state), self.end)
        self.choice.add_case(_I64(0), first)
        builder.position_at_end(first)

    def _part(self, block: ir.Value) -> ir.Value:
        """Return the address of the storage of a block."""
        emitter, builder = self.emitter, self.emitter.builder
        start = builder.inttoptr(emitter.word(LaunchWord.PARTS), ir.IntType(8).as_pointer())
        own = builder.load(emitter.scratch_bytes())
        nbytes = builder.add(own, emitter.word(LaunchWord.SHARED_BYTES))
        nbytes = builder.add(nbytes, _I64(ALIGNMENT - 1))
        each = builder.and_(nbytes, _I64(-ALIGNMENT))
        return builder.gep(start, [builder.mul(block, each)], inbounds=True)

    def wait(self) -> None:
        """End the pass, and go on from here in the next one."""
        builder = self.emitter.builder
        number = len(self.choice.cases)
        following = builder.append_basic_block(f"pass{number}")
        self._end(number)
        self.choice.add_case(_I64(number), following)
        builder.position_at_end(following)

    def finish(self) -> None:
        """End the last pass."""
        self._end(FINISHED)
        self.emitter.builder.position_at_end(self.end)

    def _end(self, state: int) -> None:
        self.emitter.builder.store(_I64(state), self.state)
        self.emitter.builder.branch(self.end)


def _sync(emitter: CpuEmitter, operation: Operation) -> None:
    passes: Any = emitter.passes
    passes.wait()


HANDLERS = {NAME: _sync}
