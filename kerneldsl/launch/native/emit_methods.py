"""Native code that CPython calls: launching, and finding a launch.

In all other cases they call the Python functions that they replace.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.launch.native import layout
from kerneldsl.launch.native.builder import I32, I64, POINTER, Function
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["METHOD", "METHOD_COUNT", "MethodAddresses", "emit_methods", "emit_slow_path"]

#: ``PyObject *(PyObject *self, PyObject **args, Py_ssize_t nargs, PyObject *names)``: a method with
#: METH_FASTCALL | METH_KEYWORDS; and a vectorcall function, with a number that may have its highest
#: bit set (PY_VECTORCALL_ARGUMENTS_OFFSET).
METHOD = (POINTER, POINTER, I64, POINTER)
METHOD_COUNT = I64(2**63 - 1)


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
    #: Offsets of the objects that these were requested with.
    last_extent_key: int
    last_grid_dim: int
    last_block_dim: int
    #: The Python functions that take over.
    slow_launch: int
    slow_bound: int
    slow_forall: int
    slow_getitem: int


def emit_methods(
    module: ir.Module, addresses: MethodAddresses, attempt: Any, slow_path: Any
) -> None:
    """Write ``launch``, ``bound``, ``forall`` and ``getitem``.

    `attempt` is ``i32 attempt(ptr launch, ptr args, i64 nargs)``: 1 where a kernel was started, -1
    if it failed and the error is raised. `slow_path` is what `emit_slow_path` has written.
    """
    _emit_launch(module, addresses, attempt, slow_path)
    _emit_bound(module, addresses, attempt, slow_path)
    _emit_forall(module, addresses, slow_path)
    _emit_getitem(module, addresses)


def emit_slow_path(module: ir.Module) -> Any:
    """Emit ``ptr slow_path(ptr function, ptr self, ptr args, i64 nargs, ptr names)``."""
    kinds = [POINTER, POINTER, POINTER, I64, POINTER]
    f = Function(module, "slow_path", POINTER, kinds, is_internal=True)
    function, self, args, nargs, names = f.args
    total = f.variable(nargs)
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
    """Return ``None`` where a kernel was started, null if it failed; else branch away."""
    other, failed = f.block("other"), f.block("failed")
    f.require(f.equal(launched, I32(1)), other)
    none = f.pointer(id(None))
    f.python("Py_IncRef", ir.VoidType(), none)
    f.b.ret(none)
    f.b.position_at_end(other)
    f.unless(f.equal(launched, I32(0)), failed, slow)
    f.b.ret(I64(0).inttoptr(POINTER))


def _emit_launch(
    module: ir.Module, addresses: MethodAddresses, attempt: Any, slow_path: Any
) -> None:
    f = Function(module, "launch", POINTER, METHOD)
    self, args, coded_nargs, names = f.args
    nargs = f.b.and_(coded_nargs, METHOD_COUNT)
    slow = f.block("slow")
    f.require(f.is_null(names), slow)
    _return_none_if(f, f.b.call(attempt, [self, args, nargs]), slow)
    f.b.position_at_end(slow)
    f.b.ret(f.b.call(slow_path, [f.pointer(addresses.slow_launch), self, args, nargs, names]))


def _emit_bound(
    module: ir.Module, addresses: MethodAddresses, attempt: Any, slow_path: Any
) -> None:
    """Launch and arguments are held meanwhile: they are attributes that another thread may set."""
    f = Function(module, "bound", POINTER, METHOD)
    self, args, coded_nargs, names = f.args
    nargs = f.b.and_(coded_nargs, METHOD_COUNT)
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
    f.b.ret(f.b.call(slow_path, [f.pointer(addresses.slow_bound), self, args, nargs, names]))


class _Last:
    """The launch that a kernel found last, and the objects that it was requested with.

    They are in the kernel side by side, since the driver's own work leaves little of the rest in
    the processor's cache between two launches.
    """

    def __init__(self, f: Function, kernel: Any, launch: int, asked_with: dict[int, Any]) -> None:
        self.f = f
        self.launch = f.at(kernel, launch)
        #: Slots with the objects of the last request, and the objects of this one.
        self.asked_with = [(f.at(kernel, offset), value) for offset, value in asked_with.items()]

    def return_if_same(self, otherwise: Any) -> None:
        """Return the launch if the very same objects request it again, else branch."""
        f = self.f
        for slot, value in self.asked_with:
            before = f.b.ptrtoint(f.load(slot, 0, POINTER), I64)
            f.require(f.equal(before, f.b.ptrtoint(value, I64)), otherwise)
        # The slots are written only together with the launch.
        launch = f.load(self.launch, 0, POINTER)
        f.python("Py_IncRef", ir.VoidType(), launch)
        f.b.ret(launch)

    def find(self, table: Any, key: Any, launch_type: type, slow: Any) -> None:
        """Return what a dictionary holds and write it down, or branch away.

        What is let go of may run a finalizer, in which other threads get their turn: so all is
        written before.
        """
        f = self.f
        f.require(f.is_instance(table, dict), slow)
        found = f.python("PyDict_GetItemWithError", POINTER, table, key)
        f.require(f.b.not_(f.is_null(found)), slow)
        f.require(f.is_instance(found, launch_type), slow)
        f.python("Py_IncRef", ir.VoidType(), found)
        written = [(self.launch, found), *self.asked_with]
        before = [f.load(slot, 0, POINTER) for slot, _ in written]
        for slot, value in written:
            f.python("Py_IncRef", ir.VoidType(), value)
            f.store(value, slot)
        for each in before:
            f.python("Py_DecRef", ir.VoidType(), each)  # which null may be given to
        f.b.ret(found)


def _emit_forall(module: ir.Module, addresses: MethodAddresses, slow_path: Any) -> None:
    """Look up one extent alone, given by position."""
    f = Function(module, "forall", POINTER, METHOD)
    self, args, nargs, names = f.args
    slow = f.block("slow")
    f.require(f.is_null(names), slow)
    f.require(f.equal(nargs, I64(1)), slow)
    extent, search = f.load(args, 0, POINTER), f.block("search")
    last = _Last(f, self, addresses.last_extent, {addresses.last_extent_key: extent})
    last.return_if_same(search)
    f.b.position_at_end(search)
    f.require(f.is_instance(extent, int), slow)
    extents = f.load(self, addresses.kernel_extents, POINTER)
    last.find(extents, extent, addresses.launch_type, slow)
    f.b.position_at_end(slow)
    f.python("PyErr_Clear", ir.VoidType())
    f.b.ret(f.b.call(slow_path, [f.pointer(addresses.slow_forall), self, args, nargs, names]))


def _emit_getitem(module: ir.Module, addresses: MethodAddresses) -> None:
    """Look up a grid and a block that are ints; ``(1, 32)`` must not find ``(True, 32)``."""
    f = Function(module, "getitem", POINTER, [POINTER, POINTER])
    self, config = f.args
    slow = f.block("slow")
    f.require(f.is_instance(config, tuple), slow)
    f.require(f.equal(f.load(config, layout.TUPLE_SIZE), I64(2)), slow)
    grid, block = (f.load(config, layout.TUPLE_ITEMS + 8 * i, POINTER) for i in range(2))
    asked_with = {addresses.last_grid_dim: grid, addresses.last_block_dim: block}
    last, search = _Last(f, self, addresses.last_grid, asked_with), f.block("search")
    last.return_if_same(search)
    f.b.position_at_end(search)
    for item in (grid, block):
        f.require(f.is_instance(item, int), slow)
    grids = f.load(self, addresses.kernel_grids, POINTER)
    last.find(grids, config, addresses.launch_type, slow)
    f.b.position_at_end(slow)
    f.python("PyErr_Clear", ir.VoidType())
    stack = f.b.alloca(POINTER, size=2)
    f.store(self, stack)
    f.store(config, stack, 8)
    function = f.pointer(addresses.slow_getitem)
    nothing = I64(0).inttoptr(POINTER)
    f.b.ret(f.python("PyObject_Vectorcall", POINTER, function, stack, I64(2), nothing))
