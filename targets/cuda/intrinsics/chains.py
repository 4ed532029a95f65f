"""Chains of blocks: each warp of a block looks at the nodes of a level, all of them at one time.

Every access to the state is relaxed and of device scope, since each word says by itself whether it
is written (:mod:`kerneldsl.lowering.chains`). A block that takes its part learns which launch this
is from the same word, so that it can publish its value without a look at the state. A block of less
than a warp has not a lane for each node, and its first thread looks alone.

In a long chain a block sleeps before its first look. A word that is looked at before it is written
is slower to write and to read again, as other words in its sector of the second-level cache are: on
an H200 a scan of 2²⁸ float32 takes 697 µs without a sleep and 622 µs with one of 1.5 µs; a sleep
between looks changes nothing.

References
----------
PTX ISA, sections "Memory Consistency Model" and "nanosleep".
D. Merrill and M. Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", NVIDIA
Technical Report NVR-2016-002, 2016.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.lowering.calls import Call, Emitter, loop_while
from kerneldsl.lowering.chains import Before, Climb, Nodes, SequentialLookBack, State
from kerneldsl.lowering.groups import WIDTHS, Combination, combination
from targets.cuda.compile.calling import has_failed
from targets.cuda.intrinsics.by_architecture import call_by_architecture
from targets.cuda.intrinsics.groups.threads import Block
from targets.cuda.intrinsics.ids import read_register
from targets.cuda.intrinsics.memory import DEVICE_ORDER
from targets.cuda.intrinsics.synchronize import barrier, call_nvvm, shuffle

__all__ = ["EMITTERS"]

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)

_ALL_LANES = 0xFFFFFFFF
#: Places in the block's spare memory that :func:`_next` fills: the number of the launch, and the
#: address of the state.
_LAUNCH, _OWNER = 4, 8
#: A bit that no address of a state has: the block has published its value.
_IS_PUBLISHED = 1
#: A slot of the block that no level of nodes uses.
_LAST_SLOT = WARP_SIZE - 1
#: Number of the part from which on a block sleeps before it polls, and the time in nanoseconds.
#: Launches of fewer blocks, which mostly run at once, end sooner without.
_LONG_CHAIN, _SLEEP_NS = 1024, 1500
#: Nanoseconds that a block sleeps if it has published its value before.
_SHORT_SLEEP_NS = 700


def _next(call: Call) -> ir.Value:
    builder, state = call.builder, State.of(call, DEVICE_ORDER)
    block = Block(builder, _I64)
    with builder.if_then(builder.icmp_unsigned("==", block.thread, _I32(0))):
        word = state.count_part()
        block.give(word)
        builder.store(state.launch_of(word), block.spare(_LAUNCH, _I32))
        builder.store(builder.ptrtoint(state.words, _I64), block.spare(_OWNER, _I64))
    barrier(builder)
    return state.part_of(block.value_of(_I32(0)))


def _publish(call: Call) -> None:
    """Publish a block's value, and note that in the lowest bit of the state's address.

    A block that has taken its part of another state does not know the launch, which the look-back
    reads. It publishes the value, too.
    """
    builder, state = call.builder, State.of(call, DEVICE_ORDER)
    part, value = call.args[1:3]
    block = Block(builder, value.type)
    with builder.if_then(builder.icmp_unsigned("==", block.thread, _I32(0))):
        owner, is_known = _owned(state, block)
        with builder.if_then(is_known):
            launch = builder.load(block.spare(_LAUNCH, _I32))
            Nodes(state, value.type, launch, _blocks(builder)).publish(part, value)
            builder.store(builder.or_(owner, _I64(_IS_PUBLISHED)), block.spare(_OWNER, _I64))


def _blocks(builder: ir.IRBuilder) -> ir.Value:
    """Return the number of blocks of the launch."""
    x, y, z = (read_register(builder, f"nctaid.{axis}") for axis in "xyz")
    return builder.mul(builder.mul(x, y), z)


def _owned(state: State, block: Block) -> tuple[ir.Value, ir.Value]:
    """Return of which state a block knows the launch, as it is kept, and whether it is this one."""
    builder = state.builder
    owner = builder.load(block.spare(_OWNER, _I64))
    address = builder.and_(owner, _I64(~_IS_PUBLISHED))
    return owner, builder.icmp_unsigned("==", address, builder.ptrtoint(state.words, _I64))


def _before(call: Call) -> ir.Value:
    builder, state = call.builder, State.of(call, DEVICE_ORDER)
    found = combination("chain.before", call)
    block = Block(builder, found.value_type)
    launch, is_published = _launch(state, block)
    nodes = Nodes(state, found.value_type, launch, _blocks(builder))
    result = cgutils.alloca_once(builder, call.context.get_value_type(call.signature.return_type))
    has_warp = builder.icmp_unsigned(">=", block.threads, _I32(WARP_SIZE))
    with builder.if_else(has_warp) as (together, alone):
        with together:
            look_back = _LookBack(call, found, block, nodes, is_published)
            builder.store(look_back.run(), result)
        with alone:
            with builder.if_then(builder.icmp_unsigned("==", block.thread, _I32(0))):
                block.give(_ThreadLookBack(call, nodes).run())
            barrier(builder)
            builder.store(block.value_of(_I32(0)), result)
    return builder.load(result)


def _launch(state: State, block: Block) -> tuple[ir.Value, ir.Value]:
    """Return which launch this is, and whether the block has published its value.

    The launch is known since the block has taken its part, or read now. One thread reads it for its
    block, before it publishes: later the next launch may have begun.
    """
    builder = state.builder
    launch = cgutils.alloca_once_value(builder, builder.load(block.spare(_LAUNCH, _I32)))
    owner, is_known = _owned(state, block)
    with builder.if_then(builder.not_(is_known)):
        place = block.slot(_I32(_LAST_SLOT), _I32)
        with builder.if_then(builder.icmp_unsigned("==", block.thread, _I32(0))):
            builder.store(state.launch(), place)
        barrier(builder)
        builder.store(builder.load(place), launch)
    return builder.load(launch), builder.and_(is_known, builder.trunc(owner, _I1))


class _LookBack:
    """The look-back of a block's warps, and of what they found by all of its threads."""

    def __init__(
        self,
        call: Call,
        found: Combination,
        block: Block,
        nodes: Nodes,
        is_published: ir.Value,
    ) -> None:
        self._call = call
        self._builder = call.builder
        self._found = found
        self._block = block
        self._nodes = nodes
        self._is_published = is_published
        self._lane = self._builder.and_(block.thread, _I32(WARP_SIZE - 1))
        self._is_first = self._builder.icmp_unsigned("==", block.thread, _I32(0))

    def run(self) -> ir.Value:
        """Publish the block's value, and the nodes that it ends; return the result of the call."""
        part, value = self._call.args[1:3]
        builder, is_published = self._builder, self._is_published
        with builder.if_then(builder.and_(self._is_first, builder.not_(is_published))):
            self._nodes.publish(part, value)
        is_long = builder.icmp_unsigned(">=", part, _I64(_LONG_CHAIN))
        with builder.if_then(is_long):
            _sleep(builder, builder.select(is_published, _I32(_SHORT_SLEEP_NS), _I32(_SLEEP_NS)))
        self._look()
        barrier(self._builder)
        with self._builder.if_then(self._is_first):
            self._publish_higher()
            self._nodes.end(part)
        return self._add_up()

    def _climb(self) -> tuple[Climb, ir.Value]:
        """Return the levels, and the place of the number of one."""
        number = cgutils.alloca_once_value(self._builder, _I32(0))
        return Climb(self._builder, self._call.args[1], self._nodes.blocks), number

    def _go_up(self, climb: Climb, number: ir.Value) -> None:
        climb.go_up()
        following = self._builder.add(self._builder.load(number), _I32(1))
        self._builder.store(following, number)

    def _look(self) -> None:
        """Let each whole warp combine the nodes of its levels, and put them into their slots.

        The part that ends a node of the second level publishes it, before others are waited for.
        """
        builder = self._builder
        climb, number = self._climb()
        warps = builder.lshr(self._block.threads, _I32(5))
        mine = cgutils.alloca_once_value(builder, self._block.warp_index)
        is_whole = builder.icmp_unsigned("<", self._block.warp_index, warps)
        goes_on = lambda: builder.and_(is_whole, climb.goes_on())  # noqa: E731
        with loop_while(builder, goes_on):
            level, count = builder.load(number), climb.count()
            is_mine = builder.icmp_unsigned("==", level, builder.load(mine))
            with builder.if_then(is_mine):
                builder.store(builder.add(level, warps), mine)
            has_nodes = builder.icmp_unsigned("!=", count, _I64(0))
            with builder.if_then(builder.and_(is_mine, has_nodes)):
                total = self._combined(climb.first(), builder.trunc(count, _I32))
                with builder.if_then(builder.icmp_unsigned("==", self._lane, _I32(0))):
                    is_lowest = builder.icmp_unsigned("==", level, _I32(0))
                    with builder.if_then(builder.and_(is_lowest, climb.is_full())):
                        node = self._found.combine(builder, total, self._call.args[2])
                        self._nodes.publish(climb.parent(), node)
                    self._block.give(total, level)
            self._go_up(climb, number)

    def _combined(self, first: ir.Value, count: ir.Value) -> ir.Value:
        """Return some consecutive nodes combined, for the first lane of the warp."""
        builder, lane = self._builder, self._lane
        takes_part = builder.icmp_unsigned("<", lane, count)
        value = self._wait(builder.add(first, builder.zext(lane, _I64)), takes_part)
        for width in WIDTHS:
            other_lane = builder.add(lane, _I32(width))
            other = shuffle(builder, "idx", _I32(_ALL_LANES), value, other_lane)
            result = cgutils.alloca_once_value(builder, value)
            with builder.if_then(builder.icmp_unsigned("<", other_lane, count)):
                builder.store(self._found.combine(builder, value, other), result)
            value = builder.load(result)
        return value

    def _wait(self, node: ir.Value, takes_part: ir.Value) -> ir.Value:
        """Return each lane's node when those of all lanes are published.

        A lane looks again only if it has seen nothing: blocks wait for the same few words, which
        one part of the cache has for all of them.
        """
        builder = self._builder
        found = cgutils.alloca_once_value(builder, ir.Constant(self._nodes.kind, None))
        is_waiting = cgutils.alloca_once_value(builder, takes_part)
        goes_on = cgutils.alloca_once_value(builder, _I1(1))
        with loop_while(builder, lambda: builder.load(goes_on)):
            with builder.if_then(builder.load(is_waiting)):
                is_there, value = self._nodes.look(node)
                builder.store(value, found)
                is_over = builder.or_(is_there, has_failed(builder))
                builder.store(builder.not_(is_over), is_waiting)
            waiting = [_I32(_ALL_LANES), builder.load(is_waiting)]
            any_waiting = call_nvvm(builder, "vote.any.sync", _I1, waiting)
            builder.store(any_waiting, goes_on)
        return builder.load(found)

    def _publish_higher(self) -> None:
        """Publish the nodes from the third level on that the part ends."""
        builder = self._builder
        climb, number = self._climb()
        own = cgutils.alloca_once_value(builder, self._call.args[2])
        with loop_while(builder, climb.is_full):
            total = self._block.value_of(builder.load(number))
            node = self._found.combine(builder, total, builder.load(own))
            builder.store(node, own)
            is_higher = builder.icmp_unsigned("!=", builder.load(number), _I32(0))
            with builder.if_then(is_higher):
                self._nodes.publish(climb.parent(), node)
            self._go_up(climb, number)

    def _add_up(self) -> ir.Value:
        """Return what the levels come to; every thread adds them."""
        builder = self._builder
        before = Before(self._call, self._found)
        climb, number = self._climb()
        with loop_while(builder, climb.goes_on):
            has_nodes = builder.icmp_unsigned("!=", climb.count(), _I64(0))
            with builder.if_then(has_nodes):
                before.add(self._block.value_of(builder.load(number)))
            self._go_up(climb, number)
        return before.result()


class _ThreadLookBack(SequentialLookBack):
    """The look-back of one thread."""

    def wait(self, node: ir.Value) -> ir.Value:
        builder = self.builder
        found = cgutils.alloca_once(builder, self.nodes.kind)
        goes_on = cgutils.alloca_once_value(builder, _I1(1))
        with loop_while(builder, lambda: builder.load(goes_on)):
            is_there, value = self.nodes.look(node)
            builder.store(value, found)
            is_over = builder.or_(is_there, has_failed(builder))
            builder.store(builder.not_(is_over), goes_on)
        return builder.load(found)


def _sleep(builder: ir.IRBuilder, nanoseconds: ir.Value) -> None:
    call_by_architecture(builder, "nanosleep", ir.VoidType(), [nanoseconds])


EMITTERS: dict[str, Emitter] = {
    "chain.next": _next,
    "chain.before": _before,
    "chain.publish": _publish,
}
