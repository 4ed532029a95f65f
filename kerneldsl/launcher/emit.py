"""The native functions: a launch, a prepared launch, and finding a launch by its shape.

All are written once for a process. :func:`emit_attempt` writes the heart, which works through the
tables of :mod:`~kerneldsl.launcher.table`; the others have the signatures of CPython's methods and
hand over to Python functions whatever they do not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from kerneldsl.launcher import layout
from kerneldsl.launcher.builder import DOUBLE, FLOAT, I8, I16, I32, I64, POINTER, Function
from kerneldsl.launcher.start import emit_start
from kerneldsl.launcher.table import GUARD_WORDS, STEP_WORDS, GuardKind, StepKind, Word

__all__ = ["Addresses", "emit_module"]


@dataclass(frozen=True)
class Addresses:
    """Places in this process that the native functions know.

    Parameters
    ----------
    generation : int
        Of an int64; tables of another generation are passed over.
    array_type, array_block : int
        The class of device arrays, and the offset of their block.
    launch_tables : int
        Offset of the tuple of tables in a launch.
    bound_launch, bound_args : int
        Offsets of the launch and of the arguments in a prepared launch.
    kernel_extents, kernel_grids : int
        Offsets in a kernel of the launches by extent, and by grid and block.
    place_variable, streams_variable : int
        The context variables with the chosen place and the active streams.
    no_streams : int
        What the latter holds where no stream is active.
    slow_launch, slow_bound, slow_forall, slow_getitem : int
        The Python functions that take over.
    """

    generation: int
    array_type: int
    array_block: int
    launch_tables: int
    bound_launch: int
    bound_args: int
    kernel_extents: int
    kernel_grids: int
    place_variable: int
    streams_variable: int
    no_streams: int
    slow_launch: int
    slow_bound: int
    slow_forall: int
    slow_getitem: int


def emit_module(addresses: Addresses) -> ir.Module:
    """Write every function; ``launch``, ``bound``, ``forall`` and ``getitem`` are CPython's."""
    module = ir.Module("kerneldsl.launcher")
    guards = _emit_guards(module)
    arguments = _emit_arguments(module, addresses)
    start = emit_start(module)
    try_table = _emit_try(module, addresses, guards, arguments, start)
    attempt = _emit_attempt(module, addresses, try_table)
    hand_over = _emit_hand_over(module)
    _emit_launch(module, addresses, attempt, hand_over)
    _emit_bound(module, addresses, attempt, hand_over)
    _emit_forall(module, addresses, hand_over)
    _emit_getitem(module, addresses)
    return module


# --------------------------------------------------------------------------- the heart


def _emit_guards(module: ir.Module) -> Any:
    """``i32 guards(ptr words, i64 count)``: 1 where every guard finds its object."""
    f = Function(module, "guards", I32, [POINTER, I64], is_internal=True)
    words, count = f.args
    head, body, in_dict, in_cell, found, step, good, bad = (
        f.block(name)
        for name in ("head", "body", "dict", "cell", "found", "step", "good", "bad")
    )
    entry = f.b.block
    f.b.branch(head)
    f.b.position_at_end(head)
    i = f.b.phi(I64)
    i.add_incoming(I64(0), entry)
    f.b.cbranch(f.b.icmp_signed("<", i, count), body, good)
    f.b.position_at_end(body)
    guard = f.at(words, f.b.mul(i, I64(8 * GUARD_WORDS)))
    owner = f.load(guard, 8, POINTER)
    expected = f.load(guard, 24)
    f.b.cbranch(f.equal(f.load(guard), I64(GuardKind.DICT)), in_dict, in_cell)
    f.b.position_at_end(in_cell)
    of_cell = f.load(owner, layout.CELL_VALUE)
    f.b.branch(found)
    f.b.position_at_end(in_dict)
    borrowed = f.python(
        "PyDict_GetItemWithError", POINTER, owner, f.load(guard, 16, POINTER)
    )
    of_dict = f.b.ptrtoint(borrowed, I64)
    missing = f.block("missing")
    f.b.cbranch(f.is_null(borrowed), missing, found)
    f.b.position_at_end(missing)
    f.b.cbranch(f.is_null(f.python("PyErr_Occurred", POINTER)), found, bad)
    f.b.position_at_end(found)
    value = f.b.phi(I64)
    value.add_incoming(of_cell, in_cell)
    value.add_incoming(of_dict, in_dict)
    value.add_incoming(of_dict, missing)
    f.b.cbranch(f.equal(value, expected), step, bad)
    f.b.position_at_end(step)
    i.add_incoming(f.b.add(i, I64(1)), step)
    f.b.branch(head)
    f.b.position_at_end(good)
    f.b.ret(I32(1))
    f.b.position_at_end(bad)
    f.python("PyErr_Clear", ir.VoidType())
    f.b.ret(I32(0))
    return f.function


def _emit_arguments(module: ir.Module, addresses: Addresses) -> Any:
    """``i32 arguments(ptr table, ptr args, ptr buffer)``: 1 where all were read and written."""
    f = Function(module, "arguments", I32, [POINTER, POINTER, POINTER], is_internal=True)
    table, args, buffer = f.args
    head, body, right, step, good, bad = (
        f.block(name) for name in ("head", "body", "right", "step", "good", "bad")
    )
    overflow = f.b.alloca(I32)
    count = f.load(table, 8 * Word.ARGUMENT_COUNT)
    steps = f.load(table, 8 * Word.STEPS, POINTER)
    place = f.load(table, 8 * Word.PLACE)
    entry = f.b.block
    f.b.branch(head)
    f.b.position_at_end(head)
    i = f.b.phi(I64)
    i.add_incoming(I64(0), entry)
    f.b.cbranch(f.b.icmp_signed("<", i, count), body, good)
    f.b.position_at_end(body)
    value = f.load(args, f.b.mul(i, I64(8)), POINTER)
    words = f.at(steps, f.b.mul(i, I64(8 * STEP_WORDS)))
    f.b.cbranch(f.equal(f.load(value, layout.TYPE), f.load(words, 8)), right, bad)
    f.b.position_at_end(right)
    out = f.at(buffer, f.load(words, 16))
    switch = f.b.switch(f.load(words), bad)
    for kind in StepKind:
        block = f.block(kind.name.lower())
        switch.add_case(I64(kind), block)
        f.b.position_at_end(block)
        if kind is StepKind.DEVICE_ARRAY:
            _read_device_array(f, value, words, out, place, addresses, bad)
        elif kind is StepKind.NDARRAY:
            _read_ndarray(f, value, words, out, bad)
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


_WIDTHS = {
    StepKind.COPY_1: I8,
    StepKind.COPY_2: I16,
    StepKind.COPY_4: I32,
    StepKind.COPY_8: I64,
    StepKind.COPY_16: ir.IntType(128),
}


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
            f.require(f.b.icmp_signed(">=", number, f.load(words, 24)), bad)
            f.require(f.b.icmp_signed("<=", number, f.load(words, 32)), bad)
            _store_int(f, number, f.load(words, 40), out, bad)
        elif kind is StepKind.INT_TO_FLOAT64:
            f.store(f.b.sitofp(number, DOUBLE), out)
        else:  # twice rounded, as the conversion over a Python float is
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


def _copy_words(f: Function, out: Any, source: Any, count: Any) -> None:
    head, body, done = f.block("copy"), f.block("copy_word"), f.block("copied")
    before = f.b.block
    f.b.branch(head)
    f.b.position_at_end(head)
    i = f.b.phi(I64)
    i.add_incoming(I64(0), before)
    f.b.cbranch(f.b.icmp_signed("<", i, count), body, done)
    f.b.position_at_end(body)
    offset = f.b.mul(i, I64(8))
    f.store(f.load(source, offset), f.at(out, offset))
    i.add_incoming(f.b.add(i, I64(1)), body)
    f.b.branch(head)
    f.b.position_at_end(done)


def _read_device_array(
    f: Function, value: Any, words: Any, out: Any, place: Any, addresses: Addresses, bad: Any
) -> None:
    """A device array's block is bytes: place, code of the kind, flags, then what is passed."""
    block = f.load(value, addresses.array_block, POINTER)
    f.require(f.b.not_(f.is_null(block)), bad)
    f.require(f.equal(f.load(block, layout.TYPE), I64(id(bytes))), bad)
    data = f.at(block, layout.BYTES_DATA)
    f.require(f.equal(f.load(data), place), bad)
    f.require(f.equal(f.load(data, 8), f.load(words, 24)), bad)
    f.require(f.equal(f.b.and_(f.load(data, 16), f.load(words, 32)), I64(0)), bad)
    _copy_words(f, out, f.at(data, 24), f.load(words, 40))


def _read_ndarray(f: Function, value: Any, words: Any, out: Any, bad: Any) -> None:
    f.require(f.equal(f.load(value, layout.ARRAY_DESCR), f.load(words, 24)), bad)
    flags = f.b.zext(f.load(value, layout.ARRAY_FLAGS, I32), I64)
    f.require(f.equal(f.b.and_(flags, f.load(words, 32)), f.load(words, 40)), bad)
    wanted = f.load(words, 48)
    rank = f.b.and_(wanted, I64(255))
    f.require(f.equal(f.b.zext(f.load(value, layout.ARRAY_NDIM, I32), I64), rank), bad)
    f.store(f.load(value, layout.ARRAY_DATA), out)
    extents = f.at(out, 8)
    _copy_words(f, extents, f.load(value, layout.ARRAY_DIMENSIONS, POINTER), rank)
    with f.b.if_then(f.b.icmp_signed(">=", wanted, I64(256))):
        strides = f.at(extents, f.b.mul(rank, I64(8)))
        _copy_words(f, strides, f.load(value, layout.ARRAY_STRIDES, POINTER), rank)


def _read_variable(f: Function, variable: int, room: Any, bad: Any) -> Any:
    """What a context variable holds, as a number; the context keeps it alive."""
    status = f.python(
        "PyContextVar_Get", I32, f.pointer(variable), I64(0).inttoptr(POINTER), room
    )
    f.require(f.equal(status, I32(0)), bad)
    value = f.load(room, 0, POINTER)
    f.python("Py_DecRef", ir.VoidType(), value)
    return f.b.ptrtoint(value, I64)


def _emit_try(
    module: ir.Module, addresses: Addresses, guards: Any, arguments: Any, start: Any
) -> Any:
    """``i32 try(ptr table, ptr owner, ptr args, i64 nargs)``: 0 no, 1 launched, 2 raised."""
    f = Function(module, "try", I32, [POINTER, POINTER, POINTER, I64], is_internal=True)
    table, owner, args, nargs = f.args
    bad, broken = f.block("bad"), f.block("broken")
    room = f.b.alloca(POINTER)

    def word(which: Word) -> Any:
        return f.load(table, 8 * which)

    f.require(f.equal(word(Word.ARGUMENT_COUNT), nargs), bad)
    generation = f.load(f.pointer(addresses.generation))
    f.require(f.equal(word(Word.GENERATION), generation), bad)
    tally = f.load(table, 8 * Word.TALLY, POINTER)
    left = f.load(tally, 8)
    f.require(f.b.icmp_signed(">", left, I64(0)), bad)
    active = _read_variable(f, addresses.streams_variable, room, broken)
    f.require(f.equal(active, I64(addresses.no_streams)), bad)
    chosen = _read_variable(f, addresses.place_variable, room, broken)
    unchosen, placed = f.block("unchosen"), f.block("placed")
    f.b.cbranch(f.equal(chosen, word(Word.PLACE)), placed, unchosen)
    f.b.position_at_end(unchosen)
    f.require(f.equal(chosen, I64(id(None))), bad)
    place_guards = f.load(table, 8 * Word.PLACE_GUARDS, POINTER)
    found = f.b.call(guards, [place_guards, word(Word.PLACE_GUARD_COUNT)])
    f.b.cbranch(f.equal(found, I32(1)), placed, bad)
    f.b.position_at_end(placed)
    found = f.b.call(guards, [f.load(table, 8 * Word.GUARDS, POINTER), word(Word.GUARD_COUNT)])
    f.require(f.equal(found, I32(1)), bad)
    count = word(Word.BUFFER_WORDS)
    buffer = f.b.alloca(I64, size=count)
    buffer.align = 16
    _copy_words(f, buffer, f.load(table, 8 * Word.BUFFER, POINTER), count)
    found = f.b.call(arguments, [table, args, buffer])
    f.require(f.equal(found, I32(1)), bad)
    f.python("Py_IncRef", ir.VoidType(), owner)
    result = f.b.call(start, [table, buffer])
    with f.b.if_then(f.equal(result, I32(1))):
        f.store(f.b.add(f.load(tally), I64(1)), tally)
        f.store(f.b.sub(f.load(tally, 8), I64(1)), tally, 8)
    f.python("Py_DecRef", ir.VoidType(), owner)
    f.b.ret(result)
    f.b.position_at_end(bad)
    f.b.ret(I32(0))
    f.b.position_at_end(broken)
    f.python("PyErr_Clear", ir.VoidType())
    f.b.ret(I32(0))
    return f.function


def _emit_attempt(module: ir.Module, addresses: Addresses, try_table: Any) -> Any:
    """``i32 attempt(ptr launch, ptr args, i64 nargs)``: as ``try``, over the launch's tables."""
    f = Function(module, "attempt", I32, [POINTER, POINTER, I64], is_internal=True)
    launch, args, nargs = f.args
    head, body, step, done, bad = (
        f.block(name) for name in ("head", "body", "step", "done", "bad")
    )
    tables = f.load(launch, addresses.launch_tables, POINTER)
    f.require(f.b.not_(f.is_null(tables)), bad)
    f.require(f.equal(f.load(tables, layout.TYPE), I64(id(tuple))), bad)
    count = f.load(tables, layout.TUPLE_SIZE)
    entry = f.b.block
    f.b.branch(head)
    f.b.position_at_end(head)
    i = f.b.phi(I64)
    i.add_incoming(I64(0), entry)
    f.b.cbranch(f.b.icmp_signed("<", i, count), body, bad)
    f.b.position_at_end(body)
    owner = f.load(f.at(tables, layout.TUPLE_ITEMS), f.b.mul(i, I64(8)), POINTER)
    table = f.load(owner, layout.CDATA_POINTER, POINTER)
    result = f.b.call(try_table, [table, owner, args, nargs])
    f.b.cbranch(f.equal(result, I32(0)), step, done)
    f.b.position_at_end(step)
    i.add_incoming(f.b.add(i, I64(1)), step)
    f.b.branch(head)
    f.b.position_at_end(done)
    f.b.ret(result)
    f.b.position_at_end(bad)
    f.b.ret(I32(0))
    return f.function


# --------------------------------------------------------------------------- methods of CPython


def _emit_hand_over(module: ir.Module) -> Any:
    """``ptr hand_over(ptr function, ptr self, ptr args, i64 nargs, ptr names)``: call Python."""
    f = Function(
        module, "hand_over", POINTER, [POINTER, POINTER, POINTER, I64, POINTER], is_internal=True
    )
    function, self, args, nargs, names = f.args
    total = f.b.alloca(I64)
    f.store(nargs, total)
    with f.b.if_then(f.b.not_(f.is_null(names))):
        f.store(f.b.add(nargs, f.load(names, layout.TUPLE_SIZE)), total)
    count = f.load(total)
    stack = f.b.alloca(POINTER, size=f.b.add(count, I64(1)))
    f.store(self, stack)
    _copy_words(f, f.at(stack, 8), args, count)
    f.b.ret(
        f.python(
            "PyObject_Vectorcall", POINTER, function, stack, f.b.add(nargs, I64(1)), names
        )
    )
    return f.function


def _finish(f: Function, result: Any, slow: Any) -> None:
    """Return ``None`` for 1, an error for 2, and branch away for 0."""
    launched, raised = f.block("launched"), f.block("raised")
    switch = f.b.switch(result, slow)
    switch.add_case(I32(1), launched)
    switch.add_case(I32(2), raised)
    f.b.position_at_end(launched)
    none = f.pointer(id(None))
    f.python("Py_IncRef", ir.VoidType(), none)
    f.b.ret(none)
    f.b.position_at_end(raised)
    f.b.ret(I64(0).inttoptr(POINTER))


_METHOD = (POINTER, POINTER, I64, POINTER)


def _emit_launch(module: ir.Module, addresses: Addresses, attempt: Any, hand_over: Any) -> None:
    f = Function(module, "launch", POINTER, _METHOD)
    self, args, nargs, names = f.args
    slow = f.block("slow")
    f.require(f.is_null(names), slow)
    _finish(f, f.b.call(attempt, [self, args, nargs]), slow)
    f.b.position_at_end(slow)
    function = f.pointer(addresses.slow_launch)
    f.b.ret(f.b.call(hand_over, [function, self, args, nargs, names]))


def _emit_bound(module: ir.Module, addresses: Addresses, attempt: Any, hand_over: Any) -> None:
    f = Function(module, "bound", POINTER, _METHOD)
    self, args, nargs, names = f.args
    slow = f.block("slow")
    f.require(f.is_null(names), slow)
    f.require(f.equal(nargs, I64(0)), slow)
    launch = f.load(self, addresses.bound_launch, POINTER)
    values = f.load(self, addresses.bound_args, POINTER)
    f.require(f.b.not_(f.is_null(launch)), slow)
    f.require(f.b.not_(f.is_null(values)), slow)
    count = f.load(values, layout.TUPLE_SIZE)
    items = f.at(values, layout.TUPLE_ITEMS)
    _finish(f, f.b.call(attempt, [launch, items, count]), slow)
    f.b.position_at_end(slow)
    function = f.pointer(addresses.slow_bound)
    f.b.ret(f.b.call(hand_over, [function, self, args, nargs, names]))


def _find(f: Function, table: Any, key: Any, slow: Any) -> None:
    """Return what a dictionary holds, or branch away."""
    f.require(f.b.not_(f.is_null(table)), slow)
    f.require(f.equal(f.load(table, layout.TYPE), I64(id(dict))), slow)
    found = f.python("PyDict_GetItemWithError", POINTER, table, key)
    f.require(f.b.not_(f.is_null(found)), slow)
    f.python("Py_IncRef", ir.VoidType(), found)
    f.b.ret(found)


def _emit_forall(module: ir.Module, addresses: Addresses, hand_over: Any) -> None:
    f = Function(module, "forall", POINTER, _METHOD)
    self, args, nargs, names = f.args
    slow = f.block("slow")
    f.require(f.is_null(names), slow)
    f.require(f.equal(nargs, I64(1)), slow)
    extent = f.load(args, 0, POINTER)
    f.require(f.equal(f.load(extent, layout.TYPE), I64(id(int))), slow)
    _find(f, f.load(self, addresses.kernel_extents, POINTER), extent, slow)
    f.b.position_at_end(slow)
    f.python("PyErr_Clear", ir.VoidType())
    function = f.pointer(addresses.slow_forall)
    f.b.ret(f.b.call(hand_over, [function, self, args, nargs, names]))


def _emit_getitem(module: ir.Module, addresses: Addresses) -> None:
    """Grids and blocks that are ints or tuples of ints; ``(1, 32)`` must not find ``(True, 32)``."""
    f = Function(module, "getitem", POINTER, [POINTER, POINTER])
    self, config = f.args
    slow = f.block("slow")
    f.require(f.equal(f.load(config, layout.TYPE), I64(id(tuple))), slow)
    f.require(f.equal(f.load(config, layout.TUPLE_SIZE), I64(2)), slow)
    for i in range(2):
        item = f.load(config, layout.TUPLE_ITEMS + 8 * i, POINTER)
        f.require(f.equal(f.load(item, layout.TYPE), I64(id(int))), slow)
    _find(f, f.load(self, addresses.kernel_grids, POINTER), config, slow)
    f.b.position_at_end(slow)
    f.python("PyErr_Clear", ir.VoidType())
    stack = f.b.alloca(POINTER, size=2)
    f.store(self, stack)
    f.store(config, stack, 8)
    function = f.pointer(addresses.slow_getitem)
    nothing = I64(0).inttoptr(POINTER)
    f.b.ret(f.python("PyObject_Vectorcall", POINTER, function, stack, I64(2), nothing))
