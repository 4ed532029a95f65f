"""Loops of machine code over int64, and whether their iterations may run in any order."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.ir.operations import Operation, Region
from kerneldsl.language.intrinsics.intrinsic import Effect
from kerneldsl.lowering.loop_marks import mark_loop

__all__ = ["CountedLoop", "loop_takes_any_order"]

_I64 = ir.IntType(64)


class CountedLoop:
    """A loop over int64, tested at its end; what is written inside is its body."""

    def __init__(self, builder: Any, low: Any, high: Any, *wishes: str, step: int = 1) -> None:
        self.builder, self.low, self.high = builder, low, high
        self.wishes, self.step = wishes, step

    def __enter__(self) -> Any:
        builder = self.builder
        before = builder.block
        name = f"{len(builder.function.blocks)}"
        self.body = builder.append_basic_block(f"loop{name}")
        self.end = builder.append_basic_block(f"end{name}")
        is_constant = isinstance(self.low, ir.Constant) and isinstance(self.high, ir.Constant)
        if is_constant and self.low.constant < self.high.constant:
            builder.branch(self.body)
        else:
            builder.cbranch(builder.icmp_signed("<", self.low, self.high), self.body, self.end)
        builder.position_at_end(self.body)
        self.index = builder.phi(_I64, "i")
        self.index.add_incoming(self.low, before)
        return self.index

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is not None:
            return
        builder = self.builder
        following = builder.add(self.index, _I64(self.step), flags=["nuw", "nsw"])
        self.index.add_incoming(following, builder.block)
        if self.wishes:
            mark_loop(builder, *self.wishes)
        builder.cbranch(builder.icmp_signed("<", following, self.high), self.body, self.end)
        builder.position_at_end(self.end)


def loop_takes_any_order(region: Region) -> bool:
    """Return whether the threads of a loop may take turns after any instruction.

    They share what the CPU target does for atomics, for exchanges and in local arrays, one thread
    after the other.
    """
    return not any(map(_is_shared, region.walk()))


def _is_shared(operation: Operation) -> bool:
    if operation.name == "local.array":
        return not operation.attributes.get("is_copied")
    use = operation.attributes.get("use")
    return operation.name.startswith(("exchange.", "fault")) or (
        use is not None and bool(use.intrinsic.effect & (Effect.ATOMIC | Effect.FENCE))
    )
