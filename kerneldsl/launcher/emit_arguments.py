"""Native code that reads arguments: checks the type of each, and packs what is passed."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.launcher import layout
from kerneldsl.launcher.builder import DOUBLE, FLOAT, I8, I16, I32, I64, POINTER, Function
from kerneldsl.launcher.exchange import CheckKind, LayoutCode
from kerneldsl.launcher.table import STEP_WORDS, StepKind

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

# Fields of DLTensor (dlpack.h), in bytes.
_TENSOR_WORDS = 6
_DATA, _DEVICE, _RANK_AND_DTYPE, _SHAPE, _STRIDES, _BYTE_OFFSET = (8 * i for i in range(6))


def emit_arguments(module: ir.Module, array_block: int, seal: int) -> Any:
    """``i32 arguments(ptr steps, i64 count, ptr args, ptr buffer, i64 place, ptr changes)``.

    It returns 1 where all were read and written into the buffer, else 0, and leaves no error. To
    `changes` it adds the number of arrays that are not known to be those that the steps were made
    for.

    Parameters
    ----------
    module : ir.Module
        Where the functions go.
    array_block : int
        The offset of a device array's block.
    seal : int
        The Python function that makes the block of an array that has none yet.
    """
    describe = _emit_describe(module)
    kinds = [POINTER, I64, POINTER, POINTER, I64, POINTER]
    f = Function(module, "arguments", I32, kinds, is_internal=True)
    steps, count, args, buffer, place, changes = f.args
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
        block = f.block(kind.name.lower())
        switch.add_case(I64(kind), block)
        f.b.position_at_end(block)
        if kind in (StepKind.NDARRAY, StepKind.EXCHANGED):
            f.store(f.b.add(f.load(changes), I64(1)), changes)
        if kind is StepKind.DEVICE_ARRAY:
            block = _read_device_array(f, value, words, out, place, array_block, seal, bad)
            is_other = f.b.icmp_unsigned("!=", f.b.ptrtoint(block, I64), f.load(words, _D))
            f.store(f.b.add(f.load(changes), f.b.zext(is_other, I64)), changes)
        elif kind is StepKind.NDARRAY:
            _read_ndarray(f, value, words, out, bad)
        elif kind is StepKind.EXCHANGED:
            found = f.b.call(describe, [value, words, out])
            f.require(f.equal(found, I32(1)), bad)
        elif kind is StepKind.TUPLE:
            elements = f.load(words, _B)
            f.require(f.equal(f.load(value, layout.TUPLE_SIZE), elements), bad)
            items = f.at(value, layout.TUPLE_ITEMS)
            inner = f.load(words, _A, POINTER)
            found = f.b.call(f.function, [inner, elements, items, buffer, place, changes])
            f.require(f.equal(found, I32(1)), bad)
        else:
            _read_number(f, kind, value, words, out, overflow, bad)
        f.b.branch(step)
    f.b.position_at_end(step)
    i.add_incoming(f.b.add(i, I64(1)), step)
    f.b.branch(head)
    f.b.position_at_end(good)
    f.b.ret(I32(1))
    f.b.position_at_end(bad)
    f.b.ret(I32(0))
    return f.function


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
        block = f.block(f"store_{size}")
        switch.add_case(I64(size), block)
        f.b.position_at_end(block)
        f.store(number if kind is I64 else f.b.trunc(number, kind), out)
        f.b.branch(done)
    f.b.position_at_end(done)


# --------------------------------------------------------------------------- arrays


def _read_device_array(
    f: Function,
    value: Any,
    words: Any,
    out: Any,
    place: Any,
    array_block: int,
    seal: int,
    bad: Any,
) -> Any:
    """A device array's block is bytes: place, code of the kind, flags, then what is passed."""
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
    f.require(f.equal(f.load(data), place), bad)
    f.require(f.equal(f.load(data, 8), f.load(words, _A)), bad)
    f.require(f.equal(f.b.and_(f.load(data, 16), f.load(words, _B)), I64(0)), bad)
    f.copy_words(out, f.at(data, 24), f.load(words, _C))
    return block


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


# --------------------------------------------------------------------------- other libraries


def _emit_describe(module: ir.Module) -> Any:
    """``i32 describe(ptr value, ptr step, ptr out)``: read a tensor by its library's function."""
    contiguous = _emit_is_contiguous(module)
    f = Function(module, "describe", I32, [POINTER, POINTER, POINTER], is_internal=True)
    value, words, out = f.args
    bad = f.block("bad")
    tensor = f.b.alloca(I64, size=_TENSOR_WORDS)
    _ask(f, value, f.load(words, _E, POINTER), bad)
    status = f.call(f.load(words, _A), I32, value, tensor)
    f.require(f.equal(status, I32(0)), bad)
    f.require(f.equal(f.load(tensor, _DEVICE), f.load(words, _B)), bad)
    f.require(f.equal(f.load(tensor, _RANK_AND_DTYPE), f.load(words, _C)), bad)
    rank = f.b.and_(f.load(words, _C), I64(0xFFFFFFFF))
    shape = f.load(tensor, _SHAPE, POINTER)
    strides = f.load(tensor, _STRIDES, POINTER)
    f.store(f.b.add(f.load(tensor, _DATA), f.load(tensor, _BYTE_OFFSET)), out)
    extents = f.at(out, 8)
    f.copy_words(extents, shape, rank)

    any_strides, one_layout, good = f.block("any"), f.block("one_layout"), f.block("good")
    layout_word = f.load(words, _D)
    code = f.b.and_(layout_word, I64(255))
    f.b.cbranch(f.equal(code, I64(LayoutCode.A)), any_strides, one_layout)
    f.b.position_at_end(one_layout)
    is_f = f.equal(code, I64(LayoutCode.F))
    f.require(f.equal(f.b.call(contiguous, [shape, strides, rank, is_f]), I32(1)), bad)
    f.b.branch(good)

    f.b.position_at_end(any_strides)
    # The kernel takes any strides, but Python would choose the one for contiguous arrays.
    for order in (0, 1):
        found = f.b.call(contiguous, [shape, strides, rank, ir.Constant(ir.IntType(1), order)])
        f.require(f.equal(found, I32(0)), bad)
    item_bytes = f.b.lshr(layout_word, I64(8))
    target = f.at(extents, f.b.mul(rank, I64(8)))
    with f.loop(rank) as i:
        at = f.b.mul(i, I64(8))
        f.store(f.b.mul(f.load(strides, at), item_bytes), f.at(target, at))
    f.b.branch(good)

    f.b.position_at_end(good)
    f.b.ret(I32(1))
    f.b.position_at_end(bad)
    f.python("PyErr_Clear", ir.VoidType())
    f.b.ret(I32(0))
    return f.function


def _ask(f: Function, value: Any, checks: Any, bad: Any) -> None:
    """Go on where every check answers ``False``."""
    receiver = f.b.alloca(POINTER)
    f.store(value, receiver)
    with f.loop(f.load(checks)) as i:
        check = f.at(checks, f.b.add(I64(8), f.b.mul(i, I64(16))))
        name = f.load(check, 8, POINTER)
        attribute, method, answered = f.block("attribute"), f.block("method"), f.block("answered")
        is_method = f.equal(f.load(check), I64(CheckKind.METHOD))
        f.b.cbranch(is_method, method, attribute)
        f.b.position_at_end(attribute)
        read = f.python("PyObject_GetAttr", POINTER, value, name)
        f.b.branch(answered)
        f.b.position_at_end(method)
        nothing = I64(0).inttoptr(POINTER)
        called = f.python("PyObject_VectorcallMethod", POINTER, name, receiver, I64(1), nothing)
        f.b.branch(answered)
        f.b.position_at_end(answered)
        answer = f.b.phi(POINTER)
        answer.add_incoming(read, attribute)
        answer.add_incoming(called, method)
        f.require(f.b.not_(f.is_null(answer)), bad)
        f.python("Py_DecRef", ir.VoidType(), answer)
        f.require(f.equal(f.b.ptrtoint(answer, I64), I64(id(False))), bad)


def _emit_is_contiguous(module: ir.Module) -> Any:
    """``i32 contiguous(ptr shape, ptr strides, i64 rank, i1 is_f)``: 1 for exactly those strides.

    Strides count elements; without any (null) a tensor is in C's order.
    """
    kinds = [POINTER, POINTER, I64, ir.IntType(1)]
    f = Function(module, "contiguous", I32, kinds, is_internal=True)
    shape, strides, rank, is_f = f.args
    bad, given, absent = f.block("bad"), f.block("given"), f.block("absent")
    f.b.cbranch(f.is_null(strides), absent, given)
    f.b.position_at_end(absent)
    f.b.ret(f.b.zext(f.b.not_(is_f), I32))
    f.b.position_at_end(given)
    wanted = f.b.alloca(I64)
    f.store(I64(1), wanted)
    with f.loop(rank) as i:
        from_end = f.b.sub(f.b.sub(rank, I64(1)), i)
        at = f.b.mul(f.b.select(is_f, i, from_end), I64(8))
        expected = f.load(wanted)
        f.require(f.equal(f.load(strides, at), expected), bad)
        f.store(f.b.mul(expected, f.load(shape, at)), wanted)
    f.b.ret(I32(1))
    f.b.position_at_end(bad)
    f.b.ret(I32(0))
    return f.function
