"""An operation with an instruction on newer architectures, and a sequence on older ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from llvmlite import ir

from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.architectures import Architecture, PtxVersion

__all__ = ["NewerOperation", "Writer"]

#: Writes an operation on some values; ``None`` if it has no result.
Writer: TypeAlias = Callable[[ir.IRBuilder, Sequence[ir.Value]], ir.Value | None]


@dataclass(frozen=True)
class NewerOperation:
    """An operation with an instruction on newer architectures."""

    #: Types of the arguments and the result.
    kind: ir.FunctionType
    #: The first compute capability with the instruction, as :attr:`Architecture.number` has it.
    since: int
    #: The first PTX ISA version with it.
    since_ptx: PtxVersion
    #: Writes the instruction.
    native: Writer
    #: Writes what older architectures do.
    older: Writer

    def define(
        self,
        builder: ir.IRBuilder,
        args: Sequence[ir.Value],
        arch: Architecture,
        ptx_version: PtxVersion,
    ) -> ir.Value | None:
        """Write it for an architecture."""
        is_new = arch.number >= self.since and ptx_version >= self.since_ptx
        return (self.native if is_new else self.older)(builder, args)
