"""Native code that reads arguments: checks the type of each, and packs what is passed."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.launch.native import layout
from kerneldsl.launch.native.builder import DOUBLE, FLOAT, I8, I16, I32, I64, POINTER, Function
from kerneldsl.launch.native.emit_foreign import emit_foreign
from kerneldsl.launch.native.step_kinds import BLOCK_FLAGS, BLOCK_HEAD, STEP_WORDS, StepKind

__all__ = ["emit_arguments"]

_WIDTHS = {
    StepKind.COPY_1: I8,
    StepKind.COPY_2: I16,
    StepKind.COPY_4: I32,
    StepKind.COPY_8: I64,
    StepKind.COPY_16: ir.IntType(128),
}
#: Words of a step, in bytes from its start.
_TYPE, _OFFSET, _A, _B, _C, _D = (8 * i for i in range(1, 7))


def emit_arguments(module: ir.Module, array_block: int, seal: int) -> Any:
    """Emit ``i32 arguments(ptr steps, i64 count, ptr args, ptr buffer, i64 device, ptr changes)``.

    It returns 1 where all were read and written into the buffer, else 0, and leaves no error. To
    `changes` it adds the number of arrays that are not known to be those that the steps were made
    for. What those pass is not written, as it is in the buffer.

    `array_block` is the offset of a device array's block, and `seal` the Python function that makes
    the block of an array that has none yet.
    """
    described, attributes = emit_foreign(module)
    kinds = [POINTER, I64, POINTER, POINTER, I64, POINTER]
    f = Function(module, "arguments", I32, kinds, is_internal=True)
    steps, count, args, buffer, device, changes = f.args
    head, body, right, step, good, bad = (
        f.block(name) for name in ("head", "body", "right", "step", "good", "bad")
    )
    overflow = f.b.alloca(I32)
    entry = f.b.block
    f.b.branch(head)
    f.b.position_at_end(head)
    i = f.b.phi(I64)
    i.add_incoming(I64(0), entry)
    f.b.cbranch(f.b.icmp_signed("<", i, count), body, good)
    f.b.position_at_end(body)
    value = f.load(args, f.b.mul(i, I64(8)), POINTER)
    words = f.at(steps, f.b.mul(i, I64(8 * STEP_WORDS)))
    f.b.cbranch(f.equal(f.load(value, layout.TYPE), f.load(words, _TYPE)), right, bad)
    f.b.position_at_end(right)
    out = f.at(buffer, f.load(words, _OFFSET))
    switch = f.b.switch(f.load(words), bad)
    for kind in StepKind:
        f.case(switch, kind, kind.name.lower())
        if kind in (StepKind.NDARRAY, StepKind.DESCRIBED, StepKind.ATTRIBUTES):
            f.store(f.b.add(f.load(changes), I64(1)), changes)
        if kind is StepKind.DEVICE_ARRAY:
            other = f.block("other")
            f.b.cbranch(f.equal(f.load(value, array_block), f.load(words, _D)), step, other)
            f.b.position_at_end(other)
            f.store(f.b.add(f.load(changes), I64(1)), changes)
            _read_device_array(f, value, words, out, device, array_block, seal, bad)
        elif kind is StepKind.NDARRAY:
            _read_ndarray(f, value, words, out, bad)
        elif kind in (StepKind.DESCRIBED, StepKind.ATTRIBUTES):
            read = described if kind is StepKind.DESCRIBED else attributes
            f.require_one(f.b.call(read, [value, words, out]), bad)
        elif kind is StepKind.TUPLE:
            elements = f.load(words, _B)
            f.require(f.equal(f.load(value, layout.TUPLE_SIZE), elements), bad)
            items = f.at(value, layout.TUPLE_ITEMS)
            inner = f.load(words, _A, POINTER)
            given = [inner, elements, items, buffer, device, changes]
            f.require_one(f.b.call(f.function, given), bad)
        else:
            _read_number(f, kind, value, words, out, overflow, bad)
        f.b.branch(step)
    f.b.position_at_end(step)
    i.add_incoming(f.b.add(i, I64(1)), step)
    f.b.branch(head)
    f.b.position_at_end(good)
    return f.accept(bad)


# --------------------------------------------------------------------------- numbers


def _read_number(
    f: Function, kind: StepKind, value: Any, words: Any, out: Any, overflow: Any, bad: Any
) -> None:
    if kind in _WIDTHS:
        f.store(f.load(value, layout.HEAD, _WIDTHS[kind]), out)
    elif kind is StepKind.BOOL:
        is_true = f.equal(f.b.ptrtoint(value, I64), I64(id(True)))
        f.store(f.b.zext(is_true, I8), out)
    elif kind is StepKind.FLOAT_TO_FLOAT32:
        f.store(f.b.fptrunc(f.load(value, layout.HEAD, DOUBLE), FLOAT), out)
    else:
        number = f.python("PyLong_AsLongLongAndOverflow", I64, value, overflow)
        f.require(f.equal(f.load(overflow, 0, I32), I32(0)), bad)
        if kind is StepKind.INT:
            f.require(f.b.icmp_signed(">=", number, f.load(words, _A)), bad)
            f.require(f.b.icmp_signed("<=", number, f.load(words, _B)), bad)
            _store_int(f, number, f.load(words, _C), out, bad)
        elif kind is StepKind.INT_TO_FLOAT64:
            f.store(f.b.sitofp(number, DOUBLE), out)
        else:  # rounded twice, as np.float32 does with a Python int
            f.store(f.b.fptrunc(f.b.sitofp(number, DOUBLE), FLOAT), out)


def _store_int(f: Function, number: Any, nbytes: Any, out: Any, bad: Any) -> None:
    """Store the lower 1, 2, 4 or 8 bytes."""
    done = f.block("stored")
    switch = f.b.switch(nbytes, bad)
    for size, kind in ((8, I64), (4, I32), (2, I16), (1, I8)):
        f.case(switch, size, f"store_{size}")
        f.store(number if kind is I64 else f.b.trunc(number, kind), out)
        f.b.branch(done)
    f.b.position_at_end(done)


# --------------------------------------------------------------------------- arrays


def _read_device_array(
    f: Function,
    value: Any,
    words: Any,
    out: Any,
    device: Any,
    array_block: int,
    seal: int,
    bad: Any,
) -> None:
    """Read a device array: its block is device, code of the kind, flags, then what is passed."""
    fresh, made, failed, sealed = (f.block(n) for n in ("fresh", "made", "failed", "sealed"))
    is_sealed = f.is_instance(f.load(value, array_block, POINTER), bytes)
    f.b.cbranch(is_sealed, sealed, fresh)
    f.b.position_at_end(fresh)
    result = f.python("PyObject_CallOneArg", POINTER, f.pointer(seal), value)
    f.b.cbranch(f.is_null(result), failed, made)
    f.b.position_at_end(failed)  # a closed array, say, of which Python tells
    f.python("PyErr_Clear", ir.VoidType())
    f.b.branch(bad)
    f.b.position_at_end(made)
    f.python("Py_DecRef", ir.VoidType(), result)
    f.b.cbranch(f.is_instance(f.load(value, array_block, POINTER), bytes), sealed, bad)
    f.b.position_at_end(sealed)
    block = f.load(value, array_block, POINTER)
    data = f.at(block, layout.BYTES_DATA)
    f.require(f.equal(f.load(data), device), bad)
    f.require(f.equal(f.load(data, 8), f.load(words, _A)), bad)
    f.require(f.equal(f.b.and_(f.load(data, BLOCK_FLAGS), f.load(words, _B)), I64(0)), bad)
    f.copy_words(out, f.at(data, BLOCK_HEAD), f.load(words, _C))


def _read_ndarray(f: Function, value: Any, words: Any, out: Any, bad: Any) -> None:
    f.require(f.equal(f.load(value, layout.ARRAY_DESCR), f.load(words, _A)), bad)
    flags = f.b.zext(f.load(value, layout.ARRAY_FLAGS, I32), I64)
    f.require(f.equal(f.b.and_(flags, f.load(words, _B)), f.load(words, _C)), bad)
    wanted = f.load(words, _D)
    rank = f.b.and_(wanted, I64(255))
    f.require(f.equal(f.b.zext(f.load(value, layout.ARRAY_NDIM, I32), I64), rank), bad)
    f.store(f.load(value, layout.ARRAY_DATA), out)
    extents = f.at(out, 8)
    f.copy_words(extents, f.load(value, layout.ARRAY_DIMENSIONS, POINTER), rank)
    with f.b.if_then(f.b.icmp_signed(">=", wanted, I64(256))):
        strides = f.at(extents, f.b.mul(rank, I64(8)))
        f.copy_words(strides, f.load(value, layout.ARRAY_STRIDES, POINTER), rank)
