"""Local arrays that keep threads from running together, and what to write instead."""

from __future__ import annotations

from kerneldsl.contract import Specialization
from kerneldsl.ir.operations import Operation
from kerneldsl.lowering.numba_internals.compiling import global_compiler_lock
from targets.cpu.codegen.storage import StaticArray
from targets.cpu.regions.read import read_kernel

__all__ = ["remarks_on_arrays"]


def remarks_on_arrays(spec: Specialization) -> tuple[str, ...]:
    """Return what to say of each local array that stays one: what it costs, what to write.

    The kernel has been compiled.
    """
    with global_compiler_lock:
        _, region = read_kernel(spec)
    sites = {
        operation.attributes["site"]: operation
        for operation in region.walk()
        if operation.name == "local.array"
    }
    return tuple(map(_remark, sites.values()))


def _remark(operation: Operation) -> str:
    unit, name = operation.attributes["site"]
    where = unit.locate_use(name)
    return (
        f"{StaticArray(operation.attributes['use'], where)} (line {where.lineno}) stays in memory: "
        "an index of it is not known when the kernel is compiled, it is used as a whole, it has "
        "several axes or many elements, or the loops over it would be long when they are written "
        "out. Threads use it one after the other, unless the indices are the same for all of "
        "them. Arrays of some numbers, indexed by constants or in short loops of constant "
        "length, become variables."
    )
