"""Reads of functions of results, and copies of what they read to the cache.

References
----------
PTX ISA, section "prefetch".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llvmlite import ir

from kerneldsl.ir.operations import Effect, Operation, Region, Value
from targets.cuda.compile.mma.fragment_stores import is_whole
from targets.cuda.compile.mma.fragments import Fragments
from targets.cuda.compile.mma.wgmma import WARPGROUP, WARPGROUP_ROWS
from targets.cuda.compile.tiles.elements import OperationCode
from targets.cuda.compile.tiles.memory import Access
from targets.cuda.intrinsics.synchronize import call_nvvm

if TYPE_CHECKING:
    from targets.cuda.compile.mma.warpgroup_writer import Ring
    from targets.cuda.compile.tiles.writer import TileWriter

__all__ = ["early_reads", "loads_of", "prefetch_reads"]

_I64 = ir.IntType(64)
#: Bytes that the second-level cache loads together.
_CACHE_LINE = 128
#: Elements along k before the end, so that they stay there. On an H200 4096 x 4096 results with
#: GELU, a bias and a residual take 1 % less time than with copies before the products.
_DISTANCE = 1024


def loads_of(region: Region) -> list[Operation]:
    """Return loads that do not depend on the result, and what they depend on, in their order."""
    late = {region.arguments[0]}
    for operation in region.operations:
        if not late.isdisjoint(operation.used()):
            late.update(operation.results)
    wanted: set[Value] = set()
    found = []
    for operation in reversed(region.operations[:-1]):
        is_early = late.isdisjoint(operation.results) and late.isdisjoint(operation.used())
        is_load = bool(operation.effects() & Effect.READ) and not operation.regions
        if is_early and (is_load or not wanted.isdisjoint(operation.results)):
            found.append(operation)
            wanted.update(operation.used())
    return found[::-1]


def early_reads(store: Operation) -> list[Operation]:
    """Return what loads from matrices for elements of a tile, at places that are known before.

    What is read through the ring is left out.
    """
    found = loads_of(store.regions[0])
    loaded = {each.result for each in found if each.effect & Effect.READ}
    if any(not loaded.isdisjoint(each.operands) for each in found):
        return []
    matrices = [each for each in found if each.name == "array.load" and len(each.operands) > 2]
    return [each for each in matrices if "panel" not in each.attributes]


def prefetch_reads(writer: TileWriter, operation: Operation, ring: Ring) -> None:
    """Bring what a function of results reads to the second-level cache, before the products.

    The assembler puts the function's loads between its computations, where threads wait for them.
    """
    store: Operation = operation.attributes["store"]
    code, wanted = OperationCode(writer, store), early_reads(store)
    array, *at = store.operands[:3]
    access, emitter, layout = Access(writer, code, array, at), writer.emitter, code.layout
    if not isinstance(layout, Fragments):
        return
    builder = access.builder
    thread = builder.and_(writer.code.thread, _I64(WARPGROUP - 1))
    own = builder.mul(builder.zext(ring.sharer, _I64), _I64(WARPGROUP_ROWS))
    is_soon = _is_soon(builder, operation, [emitter.get(each) for each in operation.operands])
    with builder.if_then(builder.and_(is_whole(access, layout), is_soon)):
        for each in wanted:
            size = emitter.context.get_abi_sizeof(emitter.context.get_data_type(each.result.type))
            beside = max(1, layout.columns * size // _CACHE_LINE)
            for turn in range(layout.row_blocks * WARPGROUP_ROWS * beside // WARPGROUP):
                number = builder.add(thread, _I64(turn * WARPGROUP))
                line = builder.udiv(number, _I64(beside))
                block = builder.udiv(line, _I64(WARPGROUP_ROWS))
                row = builder.add(
                    builder.add(own, builder.urem(line, _I64(WARPGROUP_ROWS))),
                    builder.mul(block, _I64(WARPGROUP_ROWS * ring.sharing)),
                )
                place = builder.urem(number, _I64(beside))
                column = builder.mul(place, _I64(layout.columns // beside))
                _prefetch(writer, store, each, (row, column))


def _is_soon(builder: ir.IRBuilder, operation: Operation, bounds: Sequence[ir.Value]) -> ir.Value:
    """Say whether results are known soon: in one iteration, or before the loop if that is short."""
    start, stop, step = bounds
    left, most = builder.sub(stop, start), start.type(_DISTANCE)
    if operation.attributes["is_inside"]:
        return builder.icmp_unsigned("<", builder.sub(most, left), step)
    return builder.icmp_signed("<=", left, builder.sub(most, step))


def _prefetch(
    writer: TileWriter, store: Operation, load: Operation, at: tuple[ir.Value, ir.Value]
) -> None:
    """Bring the line of an element to the second-level cache."""
    emitter, (region,) = writer.emitter, store.regions
    indices = (at[axis] for axis in store.attributes["axes"])
    emitter.values.update(zip(region.arguments[1:], indices, strict=True))
    before = [each for each in loads_of(region) if not each.effect & Effect.READ]
    emitter.operations(before)
    array, *values = load.operands
    builder, parts = emitter.builder, emitter.get(array)
    element = parts.element(builder, emitter.indices(parts, load, values))
    address = builder.bitcast(element, ir.IntType(8).as_pointer(element.type.addrspace))
    if element.type.addrspace:
        address = builder.addrspacecast(address, ir.IntType(8).as_pointer())
    call_nvvm(builder, "prefetch.L2", ir.VoidType(), [address])
