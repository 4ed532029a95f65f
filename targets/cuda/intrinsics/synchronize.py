"""Barriers of warps, blocks and grids, votes at barriers, fences, and shuffles.

The barrier of a grid waits at the word that the driver keeps for each cooperative launch. Every
block adds to the word once: the first block 2**31 less the number of the others, and each of these
1. So the highest bit changes when all have come. A block that has added waits until the bit differs
from what it saw.

The word is after the size of memory that each launch has alone. So launches in several streams
do not meet, and nothing has to be set to 0. The address of the memory is in two registers, the
upper half in ``%envreg1``. It is 0 if the launch is not cooperative.

References
----------
PTX ISA, sections "Parallel Synchronization and Communication Instructions: bar, barrier",
"bar.warp.sync", "membar, fence" and "Special Registers: %envreg<32>"; CUDA C++ Programming Guide,
section "Grid Synchronization". Address and counting at the word of a launch are those of the CUDA
Toolkit's headers of cooperative groups.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.calls import Call, Emitter, loop_while
from targets.cuda.compile.calling import has_failed
from targets.cuda.intrinsics.ids import read_register
from targets.cuda.intrinsics.memory import DEVICE_ORDER

__all__ = ["EMITTERS", "barrier", "by_words", "call_nvvm", "shuffle"]

_VOID = ir.VoidType()
_I1, _I16, _I32, _I64 = map(ir.IntType, (1, 16, 32, 64))
#: The bit of a grid's word that changes when all blocks have come, and where the word is, in bytes.
_FLIPPED, _OFFSET = 0x80000000, 4


# Shuffles of values of 32 and 64 bits.
#
# See PTX ISA, section "Data Movement and Conversion Instructions: shfl.sync".


def shuffle(
    builder: ir.IRBuilder, mode: str, mask: ir.Value, value: ir.Value, lane: ir.Value
) -> ir.Value:
    """Exchange a value by its registers of 32 bits.

    `mode` is "idx", "up", "down" or "bfly".
    """
    # The last lane with an index in range; segments of the whole warp.
    clamp = _I32(0x00 if mode == "up" else 0x1F)

    def exchange(part: ir.Value) -> ir.Value:
        return call_nvvm(builder, f"shfl.sync.{mode}.i32", _I32, [mask, part, lane, clamp])

    return by_words(builder, value, exchange)


def by_words(
    builder: ir.IRBuilder, value: ir.Value, change: Callable[[ir.Value], ir.Value]
) -> ir.Value:
    """Change a value 32 bits at a time."""
    kind = value.type
    if isinstance(kind, ir.LiteralStructType | ir.ArrayType):
        for position in range(len(kind.elements)):
            part = by_words(builder, builder.extract_value(value, position), change)
            value = builder.insert_value(value, part, position)
        return value
    if isinstance(kind, ir.HalfType):
        return builder.bitcast(by_words(builder, builder.bitcast(value, _I16), change), kind)
    if isinstance(kind, ir.IntType) and kind.width < 32:
        return builder.trunc(change(builder.zext(value, _I32)), kind)
    if kind in (_I32, ir.FloatType()):
        return builder.bitcast(change(builder.bitcast(value, _I32)), kind)
    bits = builder.bitcast(value, _I64)
    low = change(builder.trunc(bits, _I32))
    high = change(builder.trunc(builder.lshr(bits, _I64(32)), _I32))
    whole = builder.or_(builder.zext(low, _I64), builder.shl(builder.zext(high, _I64), _I64(32)))
    return builder.bitcast(whole, kind)


def call_nvvm(builder: ir.IRBuilder, name: str, result: ir.Type, args: list[ir.Value]) -> ir.Value:
    """Call a function of LLVM's for NVPTX; the name is what follows ``llvm.nvvm.``."""
    function_type = ir.FunctionType(result, [a.type for a in args])
    function = cgutils.get_or_insert_function(builder.module, function_type, f"llvm.nvvm.{name}")
    return builder.call(function, args)


def barrier(builder: ir.IRBuilder) -> None:
    """Let the threads of a block wait for each other."""
    call_nvvm(builder, "barrier.cta.sync.aligned.all", _VOID, [_I32(0)])


def _barrier(call: Call) -> None:
    barrier(call.builder)


def _vote(operation: str, call: Call) -> ir.Value:
    predicate = call.context.is_true(call.builder, call.signature.args[0], call.args[0])
    result = _I32 if operation == "popc" else _I1
    value = call_nvvm(
        call.builder, f"barrier.cta.red.{operation}.aligned.all", result, [_I32(0), predicate]
    )
    return value if operation == "popc" else call.builder.zext(value, _I32)


def _warp(call: Call) -> None:
    call_nvvm(call.builder, "bar.warp.sync", _VOID, [call.args[0]])


def _fence(scope: str, call: Call) -> None:
    call_nvvm(call.builder, f"membar.{scope}", _VOID, [])


def _sync_grid(call: Call) -> None:
    builder = call.builder
    barrier(builder)
    with builder.if_then(_is_first(builder, "tid")):
        word = _word(builder)
        blocks = _I64(1)
        for axis in "xyz":
            blocks = builder.mul(blocks, read_register(builder, f"nctaid.{axis}"))
        others = builder.sub(builder.trunc(blocks, _I32), _I32(1))
        first = _is_first(builder, "ctaid")
        added = builder.select(first, builder.sub(_I32(_FLIPPED), others), _I32(1))
        _fence("gl", call)
        seen = builder.atomic_rmw("add", word, added, DEVICE_ORDER)
        goes_on = cgutils.alloca_once_value(builder, _I1(1))
        with loop_while(builder, lambda: builder.load(goes_on)):
            now = builder.load_atomic(word, DEVICE_ORDER, 4)
            changed = builder.and_(builder.xor(seen, now), _I32(_FLIPPED))
            is_over = builder.icmp_unsigned("!=", changed, _I32(0))
            builder.store(builder.not_(builder.or_(is_over, has_failed(builder))), goes_on)
        _fence("gl", call)
    barrier(builder)


def _is_first(builder: ir.IRBuilder, register: str) -> ir.Value:
    """Return whether a place is 0 along all axes."""
    x, y, z = (read_register(builder, f"{register}.{axis}") for axis in "xyz")
    return builder.icmp_unsigned("==", builder.or_(builder.or_(x, y), z), _I64(0))


def _word(builder: ir.IRBuilder) -> ir.Value:
    """Return the address of the launch's word; the kernel ends with an error if it has none."""
    upper, lower = (
        builder.zext(call_nvvm(builder, f"read.ptx.sreg.envreg{number}", _I32, []), _I64)
        for number in (1, 2)
    )
    address = builder.or_(builder.shl(upper, _I64(32)), lower)
    with builder.if_then(builder.icmp_unsigned("==", address, _I64(0)), likely=False):
        trap = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_VOID, []), "llvm.trap"
        )
        builder.call(trap, [])
    return builder.inttoptr(builder.add(address, _I64(_OFFSET)), _I32.as_pointer(1))


EMITTERS: dict[str, Emitter] = {
    "syncthreads": _barrier,
    "syncthreads_count": partial(_vote, "popc"),
    "syncthreads_and": partial(_vote, "and"),
    "syncthreads_or": partial(_vote, "or"),
    "syncwarp": _warp,
    "threadfence": partial(_fence, "gl"),
    "threadfence_block": partial(_fence, "cta"),
    "threadfence_system": partial(_fence, "sys"),
    "grid_group.sync": _sync_grid,
}
