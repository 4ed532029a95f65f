"""Floors of launches: loops in native code over a driver's launch, or over a body.

The loops are written with llvmlite, so that no C compiler is needed; a loop of C would compile to
the same. They repeat exactly the launch that kerneldsl makes: the same function, grid, block and
parameters, or the same compiled body over the same range.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from llvmlite import binding as llvm
from llvmlite import ir

import kerneldsl as kd
from kerneldsl.contract import DriverEntry, Executable, HostEntry, LaunchConfig

__all__ = ["body_call", "body_loop", "driver_loop", "find"]

_I32, _I64, _POINTER = ir.IntType(32), ir.IntType(64), ir.PointerType()


def find(launch: kd.Launch, *args: Any) -> tuple[Executable, LaunchConfig, list[Any]]:
    """Return what a launch starts: code, configuration, and the flat values of its arguments."""
    found = launch._dispatcher.find(launch._shape, args, make=True)
    assert found is not None
    request, executable, config = found
    return executable, config, [*request.binding.values, *(launch._shape.extent or ())]


def _emit_loop(name: str, result: Any, kinds: list[Any], *, is_by_reference: int = 0) -> Any:
    """Emit ``void name(i64 count, kinds…, ptr function)``: call it so often with the same values.

    The first `is_by_reference` values are passed by their addresses, and set anew for each call.
    """
    module = ir.Module(name)
    loop = ir.Function(module, ir.FunctionType(ir.VoidType(), [_I64, *kinds, _POINTER]), name)
    count, *values, function = loop.args
    b = ir.IRBuilder(loop.append_basic_block("entry"))
    rooms = [b.alloca(_I64) for _ in range(is_by_reference)]
    head, body, done = (loop.append_basic_block(part) for part in ("head", "body", "done"))
    entry = b.block
    b.branch(head)
    b.position_at_end(head)
    index = b.phi(_I64)
    index.add_incoming(_I64(0), entry)
    b.cbranch(b.icmp_signed("<", index, count), body, done)
    b.position_at_end(body)
    for room, value in zip(rooms, values, strict=False):
        b.store(value, room)
    passed = [*rooms, *values[is_by_reference:]]
    kind = ir.FunctionType(result, [value.type for value in passed])
    b.call(_Callee(function, kind), passed)
    index.add_incoming(b.add(index, _I64(1)), body)
    b.branch(head)
    b.position_at_end(done)
    b.ret_void()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    parsed = llvm.parse_assembly(str(module))
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    return engine


class _Callee:
    """Callee for llvmlite: an address with the type of the function there."""

    def __init__(self, address: Any, kind: Any) -> None:
        self.address = address
        self.function_type = kind
        self.type = address.type
        self.calling_convention = ""

    def get_reference(self) -> Any:
        return self.address.get_reference()


def driver_loop(launch: kd.Launch, *args: Any, by_buffer: bool = False) -> Callable[[int], None]:
    """Return a loop over ``cuLaunchKernel`` with what a launch passes.

    One address for each parameter, as C programs do it; `by_buffer`, all in one buffer.
    """
    executable, config, values = find(launch, *args)
    entry = executable.native_entry(config)
    assert isinstance(entry, DriverEntry)
    packed = ctypes.create_string_buffer(executable.pack(*values))
    layout = executable.artifact.specialization.layout
    start = ctypes.addressof(packed)
    addresses = (ctypes.c_void_p * len(layout.parameters))(
        *(start + parameter.offset for parameter in layout.parameters)
    )
    size = ctypes.c_size_t(len(packed) - 1)
    extra = (ctypes.c_size_t * 5)(1, start, 2, ctypes.addressof(size), 0)
    shape = [*entry.grid_dim, *entry.block_dim, entry.shared_bytes]
    engine = _emit_loop("launches", _I32, [_I64, *[_I32] * 7, _I64, _POINTER, _I64])
    loop = ctypes.CFUNCTYPE(
        *(None, ctypes.c_int64, ctypes.c_uint64, *[ctypes.c_uint32] * 7, ctypes.c_uint64),
        *(ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p),
    )(engine.get_function_address("launches"))

    by_addresses, all_in_one = ctypes.addressof(addresses), 0
    if by_buffer:
        by_addresses, all_in_one = 0, ctypes.addressof(extra)

    def run(count: int, _keep: Any = (engine, executable, packed, addresses, size, extra)) -> None:
        loop(
            *(count, entry.function, *shape, entry.stream),
            *(by_addresses, all_in_one, entry.launch),
        )

    return run


def body_call(launch: kd.Launch, *args: Any, on_pool: bool = False) -> Callable[[int], None]:
    """Return the same from Python, by a call of a C function that runs the body once."""
    once = body_loop(launch, *args, on_pool=on_pool)

    def run(count: int) -> None:
        for _ in range(count):
            once(1)

    return run


def body_loop(launch: kd.Launch, *args: Any, on_pool: bool = False) -> Callable[[int], None]:
    """Return a loop over a compiled body on the CPU, in the threads of the launch.

    `on_pool`, in those that it would use if nothing were planned: all of them, but for short ones.
    """
    executable, config, values = find(launch, *args)
    if on_pool:
        config = replace(config, share=None)
    entry = executable.native_entry(config)
    assert isinstance(entry, HostEntry)
    packed = ctypes.create_string_buffer(entry.header + executable.pack(*values))
    buffer = ctypes.addressof(packed)
    i64, pointer = ctypes.c_int64, ctypes.c_void_p
    if entry.parallel_for == 0:
        engine = _emit_loop(
            "bodies", ir.VoidType(), [_I64, _I64, _I64, _POINTER], is_by_reference=3
        )
        body = ctypes.CFUNCTYPE(None, i64, i64, i64, i64, pointer, pointer)(
            engine.get_function_address("bodies")
        )

        def run(count: int, _keep: Any = (engine, executable, packed)) -> None:
            body(count, 0, entry.steps, 1, buffer, entry.address)

        return run
    kinds = [_POINTER, *[_POINTER] * 3, _POINTER, _I64, _I64, _I32]
    engine = _emit_loop("shared", ir.VoidType(), kinds)
    shared = ctypes.CFUNCTYPE(
        None, i64, pointer, *[pointer] * 3, pointer, i64, i64, ctypes.c_int32, pointer
    )(engine.get_function_address("shared"))
    rooms = [(ctypes.c_int64 * 1)(value) for value in (0, entry.steps, 1)]

    def run_shared(count: int, _keep: Any = (engine, executable, packed)) -> None:
        where = (entry.address, *map(ctypes.addressof, rooms), buffer)
        shared(count, *where, 0, 1, entry.thread_count, entry.parallel_for)

    return run_shared
