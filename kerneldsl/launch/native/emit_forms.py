"""Native code that makes arrays of forms: copies of a model, in new memory or that of others.

In Python an array takes as long as a launch: 14 slots are filled, and the words for native code are
put together. A pool takes twice as long. Native code takes memory from a free list, and the
finalizer of its buffer returns it (:mod:`kerneldsl.memory.host_memory`). For all other cases these
functions call the Python methods that they replace.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.launch.native import layout
from kerneldsl.launch.native.builder import I32, I64, POINTER, Function
from kerneldsl.launch.native.emit_methods import METHOD, METHOD_COUNT, emit_slow_path
from kerneldsl.launch.native.step_kinds import BLOCK_FLAGS, BLOCK_HEAD
from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.device_memory import PooledBuffer
from kerneldsl.memory.geometry import OTHER_HOME, READ_ONLY
from kerneldsl.memory.host_memory import MAX_BLOCKS, FreeList
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "COPIED_SLOTS",
    "ContextAddresses",
    "FormAddresses",
    "emit_forms",
    "emit_no_streams",
    "read_variable",
]

#: Slots that an array copies unchanged from its form's model.
COPIED_SLOTS = ("code", "device", "dtype", "is_closed", "layout", "shape", "size", "strides")
_NULL = ir.Constant(POINTER, None)


@dataclass(frozen=True)
class FormAddresses:
    """Places in this process that the native methods of forms know."""

    #: Offsets of slots by their names, in each of these classes.
    array: dict[str, int]
    form: dict[str, int]
    buffer: dict[str, int]
    free_list: dict[str, int]
    counts: dict[str, int]
    #: The Python functions that take over, by the symbols of the native ones.
    slow: dict[str, int]


def emit_forms(addresses: FormAddresses, context: ContextAddresses) -> ir.Module:
    """Write ``form_view``, ``form_at``, ``form_empty`` and ``buffer_del``."""
    module = ir.Module("kerneldsl.launch.native.forms")
    slow_path = emit_slow_path(module)
    make, add = _emit_make(module, addresses), _emit_add(module)
    _emit_view(module, addresses, make, slow_path)
    _emit_at(module, addresses, make, slow_path)
    _emit_empty(module, addresses, context, make, add, slow_path)
    _emit_del(module, addresses, context, add, slow_path)
    return module


def _begin(module: ir.Module, name: str, count: int) -> tuple[Function, Any]:
    """Begin a method of so many arguments; give it, and the block for what it does not know."""
    f = Function(module, name, POINTER, METHOD)
    slow = f.block("slow")
    f.require(f.equal(f.b.and_(f.args[2], METHOD_COUNT), I64(count)), slow)
    f.require(f.is_null(f.args[3]), slow)
    return f, slow


def _end(f: Function, slow: Any, addresses: FormAddresses, slow_path: Any) -> None:
    """Hand over to Python."""
    f.b.position_at_end(slow)
    function = f.pointer(addresses.slow[f.function.name])
    f.b.ret(f.b.call(slow_path, [function, *f.args]))


def _emit_view(module: ir.Module, addresses: FormAddresses, make: Any, slow_path: Any) -> None:
    f, slow = _begin(module, "form_view", 1)
    failed = f.block("failed")
    array = f.load(f.args[1], 0, POINTER)
    f.require(f.is_instance(array, DeviceArray), slow)
    # All three are held: another thread may close the array.
    start, owner, is_read_only = held = [
        f.load(array, addresses.array[name], POINTER)
        for name in ("location", "_owner", "is_read_only")
    ]
    f.require(f.is_instance(start, int), slow)
    for each in (owner, is_read_only):
        f.require(f.b.not_(f.is_null(each)), slow)
    model = _load_model(f, addresses, slow)
    for each in held:
        f.python("Py_IncRef", ir.VoidType(), each)
    offset = f.load(f.args[0], addresses.form["_offset"], POINTER)
    location = f.python("PyNumber_Add", POINTER, start, offset)
    f.require(f.b.not_(f.is_null(location)), failed)
    made = f.b.call(make, [model, location, owner, is_read_only])
    for each in (*held, location):
        f.python("Py_DecRef", ir.VoidType(), each)
    f.b.ret(made)
    f.b.position_at_end(failed)
    for each in held:
        f.python("Py_DecRef", ir.VoidType(), each)
    f.b.ret(_NULL)
    _end(f, slow, addresses, slow_path)


def _emit_at(module: ir.Module, addresses: FormAddresses, make: Any, slow_path: Any) -> None:
    f, slow = _begin(module, "form_at", 3)
    location, owner, is_read_only = (f.load(f.args[1], 8 * at, POINTER) for at in range(3))
    f.require(f.is_instance(location, int), slow)
    model = _load_model(f, addresses, slow)
    f.b.ret(f.b.call(make, [model, location, owner, is_read_only]))
    _end(f, slow, addresses, slow_path)


def _emit_empty(
    module: ir.Module,
    addresses: FormAddresses,
    context: ContextAddresses,
    make: Any,
    add: Any,
    slow_path: Any,
) -> None:
    """Take a block where no stream and no other pool is active.

    The buffer is there before the block is taken: to make it may run finalizers.
    """
    f, slow = _begin(module, "form_empty", 0)
    broken, failed, no_block = f.block("broken"), f.block("failed"), f.block("no_block")
    slots, room = addresses.buffer, f.b.alloca(POINTER)
    model = _load_model(f, addresses, slow)
    free_list = f.load(f.args[0], addresses.form["_free_list"], POINTER)
    blocks = _load_blocks(f, addresses, context, free_list, slow)
    emit_no_streams(f, context, room, slow, broken)
    active = read_variable(f, context.pools_variable, room, broken)
    f.require(f.equal(active, I64(context.nothing)), slow)
    f.require(f.b.not_(f.equal(f.load(blocks, layout.LIST_SIZE), I64(0))), slow)
    buffer = f.python("PyType_GenericAlloc", POINTER, f.pointer(id(PooledBuffer)), I64(0))
    f.require(f.b.not_(f.is_null(buffer)), failed)
    pool, nbytes = (
        f.load(free_list, addresses.free_list[name], POINTER) for name in ("pool", "nbytes")
    )
    values = dict.fromkeys(("_home", "_uses", "family"), f.pointer(id(None)))
    values |= dict.fromkeys(("is_shared", "is_recorded"), f.pointer(id(False)))
    values |= {"_pool": pool, "nbytes": nbytes, "free_list": free_list, "pointer": f.pointer(id(0))}
    for name, value in values.items():
        f.python("Py_IncRef", ir.VoidType(), value)
        f.store(value, buffer, slots[name])
    count = f.load(blocks, layout.LIST_SIZE)
    f.require(f.b.icmp_signed(">", count, I64(0)), no_block)
    last = f.b.sub(count, I64(1))
    location = f.python("PyList_GetItem", POINTER, blocks, last)
    f.python("Py_IncRef", ir.VoidType(), location)
    f.python("Py_DecRef", ir.VoidType(), values["pointer"])
    f.store(location, buffer, slots["pointer"])
    f.python("PyList_SetSlice", I32, blocks, last, count, _NULL)
    size = f.python("PyLong_AsLongLong", I64, nbytes)
    for name in ("counts", "sums"):
        counts, places = f.load(free_list, addresses.free_list[name], POINTER), addresses.counts
        if name == "counts":
            f.b.call(add, [f.at(counts, places["allocations"]), I64(1)])
            f.b.call(add, [f.at(counts, places["hits"]), I64(1)])
        in_use = f.b.call(add, [f.at(counts, places["in_use"]), size])
        peak = f.python("PyLong_AsLongLong", I64, f.load(counts, places["peak"], POINTER))
        with f.b.if_then(f.b.icmp_signed(">", in_use, peak)):
            f.b.call(add, [f.at(counts, places["peak"]), f.b.sub(in_use, peak)])
    made = f.b.call(make, [model, location, buffer, f.pointer(id(False))])
    f.python("Py_DecRef", ir.VoidType(), buffer)
    f.b.ret(made)
    f.b.position_at_end(no_block)
    f.python("Py_DecRef", ir.VoidType(), buffer)
    f.leave(slow, failed)
    f.b.ret(_NULL)
    f.forget_error(broken, slow)
    _end(f, slow, addresses, slow_path)


def _emit_del(
    module: ir.Module,
    addresses: FormAddresses,
    context: ContextAddresses,
    add: Any,
    slow_path: Any,
) -> None:
    """Put a block back that was used in the default stream alone, and not lent."""
    f, slow = _begin(module, "buffer_del", 0)
    broken = f.block("broken")
    self, slots = f.args[0], addresses.buffer
    free_list = f.load(self, slots["free_list"], POINTER)
    blocks = _load_blocks(f, addresses, context, free_list, slow)
    for name, wanted in (("_home", None), ("_uses", None), ("is_shared", False)):
        found = f.b.ptrtoint(f.load(self, slots[name], POINTER), I64)
        f.require(f.equal(found, I64(id(wanted))), slow)
    location = f.load(self, slots["pointer"], POINTER)
    f.require(f.is_instance(location, int), slow)
    f.require(f.b.not_(f.equal(f.b.ptrtoint(location, I64), I64(id(0)))), slow)
    f.require(f.b.icmp_signed("<", f.load(blocks, layout.LIST_SIZE), I64(MAX_BLOCKS)), slow)
    status = f.python("PyList_Append", I32, blocks, location)
    f.require(f.equal(status, I32(0)), broken)
    zero = f.pointer(id(0))
    f.python("Py_IncRef", ir.VoidType(), zero)
    f.store(zero, self, slots["pointer"])
    f.python("Py_DecRef", ir.VoidType(), location)
    nbytes = f.load(free_list, addresses.free_list["nbytes"], POINTER)
    less = f.b.neg(f.python("PyLong_AsLongLong", I64, nbytes))
    for name in ("counts", "sums"):
        counts, places = f.load(free_list, addresses.free_list[name], POINTER), addresses.counts
        if name == "counts":
            f.b.call(add, [f.at(counts, places["frees"]), I64(1)])
        f.b.call(add, [f.at(counts, places["in_use"]), less])
    none = f.pointer(id(None))
    f.python("Py_IncRef", ir.VoidType(), none)
    f.b.ret(none)
    f.forget_error(broken, slow)
    _end(f, slow, addresses, slow_path)


def _load_blocks(
    f: Function, addresses: FormAddresses, context: ContextAddresses, free_list: Any, slow: Any
) -> Any:
    """Return the list of blocks of an open free list; branch away if it has none."""
    f.require(f.equal(f.load(f.pointer(context.state), 8), I64(0)), slow)
    f.require(f.is_instance(free_list, FreeList), slow)
    is_open = f.b.ptrtoint(f.load(free_list, addresses.free_list["is_open"], POINTER), I64)
    f.require(f.equal(is_open, I64(id(True))), slow)
    blocks = f.load(free_list, addresses.free_list["blocks"], POINTER)
    f.require(f.is_instance(blocks, list), slow)
    return blocks


def _emit_add(module: ir.Module) -> Any:
    """Emit ``i64 add(ptr slot, i64 more)``: adds to an int that a slot holds, and returns the sum.

    Python code that does the same is not interrupted between its read and its write: CPython
    switches threads only at loops, calls and the beginning of functions.
    """
    f = Function(module, "add_to_slot", I64, [POINTER, I64], is_internal=True)
    slot, more = f.args
    before = f.load(slot, 0, POINTER)
    total = f.b.add(f.python("PyLong_AsLongLong", I64, before), more)
    after, same = f.python("PyLong_FromLongLong", POINTER, total), f.block("same")
    f.require(f.b.not_(f.is_null(after)), same)
    f.store(after, slot)
    f.python("Py_DecRef", ir.VoidType(), before)
    f.b.ret(total)
    f.b.position_at_end(same)
    f.python("PyErr_Clear", ir.VoidType())
    f.b.ret(total)
    return f.function


def _load_model(f: Function, addresses: FormAddresses, slow: Any) -> Any:
    """Return the model of the form; branch away where the form was not made as forms are."""
    model = f.load(f.args[0], addresses.form["_model"], POINTER)
    f.require(f.is_instance(model, DeviceArray), slow)
    return model


def _emit_make(module: ir.Module, addresses: FormAddresses) -> Any:
    """Emit ``ptr make(ptr model, ptr location, ptr owner, ptr is_read_only)``.

    Null is an error, which is raised.
    """
    f = Function(module, "make_array", POINTER, [POINTER] * 4, is_internal=True)
    model, location, owner, is_read_only = f.args
    slots = addresses.array
    failed, no_block, no_array = (f.block(name) for name in ("failed", "no_block", "no_array"))
    packed = _emit_packed(f, f.load(model, slots["packed"], POINTER), location, failed)
    block = _emit_block(f, addresses, model, location, owner, is_read_only, no_block)
    kind = f.pointer(id(DeviceArray))
    made = f.python("PyType_GenericAlloc", POINTER, kind, I64(0))
    f.require(f.b.not_(f.is_null(made)), no_array)
    values = {name: f.load(model, slots[name], POINTER) for name in COPIED_SLOTS}
    values |= {"location": location, "_owner": owner, "is_read_only": is_read_only}
    for name, value in values.items():
        f.python("Py_IncRef", ir.VoidType(), value)
        f.store(value, made, slots[name])
    f.store(packed, made, slots["packed"])
    f.store(block, made, slots["_block"])
    f.b.ret(made)
    f.b.position_at_end(no_array)
    f.python("Py_DecRef", ir.VoidType(), block)
    f.leave(no_block)
    f.python("Py_DecRef", ir.VoidType(), packed)
    f.leave(failed)
    f.b.ret(_NULL)
    return f.function


def _emit_packed(f: Function, model: Any, location: Any, failed: Any) -> Any:
    """Write a tuple like the model's, with another location at its start."""
    count = f.load(model, layout.TUPLE_SIZE)
    packed = f.python("PyTuple_New", POINTER, count)
    f.require(f.b.not_(f.is_null(packed)), failed)
    f.python("Py_IncRef", ir.VoidType(), location)
    f.store(location, packed, layout.TUPLE_ITEMS)
    with f.loop(f.b.sub(count, I64(1))) as i:
        place = f.b.add(f.b.mul(i, I64(8)), I64(layout.TUPLE_ITEMS + 8))
        item = f.load(model, place, POINTER)
        f.python("Py_IncRef", ir.VoidType(), item)
        f.store(item, packed, place)
    return packed


def _emit_block(
    f: Function,
    addresses: FormAddresses,
    model: Any,
    location: Any,
    owner: Any,
    is_read_only: Any,
    failed: Any,
) -> Any:
    """Write a block like the model's with another address and flags; ``None`` if it has none."""
    some, none, known = f.block("some"), f.block("none"), f.block("known")
    pattern = f.load(model, addresses.array["_block"], POINTER)
    f.unless(f.is_instance(pattern, bytes), none, some)
    f.python("Py_IncRef", ir.VoidType(), pattern)
    f.leave(known, some)
    address = f.python("PyLong_AsUnsignedLongLongMask", I64, location)
    text = f.at(pattern, layout.BYTES_DATA)
    # Bytes have their number where a tuple has that of its items.
    size = f.load(pattern, layout.TUPLE_SIZE)
    block = f.python("PyBytes_FromStringAndSize", POINTER, text, size)
    f.require(f.b.not_(f.is_null(block)), failed)
    flags = f.b.alloca(I64)
    is_locked = f.equal(f.b.ptrtoint(is_read_only, I64), I64(id(True)))
    f.store(f.b.select(is_locked, I64(READ_ONLY), I64(0)), flags)
    with f.b.if_then(f.is_instance(owner, PooledBuffer)):
        home = f.b.ptrtoint(f.load(owner, addresses.buffer["_home"], POINTER), I64)
        elsewhere = f.b.select(f.equal(home, I64(id(None))), I64(0), I64(OTHER_HOME))
        f.store(f.b.or_(f.load(flags), elsewhere), flags)
    data = f.at(block, layout.BYTES_DATA)
    f.store(f.load(flags), data, BLOCK_FLAGS)
    f.store(address, data, BLOCK_HEAD)
    last = f.b.block
    f.leave(known)
    found = f.join(POINTER, (pattern, none), (block, last))
    return found


# Native code that looks at the context that Python code runs in: context variables, streams.


@dataclass(frozen=True)
class ContextAddresses:
    """Places in this process that describe the context."""

    #: Address of two int64. Native code uses tables of the generation in the first one only. While
    #: the second is not 0, it uses no table.
    state: int
    #: Address of an int64 that is not 0 once a stream was made.
    streams_in_use: int
    #: Context variables of the active streams and pools, and the object that means none in both.
    streams_variable: int
    pools_variable: int
    nothing: int


def read_variable(f: Function, variable: int, room: Any, bad: Any) -> Any:
    """Return what a context variable holds, as a number; the context keeps it alive."""
    status = f.python("PyContextVar_Get", I32, f.pointer(variable), I64(0).inttoptr(POINTER), room)
    f.require(f.equal(status, I32(0)), bad)
    value = f.load(room, 0, POINTER)
    f.python("Py_DecRef", ir.VoidType(), value)
    return f.b.ptrtoint(value, I64)


def emit_no_streams(
    f: Function, addresses: ContextAddresses, room: Any, bad: Any, broken: Any
) -> None:
    """Go on where no stream is active; else branch to `bad`, and for an error to `broken`."""
    ask, no_stream = f.block("ask_for_streams"), f.block("no_stream")
    in_use = f.load(f.pointer(addresses.streams_in_use))
    f.unless(f.equal(in_use, I64(0)), ask, no_stream)
    active = read_variable(f, addresses.streams_variable, room, broken)
    f.when(f.equal(active, I64(addresses.nothing)), no_stream, bad)
