"""The native function that launches: written once for a process, it works through tables.

:func:`emit_module` puts together what is written in pieces: reading arguments
(:mod:`~kerneldsl.launch.native.emit_arguments`), starting kernels
(:mod:`~kerneldsl.launch.native.emit_start`), and the methods that Python calls
(:mod:`~kerneldsl.launch.native.emit_methods`). The heart, which tries one table after the other,
and conditions on arguments are here.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.contract.launch_counter import CounterWord
from kerneldsl.launch.native import layout
from kerneldsl.launch.native.builder import I8, I16, I32, I64, POINTER, Function
from kerneldsl.launch.native.conditions import CONDITION_WORDS, ConditionKind
from kerneldsl.launch.native.emit_arguments import emit_arguments
from kerneldsl.launch.native.emit_forms import ContextAddresses, emit_no_streams, read_variable
from kerneldsl.launch.native.emit_methods import MethodAddresses, emit_methods, emit_slow_path
from kerneldsl.launch.native.emit_start import emit_start, emit_timed_start
from kerneldsl.launch.native.launch_table import GUARD_WORDS, WORDS_TOGETHER, GuardKind, Word
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Addresses", "emit_conditions", "emit_module"]


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
    #: Addresses that the methods use.
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
        f.leave(good, in_type)
        of_type = f.load(owner, layout.TYPE)
        f.leave(found, in_object)
        read = f.python("PyObject_GetAttr", POINTER, owner, f.load(guard, 16, POINTER))
        f.unless(f.is_null(read), answered, bad)
        of_object = f.b.ptrtoint(read, I64)
        f.python("Py_DecRef", ir.VoidType(), read)
        f.leave(found, in_cell)
        of_cell = f.load(owner, layout.CELL_VALUE)
        f.leave(found, in_dict)
        if version_at is not None:
            version, look = f.load(owner, version_at), f.block("look")
            f.unless(f.equal(version, f.load(guard, 32)), look, good)
        key = f.load(guard, 16, POINTER)
        borrowed = f.python("PyDict_GetItemWithError", POINTER, owner, key)
        f.when(f.is_null(borrowed), missing, present)
        f.when(f.is_null(f.python("PyErr_Occurred", POINTER)), present, bad)
        f.require(f.equal(f.b.ptrtoint(borrowed, I64), f.load(guard, 24)), bad)
        if version_at is not None:
            f.store(version, guard, 32)
        f.leave(good, found)
        value = f.join(I64, (of_object, answered), (of_cell, in_cell), (of_type, in_type))
        f.require(f.equal(value, f.load(guard, 24)), bad)
        f.leave(good)
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
    f.unless(f.equal(chosen, word(Word.DEVICE)), unchosen, placed)
    f.require(f.equal(chosen, I64(id(None))), bad)
    require_all(guards, word(Word.DEVICE_GUARDS, POINTER), word(Word.DEVICE_GUARD_COUNT))
    f.leave(placed)
    require_all(guards, word(Word.GUARDS, POINTER), word(Word.GUARD_COUNT))
    count = word(Word.BUFFER_WORDS)
    words = f.b.alloca(I64, size=count)
    words.align = 16
    # llvmlite holds it for one of int64, and a bitcast for nothing to do.
    buffer = f.b.inttoptr(f.b.ptrtoint(words, I64), POINTER)
    f.copy_words(buffer, word(Word.BUFFER, POINTER), count, together=WORDS_TOGETHER)
    steps, argument_count = word(Word.STEPS, POINTER), word(Word.ARGUMENT_COUNT)
    changes = f.variable(word(Word.ASKS_NUMBERS))
    require_all(arguments, steps, argument_count, args, buffer, word(Word.DEVICE), changes)
    # The arrays that the table was made with fulfil its conditions on arrays.
    look, start_it = f.block("look_at_conditions"), f.block("start_it")
    f.unless(f.equal(f.load(changes), I64(0)), look, start_it)
    require_all(conditions, word(Word.CONDITIONS, POINTER), word(Word.CONDITION_COUNT), buffer)
    f.leave(start_it)
    timed, untimed, ended = (f.block(name) for name in ("timed", "untimed", "ended"))
    f.when(is_due, timed, untimed).set_weights([1, 1000])
    started_timed = f.b.call(start_timed, [table, buffer])
    f.leave(ended, untimed)
    started_untimed = f.b.call(start, [table, buffer])
    f.leave(ended)
    started = f.join(I32, (started_timed, timed), (started_untimed, untimed))
    counted, not_counted = f.block("counted"), f.block("not_counted")
    f.unless(f.equal(started, I32(1)), not_counted, counted).set_weights([1000, 1])
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
    result = f.variable(I32(0))
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
    f.leave(end)
    f.python("Py_DecRef", ir.VoidType(), tables)
    f.b.ret(f.load(result, 0, I32))
    return f.refuse(bad)


def emit_conditions(module: ir.Module) -> Any:
    """Emit ``i32 conditions(ptr words, i64 count, ptr buffer)``: 1 where every condition holds."""
    bounds, few = _emit_bounds(module), _emit_few(module)
    f = Function(module, "conditions", I32, [POINTER, I64, POINTER], is_internal=True)
    words, count, buffer = f.args
    bad = f.block("bad")
    room = [(f.b.alloca(I64), f.b.alloca(I64)) for _ in range(2)]
    with f.loop(count) as i:
        condition = f.at(words, f.b.mul(i, I64(8 * CONDITION_WORDS)))
        step = f.block("step")
        switch = f.b.switch(f.load(condition), bad)
        for kind in ConditionKind:
            f.case(switch, kind, kind.name.lower())
            if kind is ConditionKind.ALIGNED:
                rest = f.b.and_(_parameter(f, buffer, condition, 0), f.load(condition, 16))
                holds = f.equal(rest, f.load(condition, 24))
            elif kind is ConditionKind.SAME:
                first, second = (_parameter(f, buffer, condition, which) for which in range(2))
                holds = f.equal(first, second)
            elif kind is ConditionKind.FEW:
                holds = f.equal(f.b.call(few, [condition, buffer]), I32(1))
            elif kind is ConditionKind.WITHIN:
                holds = _is_within(f, buffer, condition, bad)
            else:
                holds = _are_distinct(f, buffer, condition, bounds, room)
            f.b.cbranch(holds, step, bad)
        f.b.position_at_end(step)
    return f.accept(bad)


def _parameter(f: Function, buffer: Any, condition: Any, which: int, kind: Any = I64) -> Any:
    """Return the first or second parameter of a condition."""
    return f.load(f.at(buffer, f.load(condition, 8 + 8 * which)), 0, kind)


def _is_within(f: Function, buffer: Any, condition: Any, bad: Any) -> Any:
    known = f.block("known")
    switch = f.b.switch(f.load(condition, 16), bad)
    loaded = []
    for kind in (I8, I16, I32, I64):
        for is_signed in (False, True):
            block = f.case(switch, kind.width // 8 + 256 * is_signed, "integer")
            number = _parameter(f, buffer, condition, 0, kind)
            if kind is not I64:
                number = f.b.sext(number, I64) if is_signed else f.b.zext(number, I64)
            loaded.append((number, block))
            f.b.branch(known)
    f.b.position_at_end(known)
    value = f.b.phi(I64)
    for number, block in loaded:
        value.add_incoming(number, block)
    is_enough = f.b.icmp_signed(">=", value, f.load(condition, 24))
    return f.b.and_(is_enough, f.b.icmp_signed("<=", value, f.load(condition, 32)))


def _are_distinct(f: Function, buffer: Any, condition: Any, bounds: Any, room: Any) -> Any:
    for which, (low, high) in enumerate(room):
        start = f.at(buffer, f.load(condition, 8 + 8 * which))
        rank, item_bytes = (f.load(condition, 24 + 16 * which + 8 * j) for j in range(2))
        f.b.call(bounds, [start, rank, item_bytes, low, high])
    (low_a, high_a), (low_b, high_b) = ((f.load(low), f.load(high)) for low, high in room)
    before = f.b.icmp_unsigned("<=", high_a, low_b)
    after = f.b.icmp_unsigned("<=", high_b, low_a)
    is_one_empty = f.b.or_(f.equal(low_a, high_a), f.equal(low_b, high_b))
    return f.b.or_(f.b.or_(before, after), is_one_empty)


def _emit_few(module: ir.Module) -> Any:
    """Emit ``i32 few(ptr condition, ptr buffer)``: 1 where extents and their product are small."""
    f = Function(module, "few", I32, [POINTER, POINTER], is_internal=True)
    condition, buffer = f.args
    bad = f.block("bad")
    extents = f.at(buffer, f.load(condition, 8))
    high = f.load(condition, 24)
    product, has_none = f.b.alloca(I64), f.b.alloca(ir.IntType(1))
    f.store(I64(1), product)
    f.store(ir.Constant(ir.IntType(1), 0), has_none)
    is_many = f.b.alloca(ir.IntType(1))
    f.store(ir.Constant(ir.IntType(1), 0), is_many)
    with f.loop(f.load(condition, 16)) as i:
        extent = f.load(extents, f.b.mul(i, I64(8)))
        f.require(f.b.icmp_signed("<=", extent, high), bad)
        with f.b.if_then(f.equal(extent, I64(0))):
            f.store(ir.Constant(ir.IntType(1), 1), has_none)
        found = f.b.mul(f.load(product), extent)  # of two numbers below 2**32
        is_more = f.b.icmp_unsigned(">", found, high)
        f.store(f.b.or_(is_more, f.load(is_many, 0, ir.IntType(1))), is_many)
        f.store(f.b.select(is_more, I64(1), found), product)
    is_few = f.b.not_(f.load(is_many, 0, ir.IntType(1)))
    f.b.ret(f.b.zext(f.b.or_(is_few, f.load(has_none, 0, ir.IntType(1))), I32))
    return f.refuse(bad)


def _emit_bounds(module: ir.Module) -> Any:
    """Emit ``void bounds(ptr array, i64 rank, i64 item_bytes, ptr low, ptr high)``.

    First and past-the-last address of an array; two equal ones if an extent is 0. Its pointer and
    extents begin at `array`, and for a rank of 256 and more its strides follow.
    """
    f = Function(
        module, "bounds", ir.VoidType(), [POINTER, I64, I64, POINTER, POINTER], is_internal=True
    )
    array, coded_rank, item_bytes, low, high = f.args
    rank = f.b.and_(coded_rank, I64(255))
    has_strides = f.b.icmp_signed(">=", coded_rank, I64(256))
    count = f.variable(I64(1))
    pointer = f.load(array)
    f.store(pointer, low)
    f.store(f.b.add(pointer, item_bytes), high)
    extents = f.at(array, 8)
    strides = f.at(extents, f.b.mul(rank, I64(8)))
    with f.loop(rank) as i:
        at = f.b.mul(i, I64(8))
        extent = f.load(extents, at)
        f.store(f.b.mul(f.load(count), extent), count)
        with f.b.if_then(has_strides):
            reach = f.b.mul(f.b.sub(extent, I64(1)), f.load(strides, at))
            end = f.b.select(f.b.icmp_signed("<", reach, I64(0)), low, high)
            f.store(f.b.add(f.load(end), reach), end)
    with f.b.if_then(f.b.not_(has_strides)):
        f.store(f.b.add(pointer, f.b.mul(f.load(count), item_bytes)), high)
    with f.b.if_then(f.equal(f.load(count), I64(0))):
        f.store(pointer, low)
        f.store(pointer, high)
    f.b.ret_void()
    return f.function
