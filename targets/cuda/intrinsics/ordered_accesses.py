"""Loads and stores that order other accesses: by one instruction, and by fences around it.

References
----------
PTX ISA, sections "ld", "st", "membar, fence" and "Memory Consistency Model"; LLVM, "User Guide for
NVPTX Back-end", "Memory model".
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["ACCESSES", "DEVICE_RELAXED", "OrderedAccess", "ordered_access"]

#: Order of read-modify-write operations. llvmlite has no field for the scope, and writes the
#: ordering as it is given.
DEVICE_RELAXED = 'syncscope("device") monotonic'

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
