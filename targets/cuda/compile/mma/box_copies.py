"""Copies of boxes of an array to shared memory, by tensor maps.

References
----------
PTX ISA, sections "Data Movement and Conversion Instructions: cp.async.bulk.tensor" and "prefetch".
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["copy_box", "prefetch_map"]

_VOID, _I1, _I16, _I32, _I64 = ir.VoidType(), *(ir.IntType(n) for n in (1, 16, 32, 64))
_LOWEST, _HIGHEST = -(2**31), 2**31 - 1
#: LLVM's number for the shared memory of a cluster.
_CLUSTER_SPACE = 7


def prefetch_map(builder: ir.IRBuilder, tensor_map: ir.Value) -> None:
    """Load a tensor map before the first copy by it."""
    tensor_map = builder.bitcast(tensor_map, ir.IntType(8).as_pointer())
    call_nvvm(builder, "prefetch.tensormap.p0", _VOID, [tensor_map])


def copy_box(
    builder: ir.IRBuilder,
    target: ir.Value,
    barrier: ir.Value,
    tensor_map: ir.Value,
    place: Sequence[ir.Value],
) -> None:
    """Begin to copy a box to shared memory; the barrier counts its bytes when it is there.

    `place` is the index of its first element along each axis of the map, of 64 bits. Elements
    beyond the bounds of the array become zeros.
    """
    byte = ir.IntType(8)
    shared = builder.addrspacecast(target, byte.as_pointer(_CLUSTER_SPACE))
    tensor_map = builder.bitcast(tensor_map, byte.as_pointer())
    indices = [builder.trunc(_clamped(builder, each), _I32) for each in place]
    no_more = [_I16(0), _I64(0), _I1(0), _I1(0), _I32(0)]
    name = f"cp.async.bulk.tensor.g2s.tile.{len(indices)}d"
    call_nvvm(builder, name, _VOID, [shared, barrier, tensor_map, *indices, *no_more])


def _clamped(builder: ir.IRBuilder, index: ir.Value) -> ir.Value:
    """Return an index in the range of 32 bits. No array with a map has elements beyond it."""
    index = builder.select(builder.icmp_signed("<", index, _I64(_LOWEST)), _I64(_LOWEST), index)
    return builder.select(builder.icmp_signed(">", index, _I64(_HIGHEST)), _I64(_HIGHEST), index)
