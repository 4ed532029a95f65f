"""Loops over the threads of a block."""

from __future__ import annotations

import operator
from contextlib import ExitStack
from typing import Any

from llvmlite import ir

from kerneldsl.ir.operations import Operation, Region
from kerneldsl.lowering.loop_marks import NOT_UNROLLED, PARALLEL
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.loops import CountedLoop
from targets.cpu.regions.order import loop_takes_any_order

__all__ = ["HANDLERS"]

_I64 = ir.IntType(64)


def _threads(emitter: CpuEmitter, operation: Operation) -> None:
    """Write loops over z, y and x of the block."""
    with ExitStack() as loops:
        for axis in "zy":
            low, high, _ = _bounds(emitter, operation, axis)
            thread = _only(low, high)
            if thread is None:
                thread = loops.enter_context(CountedLoop(emitter.builder, low, high))
            emitter.ids[f"threadIdx.{axis}"] = thread
        _row(emitter, operation)


def _bounds(emitter: CpuEmitter, operation: Operation, axis: str) -> tuple[Any, Any, bool]:
    """Return the first thread along an axis, the end, and whether the end is constant."""
    number = "xyz".index(axis)
    attributes = operation.attributes
    high: Any = _I64(attributes["high"][number])
    bounds = [
        value
        for value, bounded in zip(operation.operands, attributes["bounds"], strict=True)
        if bounded == axis
    ]
    for value in bounds:
        high = emitter.smaller(emitter.get(value), high)
    return _I64(attributes["low"][number]), high, not bounds


def _only(low: Any, high: Any) -> Any:
    """Return the only thread along an axis, if it is known to be the only one."""
    is_one = isinstance(high, ir.Constant) and high.constant == low.constant + 1
    return low if is_one else None


def _row(emitter: CpuEmitter, operation: Operation) -> None:
    """Write the loop along x."""
    builder = emitter.builder
    (region,) = operation.regions
    low, high, is_constant = _bounds(emitter, operation, "x")
    if is_constant and high.constant <= low.constant:
        return
    thread = _only(low, high)
    if thread is not None:
        emitter.ids["threadIdx.x"] = thread
        emitter.operations(region.operations[:-1])
        return
    order = (PARALLEL,) if loop_takes_any_order(region) else ()
    wishes = (NOT_UNROLLED, *order) if is_constant else order
    test, branch = _version(emitter, region) if is_constant else (None, None)

    def write() -> None:
        with CountedLoop(builder, low, high, *wishes) as thread:
            emitter.ids["threadIdx.x"] = thread
            emitter.operations(region.operations[:-1])

    if test is None or branch is None:
        write()
        return
    with builder.if_else(test) as (whole, part):
        with whole:
            emitter.passed = {branch}
            write()
            emitter.passed = set()
        with part:
            write()


def _version(emitter: CpuEmitter, region: Region) -> tuple[Any, Any]:
    """Return a test that all threads pass a branch, and the branch, if there is one."""
    for operation in region.operations:
        if operation.name != "if":
            continue
        test = operation.operands[0].owner
        if not isinstance(test, Operation) or test.attributes.get("function") is not operator.lt:
            continue
        index, limit = test.operands
        made = index.owner
        if not isinstance(made, Operation) or made.attributes.get("function") is not operator.add:
            continue
        start, thread = made.operands
        is_thread = isinstance(thread.owner, Operation) and thread.owner.name == "threadIdx.x"
        if is_thread and start in emitter.values and limit in emitter.values:
            # Neither is negative, so the difference does not wrap.
            left = emitter.builder.sub(emitter.get(limit), emitter.get(start))
            return emitter.builder.icmp_signed(">=", left, _I64(emitter.extents[0])), operation
    return None, None


def _branch(emitter: CpuEmitter, operation: Operation) -> None:
    if operation in emitter.passed:
        found = emitter.part_of_control(operation.regions[0])
        if found is not None:
            emitter.set(operation, *found)
        return
    emitter.branch(operation)


def _for_each(emitter: CpuEmitter, operation: Operation) -> None:
    """Count through a table of the constants."""
    (body,) = operation.regions
    values = operation.attributes.get("values", ())
    if operation.operands or not values or not any(each.name == "threads" for each in body.walk()):
        emitter.for_each(operation)
        return
    builder = emitter.builder
    kind = ir.ArrayType(_I64, len(values))
    module = builder.module
    table = ir.GlobalVariable(module, kind, module.get_unique_name("values"))
    table.linkage, table.global_constant = "internal", True
    table.initializer = ir.Constant(kind, list(values))
    with CountedLoop(builder, _I64(0), _I64(len(values))) as number:
        place = builder.gep(table, [_I64(0), number])
        emitter.values[body.arguments[0]] = builder.load(place)
        emitter.operations(body.operations[:-1])


HANDLERS = {"threads": _threads, "if": _branch, "for_each": _for_each}
