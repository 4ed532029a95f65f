"""The native function that launches: written once for a process, it works through tables.

:func:`emit_module` puts together what is written in pieces: reading arguments
(:mod:`~kerneldsl.launch.native.emit_arguments`), conditions on them
(:mod:`~kerneldsl.launch.native.emit_conditions`), starting kernels
(:mod:`~kerneldsl.launch.native.emit_start`), and the methods that Python calls
(:mod:`~kerneldsl.launch.native.emit_methods`). The heart, which tries one table after the other, is
here.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.contract.launch_counter import CounterWord
from kerneldsl.launch.native import layout
from kerneldsl.launch.native.builder import I32, I64, POINTER, Function
from kerneldsl.launch.native.emit_arguments import emit_arguments
from kerneldsl.launch.native.emit_conditions import emit_conditions
from kerneldsl.launch.native.emit_forms import ContextAddresses, emit_no_streams, read_variable
from kerneldsl.launch.native.emit_methods import MethodAddresses, emit_methods, emit_slow_path
from kerneldsl.launch.native.emit_start import emit_start, emit_timed_start
from kerneldsl.launch.native.launch_table import GUARD_WORDS, WORDS_TOGETHER, GuardKind, Word
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Addresses", "emit_module"]


@dataclass(frozen=True)
class Addresses:
    """Places in this process that the native functions know."""

    context: ContextAddresses
    #: The offset of a device array's block.
    array_block: int
    #: The Python function that makes the block of an array that has none yet.
    seal: int
    #: Offset of the tuple of tables in a launch.
    launch_tables: int
    #: The context variable with the chosen device.
    device_variable: int
    #: What the methods know.
    methods: MethodAddresses


def emit_module(addresses: Addresses) -> ir.Module:
    """Write every function; ``launch``, ``bound``, ``forall`` and ``getitem`` are CPython's."""
    module = ir.Module("kerneldsl.launch.native")
    try_table = _emit_try(
        module,
        addresses,
        _emit_guards(module),
        emit_arguments(module, addresses.array_block, addresses.seal),
        emit_conditions(module),
        emit_start(module),
        emit_timed_start(module, layout.host_clock()),
    )
    attempt = _emit_attempt(module, addresses, try_table)
    emit_methods(module, addresses.methods, attempt, emit_slow_path(module))
    return module


def _emit_guards(module: ir.Module) -> Any:
    """Emit ``i32 guards(ptr words, i64 count)``: 1 where every guard finds its object.

    A dictionary that is as it was when the object was found in it is not looked into again.
    """
    version_at = layout.dict_version_offset()
    f = Function(module, "guards", I32, [POINTER, I64], is_internal=True)
    words, count = f.args
    bad = f.block("bad")
    with f.loop(count) as i:
        in_dict, in_cell, in_object, in_type, in_flags = (
            f.block(name) for name in ("dict", "cell", "object", "type", "flags")
        )
        answered, missing, present, found, good = (
            f.block(name) for name in ("answered", "missing", "present", "found", "good")
        )
        guard = f.at(words, f.b.mul(i, I64(8 * GUARD_WORDS)))
        owner = f.load(guard, 8, POINTER)
        switch = f.b.switch(f.load(guard), bad)
        switch.add_case(I64(GuardKind.DICT), in_dict)
        switch.add_case(I64(GuardKind.CELL), in_cell)
        switch.add_case(I64(GuardKind.ATTRIBUTE), in_object)
        switch.add_case(I64(GuardKind.TYPE), in_type)
        switch.add_case(I64(GuardKind.READ_ONLY), in_flags)
        f.b.position_at_end(in_flags)
        flags = f.b.and_(f.load(owner, layout.ARRAY_FLAGS, I32), I32(layout.WRITEABLE))
        f.require(f.equal(flags, I32(0)), bad)
        f.b.branch(good)
        f.b.position_at_end(in_type)
        of_type = f.load(owner, layout.TYPE)
        f.b.branch(found)
        f.b.position_at_end(in_object)
        read = f.python("PyObject_GetAttr", POINTER, owner, f.load(guard, 16, POINTER))
        f.b.cbranch(f.is_null(read), bad, answered)
        f.b.position_at_end(answered)
        of_object = f.b.ptrtoint(read, I64)
        f.python("Py_DecRef", ir.VoidType(), read)
        f.b.branch(found)
        f.b.position_at_end(in_cell)
        of_cell = f.load(owner, layout.CELL_VALUE)
        f.b.branch(found)
        f.b.position_at_end(in_dict)
        if version_at is not None:
            version, look = f.load(owner, version_at), f.block("look")
            f.b.cbranch(f.equal(version, f.load(guard, 32)), good, look)
            f.b.position_at_end(look)
        key = f.load(guard, 16, POINTER)
        borrowed = f.python("PyDict_GetItemWithError", POINTER, owner, key)
        f.b.cbranch(f.is_null(borrowed), missing, present)
        f.b.position_at_end(missing)
        f.b.cbranch(f.is_null(f.python("PyErr_Occurred", POINTER)), present, bad)
        f.b.position_at_end(present)
        f.require(f.equal(f.b.ptrtoint(borrowed, I64), f.load(guard, 24)), bad)
        if version_at is not None:
            f.store(version, guard, 32)
        f.b.branch(good)
        f.b.position_at_end(found)
        value = f.b.phi(I64)
        value.add_incoming(of_object, answered)
        value.add_incoming(of_cell, in_cell)
        value.add_incoming(of_type, in_type)
        f.require(f.equal(value, f.load(guard, 24)), bad)
        f.b.branch(good)
        f.b.position_at_end(good)
    return f.accept(bad, clears_error=True)


def _emit_try(
    module: ir.Module,
    addresses: Addresses,
    guards: Any,
    arguments: Any,
    conditions: Any,
    start: Any,
    start_timed: Any,
) -> Any:
    """Emit ``i32 try(ptr table, ptr args, i64 nargs)``: 1 where the kernel was started, else 0.

    -1 is a kernel that failed; its error is raised.
    """
    f = Function(module, "try", I32, [POINTER, POINTER, I64], is_internal=True)
    table, args, nargs = f.args
    bad, broken = f.block("bad"), f.block("broken")
    room = f.b.alloca(POINTER)

    def word(which: Word, kind: Any = I64) -> Any:
        return f.load(table, 8 * which, kind)

    def require_all(function: Any, *values: Any) -> None:
        f.require_one(f.b.call(function, values), bad)

    f.require(f.equal(word(Word.ARGUMENT_COUNT), nargs), bad)
    generation = f.load(f.pointer(addresses.context.state))
    f.require(f.equal(word(Word.GENERATION), generation), bad)
    counter = word(Word.COUNTER, POINTER)
    is_due = f.b.icmp_signed("<=", f.load(counter, 8 * CounterWord.LEFT), I64(0))
    emit_no_streams(f, addresses.context, room, bad, broken)
    chosen = read_variable(f, addresses.device_variable, room, broken)
    unchosen, placed = f.block("unchosen"), f.block("placed")
    f.b.cbranch(f.equal(chosen, word(Word.DEVICE)), placed, unchosen)
    f.b.position_at_end(unchosen)
    f.require(f.equal(chosen, I64(id(None))), bad)
    require_all(guards, word(Word.DEVICE_GUARDS, POINTER), word(Word.DEVICE_GUARD_COUNT))
    f.b.branch(placed)
    f.b.position_at_end(placed)
    require_all(guards, word(Word.GUARDS, POINTER), word(Word.GUARD_COUNT))
    count = word(Word.BUFFER_WORDS)
    words = f.b.alloca(I64, size=count)
    words.align = 16
    # llvmlite holds it for one of int64, and a bitcast for nothing to do.
    buffer = f.b.inttoptr(f.b.ptrtoint(words, I64), POINTER)
    f.copy_words(buffer, word(Word.BUFFER, POINTER), count, together=WORDS_TOGETHER)
    steps, argument_count = word(Word.STEPS, POINTER), word(Word.ARGUMENT_COUNT)
    changes = f.b.alloca(I64)
    f.store(word(Word.ASKS_NUMBERS), changes)
    require_all(arguments, steps, argument_count, args, buffer, word(Word.DEVICE), changes)
    # The arrays that the table was made with fulfil what it asks of arrays.
    look, start_it = f.block("look_at_conditions"), f.block("start_it")
    f.b.cbranch(f.equal(f.load(changes), I64(0)), start_it, look)
    f.b.position_at_end(look)
    require_all(conditions, word(Word.CONDITIONS, POINTER), word(Word.CONDITION_COUNT), buffer)
    f.b.branch(start_it)
    f.b.position_at_end(start_it)
    timed, untimed, ended = (f.block(name) for name in ("timed", "untimed", "ended"))
    f.b.cbranch(is_due, timed, untimed).set_weights([1, 1000])
    f.b.position_at_end(timed)
    started_timed = f.b.call(start_timed, [table, buffer])
    f.b.branch(ended)
    f.b.position_at_end(untimed)
    started_untimed = f.b.call(start, [table, buffer])
    f.b.branch(ended)
    f.b.position_at_end(ended)
    started = f.b.phi(I32)
    started.add_incoming(started_timed, timed)
    started.add_incoming(started_untimed, untimed)
    counted, not_counted = f.block("counted"), f.block("not_counted")
    f.b.cbranch(f.equal(started, I32(1)), counted, not_counted).set_weights([1000, 1])
    f.b.position_at_end(not_counted)
    f.b.ret(started)
    f.b.position_at_end(counted)
    for which, more in ((CounterWord.COUNT, 1), (CounterWord.LEFT, -1)):
        f.store(f.b.add(f.load(counter, 8 * which), I64(more)), counter, 8 * which)
    f.accept(bad)
    return f.refuse(broken, clears_error=True)


def _emit_attempt(module: ir.Module, addresses: Addresses, try_table: Any) -> Any:
    """Emit ``i32 attempt(ptr launch, ptr args, i64 nargs)``: ``try`` over the launch's tables.

    The tables are held meanwhile: another thread may put others in their place.
    """
    f = Function(module, "attempt", I32, [POINTER, POINTER, I64], is_internal=True)
    launch, args, nargs = f.args
    end, bad = f.block("end"), f.block("bad")
    result = f.b.alloca(I32)
    f.store(I32(0), result)
    f.require(f.equal(f.load(f.pointer(addresses.context.state), 8), I64(0)), bad)
    tables = f.load(launch, addresses.launch_tables, POINTER)
    f.require(f.is_instance(tables, tuple), bad)
    f.python("Py_IncRef", ir.VoidType(), tables)
    with f.loop(f.load(tables, layout.TUPLE_SIZE)) as i:
        owner = f.load(f.at(tables, layout.TUPLE_ITEMS), f.b.mul(i, I64(8)), POINTER)
        table = f.load(owner, layout.CDATA_POINTER, POINTER)
        found = f.b.call(try_table, [table, args, nargs])
        f.store(found, result)
        f.require(f.equal(found, I32(0)), end)
    f.b.branch(end)
    f.b.position_at_end(end)
    f.python("Py_DecRef", ir.VoidType(), tables)
    f.b.ret(f.load(result, 0, I32))
    return f.refuse(bad)
