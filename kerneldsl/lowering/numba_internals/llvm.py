"""LLVM instructions that llvmlite's documented classes do not cover."""

from __future__ import annotations

from llvmlite import ir

__all__ = ["BFLOAT", "AddressCallee", "assume_aligned", "assumption", "mark_only_read"]


class _BFloatType(ir.Type):
    """LLVM's ``bfloat``."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloatType)

    def __hash__(self) -> int:
        return hash(_BFloatType)


BFLOAT = _BFloatType()


class AddressCallee:
    """Callee for llvmlite: an address with the type of the function there."""

    def __init__(self, address: ir.Value, kind: ir.FunctionType) -> None:
        self.address = address
        self.function_type = kind
        self.type = address.type
        self.calling_convention = ""

    def get_reference(self) -> str:
        """Return how instructions name it."""
        return str(self.address.get_reference())


class _AssumeAligned(ir.Instruction):
    """An assumption about an address that does not count as a use of it.

    llvmlite has no calls with operand bundles (LLVM Language Reference, "Assume Operand Bundles").
    A comparison of the address would do for its alignment, but LLVM would then no longer see that
    an array is only read.
    """

    def __init__(self, block: ir.Block, pointer: ir.Value, alignment: int) -> None:
        super().__init__(block, ir.VoidType(), "call", [pointer])
        self._alignment = alignment

    def descr(self, buf: list[str]) -> None:
        """Write the instruction."""
        (pointer,) = self.operands
        operands = f"{pointer.type} {pointer.get_reference()}, i64 {self._alignment}"
        buf.append(f'call void @llvm.assume(i1 true) [ "align"({operands}) ]\n')


def assume_aligned(builder: ir.IRBuilder, pointer: ir.Value, alignment: int) -> None:
    """Let LLVM count on the alignment of an address, in bytes."""
    assumption(builder)
    builder._insert(_AssumeAligned(builder.block, pointer, alignment))


def assumption(builder: ir.IRBuilder) -> ir.Function:
    """Declare the function of a condition that LLVM may count on."""
    function = ir.FunctionType(ir.VoidType(), [ir.IntType(1)])
    return builder.module.declare_intrinsic("llvm.assume", fnty=function)


def mark_only_read(pointer: ir.Argument) -> None:
    """Let LLVM count on it that a function writes nothing through a pointer."""
    set.add(pointer.attributes, "readonly")  # of which llvmlite knows for functions alone
