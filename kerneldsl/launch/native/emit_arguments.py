"""Native code that reads arguments: checks the type of each, and packs what is passed."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.launch.native import layout
from kerneldsl.launch.native.builder import DOUBLE, FLOAT, I8, I16, I32, I64, POINTER, Function
from kerneldsl.launch.native.exchange import CheckKind, LayoutCode
from kerneldsl.launch.native.step_kinds import BLOCK_FLAGS, BLOCK_HEAD, STEP_WORDS, StepKind
from kerneldsl.launch.native.steps import Attribute

__all__ = ["emit_arguments"]

_WIDTHS = {
    StepKind.COPY_1: I8,
    StepKind.COPY_2: I16,
    StepKind.COPY_4: I32,
    StepKind.COPY_8: I64,
    StepKind.COPY_16: ir.IntType(128),
}
#: Words of a step, in bytes from its start.
_TYPE, _OFFSET, _A, _B, _C, _D, _E = (8 * i for i in range(1, 8))


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
    f.leave(head)
    i = f.b.phi(I64)
    i.add_incoming(I64(0), entry)
    f.when(f.b.icmp_signed("<", i, count), body, good)
    value = f.load(args, f.b.mul(i, I64(8)), POINTER)
    words = f.at(steps, f.b.mul(i, I64(8 * STEP_WORDS)))
    f.when(f.equal(f.load(value, layout.TYPE), f.load(words, _TYPE)), right, bad)
    out = f.at(buffer, f.load(words, _OFFSET))
    switch = f.b.switch(f.load(words), bad)
    for kind in StepKind:
        f.case(switch, kind, kind.name.lower())
        if kind in (StepKind.NDARRAY, StepKind.DESCRIBED, StepKind.ATTRIBUTES):
            f.store(f.b.add(f.load(changes), I64(1)), changes)
        if kind is StepKind.DEVICE_ARRAY:
            other = f.block("other")
            f.unless(f.equal(f.load(value, array_block), f.load(words, _D)), other, step)
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
    f.leave(head, good)
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
    f.unless(is_sealed, fresh, sealed)
    result = f.python("PyObject_CallOneArg", POINTER, f.pointer(seal), value)
    f.when(f.is_null(result), failed, made)  # a closed array, say, of which Python tells
    f.python("PyErr_Clear", ir.VoidType())
    f.leave(bad, made)
    f.python("Py_DecRef", ir.VoidType(), result)
    f.when(f.is_instance(f.load(value, array_block, POINTER), bytes), sealed, bad)
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


#: Largest rank of an array argument.
_MAX_RANK = 8
#: Words of a step, in bytes from its start.

# Fields of DLTensor (dlpack.h), in bytes.
_TENSOR_WORDS = 6
_DATA, _DEVICE, _RANK_AND_DTYPE, _SHAPE, _STRIDES, _BYTE_OFFSET = (8 * i for i in range(6))


def emit_foreign(module: ir.Module) -> tuple[Any, Any]:
    """Write ``i32 described(ptr value, ptr step, ptr out)`` and ``i32 attributes(…)`` like it.

    Both return 1 where the array was read and written to `out`, else 0, and leave no error.
    """
    pack = _emit_pack(module)
    return _emit_described(module, pack), _emit_attributes(module, pack)


# --------------------------------------------------------------------------- C functions


def _emit_described(module: ir.Module, pack: Any) -> Any:
    """Emit the reading of a tensor, by its library's function."""
    f = Function(module, "described", I32, [POINTER, POINTER, POINTER], is_internal=True)
    value, words, out = f.args
    bad = f.block("bad")
    tensor = f.b.alloca(I64, size=_TENSOR_WORDS)
    _ask(f, value, f.load(words, _E, POINTER), bad)
    status = f.call(f.load(words, _A), I32, value, tensor)
    f.require(f.equal(status, I32(0)), bad)
    f.require(f.equal(f.load(tensor, _DEVICE), f.load(words, _B)), bad)
    f.require(f.equal(f.load(tensor, _RANK_AND_DTYPE), f.load(words, _C)), bad)
    rank = f.b.and_(f.load(words, _C), I64(0xFFFFFFFF))
    pointer = f.b.add(f.load(tensor, _DATA), f.load(tensor, _BYTE_OFFSET))
    shape, strides = (f.load(tensor, field, POINTER) for field in (_SHAPE, _STRIDES))
    f.b.ret(f.b.call(pack, [out, pointer, shape, strides, rank, f.load(words, _D)]))
    return f.refuse(bad, clears_error=True)


def _ask(f: Function, value: Any, checks: Any, bad: Any) -> None:
    """Go on where every check answers ``False``."""
    receiver = f.variable(value)
    with f.loop(f.load(checks)) as i:
        check = f.at(checks, f.b.add(I64(8), f.b.mul(i, I64(16))))
        name = f.load(check, 8, POINTER)
        attribute, method, answered = f.block("attribute"), f.block("method"), f.block("answered")
        is_method = f.equal(f.load(check), I64(CheckKind.METHOD))
        f.unless(is_method, attribute, method)
        read = f.python("PyObject_GetAttr", POINTER, value, name)
        f.leave(answered, method)
        nothing = I64(0).inttoptr(POINTER)
        called = f.python("PyObject_VectorcallMethod", POINTER, name, receiver, I64(1), nothing)
        f.leave(answered)
        answer = f.join(POINTER, (read, attribute), (called, method))
        f.require(f.b.not_(f.is_null(answer)), bad)
        f.python("Py_DecRef", ir.VoidType(), answer)
        f.require(f.equal(f.b.ptrtoint(answer, I64), I64(id(False))), bad)


# --------------------------------------------------------------------------- attributes


def _emit_attributes(module: ir.Module, pack: Any) -> Any:
    """Emit the reading of a CuPy array, by its attributes."""
    number, numbers = _emit_number(module), _emit_numbers(module)
    f = Function(module, "attributes", I32, [POINTER, POINTER, POINTER], is_internal=True)
    value, words, out = f.args
    bad = f.block("bad")
    names = f.load(words, _E, POINTER)
    rank = f.load(words, _C)
    pointer, device = f.b.alloca(I64), f.b.alloca(I64)
    shape, strides = (f.b.alloca(I64, size=_MAX_RANK) for _ in range(2))

    def name(which: Attribute) -> Any:
        return f.load(names, 8 * which, POINTER)

    dtype = f.attribute(value, name(Attribute.DTYPE), bad)
    f.python("Py_DecRef", ir.VoidType(), dtype)  # the step keeps the one that will do
    f.require(f.equal(f.b.ptrtoint(dtype, I64), f.load(words, _A)), bad)
    for which, room in ((Attribute.SHAPE, shape), (Attribute.STRIDES, strides)):
        f.require_one(f.b.call(numbers, [value, name(which), rank, room]), bad)
    memory = f.attribute(value, name(Attribute.DATA), bad)
    read = [
        f.b.call(number, [memory, name(which), room])
        for which, room in ((Attribute.PTR, pointer), (Attribute.DEVICE_ID, device))
    ]
    f.python("Py_DecRef", ir.VoidType(), memory)
    f.require_one(f.b.and_(*read), bad)
    f.require(f.equal(f.load(device), f.load(words, _B)), bad)

    # Strides are given in bytes here, in elements there; an element's size is a power of two.
    layout_word = f.load(words, _D)
    item_bytes = f.b.and_(f.b.lshr(layout_word, I64(8)), I64(0xFF))
    with f.loop(rank) as i:
        at = f.b.mul(i, I64(8))
        stride = f.load(strides, at)
        f.require(f.equal(f.b.srem(stride, item_bytes), I64(0)), bad)
        f.store(f.b.sdiv(stride, item_bytes), f.at(strides, at))
    f.b.ret(f.b.call(pack, [out, f.load(pointer), shape, strides, rank, layout_word]))
    return f.refuse(bad, clears_error=True)


def _emit_number(module: ir.Module) -> Any:
    """Emit ``i32 number(ptr object, ptr name, ptr out)``: 1 for an attribute that is an int64."""
    f = Function(module, "number", I32, [POINTER, POINTER, POINTER], is_internal=True)
    owner, name, out = f.args
    bad, other = f.block("bad"), f.block("other")
    overflow = f.b.alloca(I32)
    value = f.attribute(owner, name, bad)
    f.require(f.is_instance(value, int), other)
    f.store(f.python("PyLong_AsLongLongAndOverflow", I64, value, overflow), out)
    f.python("Py_DecRef", ir.VoidType(), value)
    is_all = f.equal(f.load(overflow, 0, I32), I32(0))
    f.b.ret(f.b.zext(is_all, I32))
    f.b.position_at_end(other)
    f.python("Py_DecRef", ir.VoidType(), value)
    f.b.branch(bad)
    return f.refuse(bad, clears_error=True)


def _emit_numbers(module: ir.Module) -> Any:
    """Emit ``i32 numbers(ptr object, ptr name, i64 count, ptr out)``: 1 for a tuple of int64."""
    kinds = [POINTER, POINTER, I64, POINTER]
    f = Function(module, "numbers", I32, kinds, is_internal=True)
    owner, name, count, out = f.args
    bad, drop = f.block("bad"), f.block("drop")
    overflow, result = f.b.alloca(I32), f.b.alloca(I32)
    f.store(I32(0), result)
    value = f.attribute(owner, name, bad)
    f.require(f.is_instance(value, tuple), drop)
    f.require(f.equal(f.load(value, layout.TUPLE_SIZE), count), drop)
    with f.loop(count) as i:
        at = f.b.mul(i, I64(8))
        item = f.load(f.at(value, layout.TUPLE_ITEMS), at, POINTER)
        f.require(f.is_instance(item, int), drop)
        f.store(f.python("PyLong_AsLongLongAndOverflow", I64, item, overflow), f.at(out, at))
        f.require(f.equal(f.load(overflow, 0, I32), I32(0)), drop)
    f.store(I32(1), result)
    f.leave(drop)
    f.python("Py_DecRef", ir.VoidType(), value)
    f.b.ret(f.load(result, 0, I32))
    return f.refuse(bad, clears_error=True)


# --------------------------------------------------------------------------- both


def _emit_pack(module: ir.Module) -> Any:
    """Emit ``i32 pack(ptr out, i64 pointer, ptr shape, ptr strides, i64 rank, i64 layout_word)``.

    It returns 1 where the address is aligned and the strides, which count elements, are those that
    the step says, and writes what is passed.
    """
    contiguous = _emit_is_contiguous(module)
    kinds = [POINTER, I64, POINTER, POINTER, I64, I64]
    f = Function(module, "pack", I32, kinds, is_internal=True)
    out, pointer, shape, strides, rank, layout_word = f.args
    bad = f.block("bad")
    any_strides, one_layout, good = f.block("any"), f.block("one_layout"), f.block("good")
    f.require(f.equal(f.b.and_(pointer, f.b.lshr(layout_word, I64(16))), I64(0)), bad)
    f.store(pointer, out)
    extents = f.at(out, 8)
    f.copy_words(extents, shape, rank)
    code = f.b.and_(layout_word, I64(255))
    f.unless(f.equal(code, I64(LayoutCode.A)), one_layout, any_strides)
    is_f = f.equal(code, I64(LayoutCode.F))
    f.require_one(f.b.call(contiguous, [shape, strides, rank, is_f]), bad)

    f.leave(good, any_strides)
    # The kernel takes any strides, but Python would choose the one for contiguous arrays.
    for order in (0, 1):
        found = f.b.call(contiguous, [shape, strides, rank, ir.Constant(ir.IntType(1), order)])
        f.require(f.equal(found, I32(0)), bad)
    item_bytes = f.b.and_(f.b.lshr(layout_word, I64(8)), I64(0xFF))
    target = f.at(extents, f.b.mul(rank, I64(8)))
    with f.loop(rank) as i:
        at = f.b.mul(i, I64(8))
        f.store(f.b.mul(f.load(strides, at), item_bytes), f.at(target, at))

    f.leave(good)
    return f.accept(bad)


def _emit_is_contiguous(module: ir.Module) -> Any:
    """Emit ``i32 contiguous(ptr shape, ptr strides, i64 rank, i1 is_f)``: 1 for those strides.

    Strides count elements; without any (null) a tensor is in C's order.
    """
    kinds = [POINTER, POINTER, I64, ir.IntType(1)]
    f = Function(module, "contiguous", I32, kinds, is_internal=True)
    shape, strides, rank, is_f = f.args
    bad, given, absent = f.block("bad"), f.block("given"), f.block("absent")
    f.when(f.is_null(strides), absent, given)
    f.b.ret(f.b.zext(f.b.not_(is_f), I32))
    f.b.position_at_end(given)
    wanted = f.variable(I64(1))
    with f.loop(rank) as i:
        from_end = f.b.sub(f.b.sub(rank, I64(1)), i)
        at = f.b.mul(f.b.select(is_f, i, from_end), I64(8))
        expected = f.load(wanted)
        f.require(f.equal(f.load(strides, at), expected), bad)
        f.store(f.b.mul(expected, f.load(shape, at)), wanted)
    return f.accept(bad)
