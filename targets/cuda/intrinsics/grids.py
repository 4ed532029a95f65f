"""The barrier of a grid, through the word that the driver keeps for each cooperative launch.

Every block adds to the word once: the first 2**31 less the number of the others, and each of these
1, so that the highest bit changes when all have come, whatever it was. A block that has added waits
until it differs from what it saw. The word is after the size of the memory of which the driver
gives the address in two registers, the upper half in ``%envreg1``: memory of each launch, so that
launches in several streams do not meet, and nothing has to be set to 0. Of a launch that is not
cooperative the address is 0.

References
----------
PTX ISA, sections "Special Registers: %envreg<32>" and "membar, fence"; CUDA C++ Programming Guide,
section "Grid Synchronization". Address and counting are those of the CUDA Toolkit's headers of
cooperative groups.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.calls import Call, Emitter, loop_while
from targets.cuda.intrinsics.groups.threads import barrier
from targets.cuda.intrinsics.ids import read_register
from targets.cuda.intrinsics.synchronize import DEVICE_ORDER, call_nvvm, has_failed

__all__ = ["EMITTERS"]

_VOID, _I1, _I32, _I64 = ir.VoidType(), ir.IntType(1), ir.IntType(32), ir.IntType(64)
#: The bit that changes when all blocks have come, and where the word is, in bytes.
_FLIPPED, _OFFSET = 0x80000000, 4


def _sync(call: Call) -> None:
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
        _fence(builder)
        seen = builder.atomic_rmw("add", word, added, DEVICE_ORDER)
        goes_on = cgutils.alloca_once_value(builder, _I1(1))
        with loop_while(builder, lambda: builder.load(goes_on)):
            now = builder.load_atomic(word, DEVICE_ORDER, 4)
            changed = builder.and_(builder.xor(seen, now), _I32(_FLIPPED))
            is_over = builder.icmp_unsigned("!=", changed, _I32(0))
            builder.store(builder.not_(builder.or_(is_over, has_failed(builder))), goes_on)
        _fence(builder)
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


def _fence(builder: ir.IRBuilder) -> None:
    call_nvvm(builder, "membar.gl", _VOID, [])


EMITTERS: dict[str, Emitter] = {"grid_group.sync": _sync}
