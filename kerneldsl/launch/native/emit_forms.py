"""Native code that makes arrays of forms: copies of a model, in the memory of an owner.

In Python an array takes as long as a launch: 14 slots are filled, and what native code passes is
put together. What these functions do not know they hand over to the Python methods whose places
they take, in :mod:`kerneldsl.memory.forms`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from kerneldsl.launch.native import layout
from kerneldsl.launch.native.builder import I64, POINTER, Function
from kerneldsl.launch.native.emit_methods import METHOD, METHOD_COUNT
from kerneldsl.launch.native.step_kinds import BLOCK_FLAGS, BLOCK_HEAD
from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.device_memory import PooledBuffer
from kerneldsl.memory.geometry import OTHER_HOME, READ_ONLY

__all__ = ["COPIED_SLOTS", "FormAddresses", "emit_forms"]

#: What an array has of its form's model, as it is.
COPIED_SLOTS = ("code", "device", "dtype", "is_closed", "layout", "shape", "size", "strides")
_NULL = ir.Constant(POINTER, None)


@dataclass(frozen=True)
class FormAddresses:
    """Places in this process that the native methods of forms know."""

    #: Offsets of the slots of arrays by their names.
    array: dict[str, int]
    #: Offsets of the model and of the offset in bytes in a form.
    model: int
    offset: int
    #: Offset of the stream in a buffer of a pool.
    home: int
    #: The Python functions that take over.
    slow_view: int
    slow_at: int


def emit_forms(module: ir.Module, addresses: FormAddresses, slow_path: Any) -> None:
    """Write ``form_view`` and ``form_at``; `slow_path` is that of the other methods."""
    make = _emit_make(module, addresses)
    f = Function(module, "form_view", POINTER, METHOD)
    self, args, coded_nargs, names = f.args
    slow, failed = f.block("slow"), f.block("failed")
    f.require(f.equal(f.b.and_(coded_nargs, METHOD_COUNT), I64(1)), slow)
    f.require(f.is_null(names), slow)
    array = f.load(args, 0, POINTER)
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
    offset = f.load(self, addresses.offset, POINTER)
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
    f.b.position_at_end(slow)
    f.b.ret(f.b.call(slow_path, [f.pointer(addresses.slow_view), *f.args]))

    f = Function(module, "form_at", POINTER, METHOD)
    self, args, coded_nargs, names = f.args
    slow = f.block("slow")
    f.require(f.equal(f.b.and_(coded_nargs, METHOD_COUNT), I64(3)), slow)
    f.require(f.is_null(names), slow)
    location, owner, is_read_only = (f.load(args, 8 * at, POINTER) for at in range(3))
    f.require(f.is_instance(location, int), slow)
    model = _load_model(f, addresses, slow)
    f.b.ret(f.b.call(make, [model, location, owner, is_read_only]))
    f.b.position_at_end(slow)
    f.b.ret(f.b.call(slow_path, [f.pointer(addresses.slow_at), *f.args]))


def _load_model(f: Function, addresses: FormAddresses, slow: Any) -> Any:
    """Return the model of the form; branch away where the form was not made as forms are."""
    model = f.load(f.args[0], addresses.model, POINTER)
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
    f.b.branch(no_block)
    f.b.position_at_end(no_block)
    f.python("Py_DecRef", ir.VoidType(), packed)
    f.b.branch(failed)
    f.b.position_at_end(failed)
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
    """Write a block like the model's with another address and flags; ``None`` where it has none."""
    some, none, known = f.block("some"), f.block("none"), f.block("known")
    pattern = f.load(model, addresses.array["_block"], POINTER)
    f.b.cbranch(f.is_instance(pattern, bytes), some, none)
    f.b.position_at_end(none)
    f.python("Py_IncRef", ir.VoidType(), pattern)
    f.b.branch(known)
    f.b.position_at_end(some)
    address = f.python("PyLong_AsUnsignedLongLongMask", I64, location)
    text = f.at(pattern, layout.BYTES_DATA)
    # Of bytes the number stands where that of a tuple's items does.
    size = f.load(pattern, layout.TUPLE_SIZE)
    block = f.python("PyBytes_FromStringAndSize", POINTER, text, size)
    f.require(f.b.not_(f.is_null(block)), failed)
    flags = f.b.alloca(I64)
    is_locked = f.equal(f.b.ptrtoint(is_read_only, I64), I64(id(True)))
    f.store(f.b.select(is_locked, I64(READ_ONLY), I64(0)), flags)
    with f.b.if_then(f.is_instance(owner, PooledBuffer)):
        home = f.b.ptrtoint(f.load(owner, addresses.home, POINTER), I64)
        elsewhere = f.b.select(f.equal(home, I64(id(None))), I64(0), I64(OTHER_HOME))
        f.store(f.b.or_(f.load(flags), elsewhere), flags)
    data = f.at(block, layout.BYTES_DATA)
    f.store(f.load(flags), data, BLOCK_FLAGS)
    f.store(address, data, BLOCK_HEAD)
    last = f.b.block
    f.b.branch(known)
    f.b.position_at_end(known)
    found = f.b.phi(POINTER)
    found.add_incoming(pattern, none)
    found.add_incoming(block, last)
    return found
