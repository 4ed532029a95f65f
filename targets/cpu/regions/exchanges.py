"""Write exchanges between threads as what each thread does, and what the block does once.

An exchange has two halves. In the first one, each thread that comes *posts*: it writes what the
others need to memory of the block, a *room*. In the second one it *takes* its result. Between
them all threads have posted. A result that the block shares is taken once.

A vote counts threads in a *cell*, memory of the block for one value.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kerneldsl.ir.frontend.reader import NotReadError
from kerneldsl.ir.operations import Effect, Operation, Value
from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.ir.rewriter import clone_region
from kerneldsl.language.intrinsics.intrinsic import Scope
from kerneldsl.lowering.calls import Call, loop_while
from kerneldsl.lowering.chains import Nodes, SequentialLookBack, State
from kerneldsl.lowering.groups import WrittenOperation
from targets.cpu.intrinsics.exchange import Buffer, Room, arrive_thread, expect_threads
from targets.cpu.intrinsics.table import Cut, Exchange, Together, lowering_of
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.faults import fault_record
from targets.cpu.regions.memory import slot_place
from targets.cpu.runtime.native_tables import IS_SUPPORTED, LaunchWord

if TYPE_CHECKING:
    from targets.cpu.regions.fission import Fission

__all__ = ["HANDLERS", "Expansion", "room"]

#: Parameters of exchanges that threads post; those who take know their types alone.
_POSTED = frozenset({"value", "predicate", "x", "keys", "values"})


class Expansion:
    """Expands the exchanges of one kernel; its memory is with the slots of the block."""

    def __init__(self, fission: Fission) -> None:
        self.fission = fission
        self._room: Value | None = None

    def expand(self, operation: Operation, *, is_guarded: bool) -> list[Operation]:
        """Return what takes the place of an exchange; with a guard some threads may not come."""
        lowering = lowering_of(operation.attributes["use"].intrinsic)
        match lowering:
            case Cut(form=str(form)):
                return self._vote(operation, form)
            case Together():
                return self._together(operation)
            case Exchange():
                return self._exchange(operation, lowering, is_guarded=is_guarded)
        raise NotReadError(operation.name)

    def _vote(self, operation: Operation, form: str) -> list[Operation]:
        cell = self.fission.memory("cell", types.int32)
        zero = Operation("const", [], (types.int32,), {"value": 0})
        self.fission.scopes[zero.result] = Scope.BLOCK
        return [
            zero,
            Operation("cell.store", [cell, zero.result], effect=Effect.BLOCK),
            Operation(
                "vote.count",
                [cell, operation.operands[0]],
                (),
                {"is_true": form not in ("and", "all")},
                effect=Effect.READ | Effect.WRITE,
                place=operation.place,
            ),
            _with_results(Operation("vote", [cell], (), {"form": form}), operation, Effect.BLOCK),
        ]

    def _together(self, operation: Operation) -> list[Operation]:
        attributes = {**operation.attributes, "of": operation.name}
        made = Operation("chain", operation.operands, (), attributes, operation.regions)
        return [_with_results(made, operation, Effect.BLOCK)]

    def _exchange(
        self, operation: Operation, lowering: Exchange, *, is_guarded: bool
    ) -> list[Operation]:
        room = self.room(lowering.words)
        threads = 0 if is_guarded else self.fission.threads
        attributes = {**operation.attributes, "of": operation.name}

        def step(name: str, operands: list[Value], effect: Effect) -> Operation:
            regions = [clone_region(region, {}) for region in operation.regions]
            return Operation(
                *(name, [room, *operands], (), dict(attributes)),
                *(regions, effect, operation.place),
            )

        begin = Operation("exchange.begin", [room], (), {"threads": threads}, effect=Effect.BLOCK)
        post = step("exchange.post", operation.operands, Effect.WRITE)
        post.attributes["arrives"] = is_guarded
        made = [begin, post]
        if lowering.combine is not None:
            made.append(step("exchange.combine", [], Effect.BLOCK))
        use = operation.attributes["use"]
        if use.intrinsic.uniform_in is not None and use.intrinsic.uniform_in >= Scope.BLOCK:
            taken = step("exchange.take", [], Effect.BLOCK)
            taken.attributes["is_common"] = True
            return [*made, _with_results(taken, operation, Effect.BLOCK)]
        made.append(Operation("exchange.wait", [], effect=Effect.WAIT))
        taken = step("exchange.take", self._remembered(operation, made), Effect.NONE)
        taken.attributes["is_common"] = False
        if lowering.in_order:
            taken.attributes["in_order"] = True
        return [*made, _with_results(taken, operation, Effect.READ | Effect.WRITE)]

    def _remembered(self, operation: Operation, made: list[Operation]) -> list[Value]:
        """Return the operands that a thread needs to take its result, not what it has posted."""
        parameters = iter(operation.attributes["use"].intrinsic.parameters)
        operands = iter(operation.operands)
        found = []
        for kind in operation.attributes["signature"].args:
            parameter = next(parameters)
            if isinstance(kind, WrittenOperation):
                continue
            value = next(operands)
            if parameter in _POSTED and value.type != types.none:
                made.append(Operation("undefined", [], (value.type,)))
                value = made[-1].result
            found.append(value)
        return found

    def room(self, words: int) -> Value:
        """Return the memory of exchanges, with so many words for each thread."""
        warps = -(-self.fission.threads // WARP_SIZE)
        if self._room is None:
            attributes = {"words": 0, "warps": warps}
            self._room = self.fission.memory("exchange.room", types.voidptr, attributes)
        made = self._room.owner
        assert isinstance(made, Operation)
        made.attributes["words"] = max(made.attributes["words"], words * warps * WARP_SIZE)
        return self._room


def _with_results(made: Operation, operation: Operation, effect: Effect) -> Operation:
    """Give an operation the results of the one that it takes the place of."""
    made.effect, made.place = effect, operation.place
    return made.take_results(operation.results)


# -- reads of another lane -------------------------------------------------------------------------


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
    # A result that the block shares is in the place of its first thread.
    thread = _I64(0) if operation.attributes["is_common"] else emitter.thread_number()
    found = _step(emitter, operation, "take", thread)
    emitter.set(operation, emitter.wrapped(found, operation.result.type))


def _step(emitter: CpuEmitter, operation: Operation, name: str, thread: Any) -> ir.Value:
    lowering = lowering_of(operation.attributes["use"].intrinsic)
    assert isinstance(lowering, Exchange)
    memory, *operands = operation.operands
    buffer = Buffer(emitter.builder, emitter.get(memory), thread)
    return emitter.emitted(operation, operands, partial(getattr(lowering, name), buffer), {})


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
    blocks = emitter.word(LaunchWord.SPACE)
    for axis in range(1, 3):
        blocks = builder.mul(blocks, emitter.word(LaunchWord.SPACE + axis))

    def write(call: Call) -> ir.Value | None:
        name = operation.attributes["of"]
        if name == "chain.publish":
            return None  # the look-back does: a block that fails in debug mode publishes nothing
        state = State.of(call, _ORDER)
        if name == "chain.next":
            return state.part_of(state.count_part())
        kind = call.context.get_value_type(call.signature.return_type)
        nodes = Nodes(state, kind, state.launch(), blocks)
        return _LookBack(call, nodes, fault_record(emitter)).run()

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


# Workers run their blocks one after the other, and a block takes its part when it runs. So a block
# that waits for a part waits for a block that another worker is running, or has run. Under any
# threading layer, and with any number of workers, none waits for what has not begun. A worker that
# waits gives its processor to others. A block that fails in debug mode publishes nothing. The
# launch raises, and no block waits any longer.


_I1 = ir.IntType(1)

_ORDER = "monotonic"
#: Polls of a worker before it yields its processor to others.
_LOOKS = 64


class _LookBack(SequentialLookBack):
    """The look-back of a worker; `record` is the address of the fault record, 0 without one."""

    def __init__(self, call: Call, nodes: Nodes, record: Any) -> None:
        super().__init__(call, nodes)
        self._record = record

    def wait(self, node: ir.Value) -> ir.Value:
        builder = self.builder
        is_there, value = self.nodes.look(node)
        goes_on = cgutils.alloca_once_value(builder, builder.not_(is_there))
        found = cgutils.alloca_once_value(builder, value)
        looks = cgutils.alloca_once_value(builder, _I32(0))
        with loop_while(builder, lambda: builder.load(goes_on)):
            is_there, value = self.nodes.look(node)
            builder.store(value, found)
            builder.store(builder.not_(is_there), goes_on)
            count = builder.add(builder.load(looks), _I32(1))
            builder.store(count, looks)
            is_long = builder.icmp_unsigned("==", builder.urem(count, _I32(_LOOKS)), _I32(0))
            with builder.if_then(is_long, likely=False):
                if IS_SUPPORTED:
                    kind = ir.FunctionType(_I32, [])
                    give = cgutils.get_or_insert_function(builder.module, kind, "sched_yield")
                    builder.call(give, [])
                with builder.if_then(self._has_failed()):
                    builder.store(_I1(0), goes_on)
        return builder.load(found)

    def _has_failed(self) -> ir.Value:
        """Return whether a block of the launch has failed."""
        builder = self.builder
        has_record = builder.icmp_unsigned("!=", self._record, _I64(0))
        result = cgutils.alloca_once_value(builder, _I1(0))
        with builder.if_then(has_record):
            place = builder.inttoptr(self._record, _I32.as_pointer())
            claimed = builder.load_atomic(place, _ORDER, 4)
            builder.store(builder.icmp_unsigned("!=", claimed, _I32(0)), result)
        return builder.load(result)
