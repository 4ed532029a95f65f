"""Atomic accesses that have an instruction on some architectures, and a sequence on others.

Loads and stores that order other accesses need fences on older ones. Additions to the numbers of a
vector are made one by one there, or if the address does not permit one instruction.

References
----------
PTX ISA, sections "ld", "st", "membar, fence", "Memory Consistency Model", and "atom", of vectors
from PTX ISA 8.1 and compute capability 9.0 on; LLVM, "User Guide for NVPTX Back-end", "Memory
model" and "llvm.nvvm.isspacep.*".
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.calls import join
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.intrinsics.memory import DEVICE_ORDER
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = [
    "ACCESSES",
    "OrderedAccess",
    "add_kind",
    "add_parts",
    "add_vector",
    "ordered_access",
    "vector_add",
]

#: Scope to LLVM's name of it, and that of the fence.
_SCOPES = {"block": ("block", "cta"), "device": ("device", "gl"), "system": ("", "sys")}
#: Order to LLVM's name of it.
_ORDERS = {
    "relaxed": "monotonic",
    "acquire": "acquire",
    "release": "release",
    "seq_cst": "seq_cst",
}


@dataclass(frozen=True)
class OrderedAccess:
    """A load or store of some bits."""

    #: ``"load"`` or ``"store"``.
    operation: str
    order: str
    scope: str
    bits: ir.IntType

    @property
    def name(self) -> str:
        return ordered_access(self.operation, self.order, self.scope, self.bits)

    @property
    def is_store(self) -> bool:
        return self.operation == "store"

    def write(self, builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value | None:
        """Write it as one access of its order."""
        return self._access(builder, args, _ORDERS[self.order])

    def write_with_fences(self, builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value | None:
        """Write a relaxed access, and fences that keep others on their side of it."""
        if self.order in ("release", "seq_cst"):
            self._fence(builder)
        found = self._access(builder, args, "monotonic")
        if self.order in ("acquire", "seq_cst"):
            self._fence(builder)
        return found

    def _access(
        self, builder: ir.IRBuilder, args: Sequence[ir.Value], order: str
    ) -> ir.Value | None:
        # llvmlite has no field for the scope, and writes the ordering as it is given.
        scope, _ = _SCOPES[self.scope]
        ordering = f'syncscope("{scope}") {order}' if scope else order
        size = self.bits.width // 8
        if self.is_store:
            builder.store_atomic(args[1], args[0], ordering, size)
            return None
        return builder.load_atomic(args[0], ordering, size)

    def _fence(self, builder: ir.IRBuilder) -> None:
        call_nvvm(builder, f"membar.{_SCOPES[self.scope][1]}", ir.VoidType(), [])


def ordered_access(operation: str, order: str, scope: str, bits: ir.IntType) -> str:
    """Return the name of the function of an access."""
    return f"{operation}_{order}_{scope}_{bits}"


#: Every one that the language has.
ACCESSES = tuple(
    OrderedAccess(operation, order, scope, ir.IntType(width))
    for operation, orders in (
        ("load", ("relaxed", "acquire", "seq_cst")),
        ("store", ("relaxed", "release", "seq_cst")),
    )
    for order in orders
    for scope in _SCOPES
    for width in (8, 16, 32, 64)
)


_I1, _I8, _I64 = (ir.IntType(width) for width in (1, 8, 64))
_FLOAT = ir.FloatType()
_GLOBAL_SPACE = 1


def vector_add(count: int) -> str:
    """Return the name of the function that adds to so many float32."""
    return f"add_float32x{count}"


def add_kind(count: int) -> ir.FunctionType:
    """Return its type: the address of the first number and what is added, to the old numbers."""
    result = ir.LiteralStructType([_FLOAT] * count)
    return ir.FunctionType(result, (_FLOAT.as_pointer(), *[_FLOAT] * count))


def add_parts(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
    """Add to one number after the other."""
    pointer, *values = args
    old = [
        builder.atomic_rmw("fadd", builder.gep(pointer, [_I64(number)]), value, DEVICE_ORDER)
        for number, value in enumerate(values)
    ]
    return cgutils.pack_struct(builder, old)


def add_vector(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
    """Add by one instruction, of global memory at a multiple of the vector's size."""
    pointer, *values = args
    count = len(values)
    address = builder.bitcast(pointer, _I8.as_pointer())
    is_global = call_nvvm(builder, "isspacep.global", _I1, [address])
    low = builder.and_(builder.ptrtoint(pointer, _I64), _I64(4 * count - 1))
    is_aligned = builder.icmp_unsigned("==", low, _I64(0))
    with builder.if_else(builder.and_(is_global, is_aligned)) as (whole, apart):
        with whole:
            one = _instruction(builder, pointer, values)
            from_one = builder.block
        with apart:
            other = add_parts(builder, args)
            from_other = builder.block
    return join(builder, (one, from_one), (other, from_other))


def _instruction(builder: ir.IRBuilder, pointer: ir.Value, values: Sequence[ir.Value]) -> ir.Value:
    count = len(values)
    at = builder.addrspacecast(pointer, ir.PointerType(_FLOAT, _GLOBAL_SPACE))
    old, new = (
        ", ".join(f"${first + number}" for number in range(count)) for first in (0, count + 1)
    )
    text = f"atom.relaxed.gpu.global.add.v{count}.f32 {{{old}}}, [${count}], {{{new}}};"
    constraint = ",".join([*["=f"] * count, "l", *["f"] * count, "~{memory}"])
    result = ir.LiteralStructType([_FLOAT] * count)
    kind = ir.FunctionType(result, [at.type, *[_FLOAT] * count])
    return builder.asm(kind, text, constraint, [at, *values], side_effect=True)
