"""Native code that CPython calls: launching, and finding a launch.

What these functions do not know they hand over to the Python functions whose places they take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from kerneldsl.launch.native import layout
from kerneldsl.launch.native.builder import I32, I64, POINTER, Function

__all__ = ["MethodAddresses", "emit_methods"]

#: ``PyObject *(PyObject *self, PyObject **args, Py_ssize_t nargs, PyObject *names)``: a method with
#: METH_FASTCALL | METH_KEYWORDS; and a vectorcall function, whose number may have its highest bit
#: set (PY_VECTORCALL_ARGUMENTS_OFFSET).
_METHOD = (POINTER, POINTER, I64, POINTER)
_COUNT = I64(2**63 - 1)


@dataclass(frozen=True)
class MethodAddresses:
    """Addresses in this process that the native methods use."""

    #: The class of launches.
    launch_type: type
    #: Offsets of the launch and of the arguments in a prepared launch.
    bound_launch: int
    bound_args: int
    #: Offsets in a kernel of the launches by extent, and by grid and block.
    kernel_extents: int
    kernel_grids: int
    #: Offsets of the launch that was found last in each.
    last_extent: int
    last_grid: int
    #: Offset in a launch of what it is found by.
    launch_asked_by: int
    #: The Python functions that take over.
    slow_launch: int
    slow_bound: int
    slow_forall: int
    slow_getitem: int


def emit_methods(module: ir.Module, addresses: MethodAddresses, attempt: Any) -> None:
    """Write ``launch``, ``bound``, ``forall`` and ``getitem``.

    Parameters
    ----------
    module : ir.Module
        Where they go.
    addresses : MethodAddresses
        What they know.
    attempt : ir.Function
        ``i32 attempt(ptr launch, ptr args, i64 nargs)``: 1 where a kernel was started, -1 where
        it failed and the error is raised.
    """
    hand_over = _emit_hand_over(module)
    _emit_launch(module, addresses, attempt, hand_over)
    _emit_bound(module, addresses, attempt, hand_over)
    _emit_forall(module, addresses, hand_over)
    _emit_getitem(module, addresses)


def _emit_hand_over(module: ir.Module) -> Any:
    """Emit ``ptr hand_over(ptr function, ptr self, ptr args, i64 nargs, ptr names)``."""
    kinds = [POINTER, POINTER, POINTER, I64, POINTER]
    f = Function(module, "hand_over", POINTER, kinds, is_internal=True)
    function, self, args, nargs, names = f.args
    total = f.b.alloca(I64)
    f.store(nargs, total)
    with f.b.if_then(f.b.not_(f.is_null(names))):
        f.store(f.b.add(nargs, f.load(names, layout.TUPLE_SIZE)), total)
    count = f.load(total)
    stack = f.b.alloca(POINTER, size=f.b.add(count, I64(1)))
    f.store(self, stack)
    f.copy_words(f.at(stack, 8), args, count)
    given = f.b.add(nargs, I64(1))
    f.b.ret(f.python("PyObject_Vectorcall", POINTER, function, stack, given, names))
    return f.function


def _return_none_if(f: Function, launched: Any, slow: Any) -> None:
    """Return ``None`` where a kernel was started, null where it failed; else branch away."""
    other, failed = f.block("other"), f.block("failed")
    f.require(f.equal(launched, I32(1)), other)
    none = f.pointer(id(None))
    f.python("Py_IncRef", ir.VoidType(), none)
    f.b.ret(none)
    f.b.position_at_end(other)
    f.b.cbranch(f.equal(launched, I32(0)), slow, failed)
    f.b.position_at_end(failed)
    f.b.ret(I64(0).inttoptr(POINTER))


def _emit_launch(
    module: ir.Module, addresses: MethodAddresses, attempt: Any, hand_over: Any
) -> None:
    f = Function(module, "launch", POINTER, _METHOD)
    self, args, coded_nargs, names = f.args
    nargs = f.b.and_(coded_nargs, _COUNT)
    slow = f.block("slow")
    f.require(f.is_null(names), slow)
    _return_none_if(f, f.b.call(attempt, [self, args, nargs]), slow)
    f.b.position_at_end(slow)
    function = f.pointer(addresses.slow_launch)
    f.b.ret(f.b.call(hand_over, [function, self, args, nargs, names]))


def _emit_bound(
    module: ir.Module, addresses: MethodAddresses, attempt: Any, hand_over: Any
) -> None:
    """Launch and arguments are held meanwhile: they are attributes that another thread may set."""
    f = Function(module, "bound", POINTER, _METHOD)
    self, args, coded_nargs, names = f.args
    nargs = f.b.and_(coded_nargs, _COUNT)
    slow = f.block("slow")
    f.require(f.is_null(names), slow)
    f.require(f.equal(nargs, I64(0)), slow)
    held = [
        f.load(self, offset, POINTER) for offset in (addresses.bound_launch, addresses.bound_args)
    ]
    launch, values = held
    f.require(f.is_instance(launch, addresses.launch_type), slow)
    f.require(f.is_instance(values, tuple), slow)
    for each in held:
        f.python("Py_IncRef", ir.VoidType(), each)
    count = f.load(values, layout.TUPLE_SIZE)
    launched = f.b.call(attempt, [launch, f.at(values, layout.TUPLE_ITEMS), count])
    for each in held:
        f.python("Py_DecRef", ir.VoidType(), each)
    _return_none_if(f, launched, slow)
    f.b.position_at_end(slow)
    function = f.pointer(addresses.slow_bound)
    f.b.ret(f.b.call(hand_over, [function, self, args, nargs, names]))


def _find(
    f: Function, table: Any, last: Any, key: Any, addresses: MethodAddresses, slow: Any
) -> None:
    """Return what a dictionary holds, or branch away.

    It is written down as found last, and in it the key, which may equal the one before and be
    another object: the next time that object will do.
    """
    f.require(f.is_instance(table, dict), slow)
    found = f.python("PyDict_GetItemWithError", POINTER, table, key)
    f.require(f.b.not_(f.is_null(found)), slow)
    f.require(f.is_instance(found, addresses.launch_type), slow)
    f.python("Py_IncRef", ir.VoidType(), found)
    _put(f, found, last)
    _put(f, key, f.at(found, addresses.launch_asked_by))
    f.b.ret(found)


def _put(f: Function, value: Any, slot: Any) -> None:
    """Put an object into a slot, which lets go of what it held."""
    before = f.load(slot, 0, POINTER)
    f.python("Py_IncRef", ir.VoidType(), value)
    f.store(value, slot)
    f.python("Py_DecRef", ir.VoidType(), before)  # which null may be given to


def _last_asked_by(f: Function, last: Any, addresses: MethodAddresses, otherwise: Any) -> Any:
    """Return the launch that was found last, and what it is found by; or branch away."""
    launch = f.load(last, 0, POINTER)
    f.require(f.is_instance(launch, addresses.launch_type), otherwise)
    return launch, f.load(launch, addresses.launch_asked_by, POINTER)


def _return_held(f: Function, launch: Any) -> None:
    f.python("Py_IncRef", ir.VoidType(), launch)
    f.b.ret(launch)


def _emit_forall(module: ir.Module, addresses: MethodAddresses, hand_over: Any) -> None:
    """Look up one extent alone, given by position."""
    f = Function(module, "forall", POINTER, _METHOD)
    self, args, nargs, names = f.args
    slow = f.block("slow")
    f.require(f.is_null(names), slow)
    f.require(f.equal(nargs, I64(1)), slow)
    extent, last = f.load(args, 0, POINTER), f.at(self, addresses.last_extent)
    search = f.block("search")
    launch, asked_by = _last_asked_by(f, last, addresses, search)
    f.require(_are_same(f, asked_by, extent), search)
    _return_held(f, launch)
    f.b.position_at_end(search)
    f.require(f.is_instance(extent, int), slow)
    _find(f, f.load(self, addresses.kernel_extents, POINTER), last, extent, addresses, slow)
    f.b.position_at_end(slow)
    f.python("PyErr_Clear", ir.VoidType())
    function = f.pointer(addresses.slow_forall)
    f.b.ret(f.b.call(hand_over, [function, self, args, nargs, names]))


def _are_same(f: Function, a: Any, b: Any) -> Any:
    """Return whether two addresses are of one object."""
    return f.equal(f.b.ptrtoint(a, I64), f.b.ptrtoint(b, I64))


def _emit_getitem(module: ir.Module, addresses: MethodAddresses) -> None:
    """Look up a grid and a block that are ints; ``(1, 32)`` must not find ``(True, 32)``."""
    f = Function(module, "getitem", POINTER, [POINTER, POINTER])
    self, config = f.args
    slow = f.block("slow")
    f.require(f.is_instance(config, tuple), slow)
    f.require(f.equal(f.load(config, layout.TUPLE_SIZE), I64(2)), slow)
    given = [f.load(config, layout.TUPLE_ITEMS + 8 * i, POINTER) for i in range(2)]
    last, search = f.at(self, addresses.last_grid), f.block("search")
    launch, asked_by = _last_asked_by(f, last, addresses, search)
    f.require(f.is_instance(asked_by, tuple), search)
    f.require(f.equal(f.load(asked_by, layout.TUPLE_SIZE), I64(2)), search)
    for i, item in enumerate(given):
        kept = f.load(asked_by, layout.TUPLE_ITEMS + 8 * i, POINTER)
        f.require(_are_same(f, kept, item), search)
    _return_held(f, launch)
    f.b.position_at_end(search)
    for item in given:
        f.require(f.is_instance(item, int), slow)
    _find(f, f.load(self, addresses.kernel_grids, POINTER), last, config, addresses, slow)
    f.b.position_at_end(slow)
    f.python("PyErr_Clear", ir.VoidType())
    stack = f.b.alloca(POINTER, size=2)
    f.store(self, stack)
    f.store(config, stack, 8)
    function = f.pointer(addresses.slow_getitem)
    nothing = I64(0).inttoptr(POINTER)
    f.b.ret(f.python("PyObject_Vectorcall", POINTER, function, stack, I64(2), nothing))
