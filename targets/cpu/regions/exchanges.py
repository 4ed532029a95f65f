"""Write exchanges between threads, as :mod:`targets.cpu.regions.expansion` expands them."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.ir.operations import Operation
from kerneldsl.lowering.calls import Call
from targets.cpu.intrinsics.chains import write_chain
from targets.cpu.intrinsics.table import Exchange, lowering_of
from targets.cpu.intrinsics.units import WARP_SIZE
from targets.cpu.intrinsics.warp import Room, arrive_thread, expect_threads
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.faults import fault_record
from targets.cpu.regions.slots import slot_place

__all__ = ["HANDLERS", "room"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def _lane(emitter: CpuEmitter, operation: Operation) -> None:
    """Read what another lane has posted, or the lane itself if there is no such lane.

    The slot has places for a warp more before and after the block.
    """
    builder = emitter.builder
    slot, given = operation.operands
    thread, last = emitter.thread_number(), _I64(WARP_SIZE - 1)
    step = builder.and_(builder.zext(emitter.get(given), _I64), last)
    is_warp = emitter.threads_count == WARP_SIZE
    lane = thread if is_warp else builder.and_(thread, last)
    is_there = None
    match operation.attributes["mode"]:
        case "shfl_down_sync":
            source = builder.add(thread, step)
            is_there = builder.icmp_unsigned("<=", builder.add(lane, step), last)
        case "shfl_up_sync":
            source = builder.sub(thread, step)
            is_there = builder.icmp_unsigned(">=", lane, step)
        case "shfl_xor_sync":
            source = builder.xor(thread, step)
        case _:
            source = step if is_warp else builder.add(builder.sub(thread, lane), step)
    found = emitter.read(slot_place(emitter, slot, source))
    if is_there is not None:
        own = emitter.read(slot_place(emitter, slot, thread))
        found = builder.select(is_there, found, own)
    model = emitter.context.data_model_manager[operation.result.type]
    emitter.set(operation, model.from_data(builder, found))


# -- rooms ----------------------------------------------------------------------------------------


def room(emitter: CpuEmitter, operation: Operation) -> None:
    if operation.result in emitter.values:
        return
    words, warps = operation.attributes["words"], operation.attributes["warps"]
    made = Room(emitter.reserve(_I64, words), emitter.reserve(_I64, warps), warps)
    emitter.set(operation, made)


def _begin(emitter: CpuEmitter, operation: Operation) -> None:
    """Expect all threads of the block, or none so far."""
    threads = _I64(operation.attributes["threads"])
    expect_threads(emitter.builder, emitter.get(operation.operands[0]), threads)


def _post(emitter: CpuEmitter, operation: Operation) -> None:
    thread = emitter.thread_number()
    if operation.attributes["arrives"]:
        arrive_thread(emitter.builder, emitter.get(operation.operands[0]), thread)
    _step(emitter, operation, "post", thread)


def _combine(emitter: CpuEmitter, operation: Operation) -> None:
    _step(emitter, operation, "combine", _I64(emitter.threads_count))


def _take(emitter: CpuEmitter, operation: Operation) -> None:
    # What the block shares is in the place of its first thread.
    thread = _I64(0) if operation.attributes["is_common"] else emitter.thread_number()
    found = _step(emitter, operation, "take", thread)
    emitter.set(operation, emitter.wrapped(found, operation.result.type))


def _step(emitter: CpuEmitter, operation: Operation, name: str, thread: Any) -> ir.Value:
    lowering = lowering_of(operation.attributes["use"].intrinsic)
    assert isinstance(lowering, Exchange)
    step = getattr(lowering, name)
    memory, *operands = operation.operands
    given = emitter.get(memory)

    def write(call: Call) -> ir.Value:
        found: ir.Value = step(emitter.builder, given, thread, call)
        return found

    return emitter.emitted(operation, operands, write, {})


# -- votes ----------------------------------------------------------------------------------------


def _count(emitter: CpuEmitter, operation: Operation) -> None:
    """Count a thread, if its predicate is true, or if it is false."""
    builder = emitter.builder
    place, predicate = operation.operands
    value = emitter.get(predicate)
    is_counted = emitter.context.is_true(builder, predicate.type, value)
    if not operation.attributes["is_true"]:
        is_counted = builder.not_(is_counted)
    counter = emitter.get(place)
    count = builder.add(builder.load(counter), builder.zext(is_counted, _I32))
    builder.store(count, counter)


def _vote(emitter: CpuEmitter, operation: Operation) -> None:
    """Make the result of a vote of the threads that were counted."""
    builder, form = emitter.builder, operation.attributes["form"]
    found = builder.load(emitter.get(operation.operands[0]))
    if form != "count":
        found = builder.icmp_signed("==" if form in ("and", "all") else "!=", found, _I32(0))
        is_truth = operation.result.type == types.boolean
        found = found if is_truth else builder.zext(found, _I32)
    emitter.set(operation, found)


# -- chains ---------------------------------------------------------------------------------------


def _chain(emitter: CpuEmitter, operation: Operation) -> None:
    """Do once what the blocks of a launch do in their order."""
    builder = emitter.builder
    blocks = emitter.word(2)
    for axis in range(1, 3):
        blocks = builder.mul(blocks, emitter.word(2 + axis))

    def write(call: Call) -> ir.Value:
        return write_chain(operation.attributes["of"], call, blocks, fault_record(emitter))

    found = emitter.emitted(operation, operation.operands, write, {})
    if operation.results:
        emitter.set(operation, emitter.wrapped(found, operation.result.type))


HANDLERS = {
    "lane.read": _lane,
    "exchange.room": room,
    "exchange.begin": _begin,
    "exchange.post": _post,
    "exchange.combine": _combine,
    "exchange.take": _take,
    "vote.count": _count,
    "vote": _vote,
    "chain": _chain,
}
