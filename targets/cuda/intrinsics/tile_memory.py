"""Move the elements of a tile between an array and the registers of a block's threads.

A thread moves a group of neighbours by one instruction where the whole tile is within the array
and the group's place allows it, and element by element, each tested, elsewhere.

References
----------
CUDA C++ Programming Guide, section "Device Memory Accesses".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from kerneldsl.lowering.loop_marks import FULLY_UNROLLED, mark_loop
from kerneldsl.lowering.tile_plan import Layout

__all__ = [
    "ArrayElements",
    "load_elements",
    "store_elements",
    "unrolled",
]

_i1 = ir.IntType(1)
_i32 = ir.IntType(32)
_i64 = ir.IntType(64)
#: Most bytes that one instruction loads or stores.
_MAX_BYTES = 16
#: Turns of a loop over a thread's elements beyond which it is not unrolled. More elements than
#: half of the 255 registers of a thread (CUDA C++ Programming Guide, "Technical Specifications per
#: Compute Capability") are in local memory anyway. LLVM gives up at some number and warns. Before
#: that it writes code that takes many seconds to compile and to assemble.
MAX_UNROLLED = 128
#: Types in memory that vectors are made of.
_SCALAR = (ir.IntType, ir.FloatType, ir.DoubleType, ir.HalfType)


class ArrayElements:
    """The elements of an array, at an address in any address space.

    Parameters
    ----------
    context
        The target context.
    builder : ir.IRBuilder
        Where instructions go.
    kind
        Numba's type of the array.
    data : ir.Value
        Address of the first element.
    shape, strides : sequence of ir.Value
        Extents, and bytes from an element to the next along each axis.
    """

    def __init__(
        self,
        context: Any,
        builder: ir.IRBuilder,
        kind: Any,
        data: ir.Value,
        shape: Sequence[ir.Value],
        strides: Sequence[ir.Value],
    ) -> None:
        self.builder, self.context, self.kind = builder, context, kind
        self.data = data
        self.shape = shape
        self._strides = strides
        #: Type of an element in memory.
        self.stored = context.get_data_type(kind.dtype)
        self._model = context.data_model_manager[kind.dtype]

    @property
    def may_be_wide(self) -> bool:
        return self.kind.layout == "C" and isinstance(self.stored, _SCALAR)

    def place(self, *indices: ir.Value) -> ir.Value:
        """Return the address of an element."""
        builder = self.builder
        if self.kind.layout == "C":
            number, *others = indices
            for index, extent in zip(others, self.shape[1:], strict=True):
                number = builder.add(builder.mul(number, extent), index)
            return builder.gep(self.data, [number])
        space = self.data.type.addrspace
        place = builder.bitcast(self.data, ir.IntType(8).as_pointer(space))
        for index, stride in zip(indices, self._strides, strict=True):
            place = builder.gep(place, [builder.mul(index, stride)])
        return builder.bitcast(place, self.stored.as_pointer(space))

    def value_at(self, place: ir.Value) -> ir.Value:
        """Return an element as numbers are computed with."""
        return self._model.from_data(self.builder, self.builder.load(place))

    def put_at(self, place: ir.Value, value: ir.Value) -> None:
        self.builder.store(self._model.as_data(self.builder, value), place)

    def is_wide(self, first: ir.Value, layout: Layout) -> ir.Value:
        """Say whether a tile at an index is within the array, and groups may be accessed."""
        if not self.may_be_wide:
            return _i1(0)
        builder = self.builder
        end = builder.add(first, _i64(layout.count))
        inside = builder.and_(
            builder.icmp_signed(">=", first, _i64(0)), builder.icmp_signed("<=", end, self.shape[0])
        )
        nbytes = layout.group * self.context.get_abi_sizeof(self.stored)
        place = builder.ptrtoint(builder.gep(self.data, [first]), _i64)
        rest = builder.and_(place, _i64(nbytes - 1))
        return builder.and_(inside, builder.icmp_unsigned("==", rest, _i64(0)))


@contextmanager
def unrolled(builder: ir.IRBuilder, count: int) -> Iterator[ir.Value]:
    """Repeat what is written inside for each number below a count, unrolled if it is short."""
    if count == 1:
        yield _i64(0)
        return
    before = builder.block
    body, end = (builder.append_basic_block(f"tile.{each}") for each in ("body", "end"))
    builder.branch(body)
    builder.position_at_end(body)
    number = builder.phi(_i64)
    number.add_incoming(_i64(0), before)
    yield number
    following = builder.add(number, _i64(1), flags=("nuw", "nsw"))
    number.add_incoming(following, builder.block)
    if count <= MAX_UNROLLED:
        mark_loop(builder, FULLY_UNROLLED)
    builder.cbranch(builder.icmp_unsigned("<", following, _i64(count)), body, end)
    builder.position_at_end(end)


def _slots(builder: ir.IRBuilder, layout: Layout, thread: ir.Value) -> Any:
    """Repeat what is written inside for each slot of a thread, and the element that belongs there.

    A slot may belong to none; what is written inside must test that.
    """

    @contextmanager
    def loop() -> Iterator[tuple[ir.Value, ir.Value]]:
        with unrolled(builder, layout.rounds * layout.group) as slot:
            turn = builder.lshr(slot, _i64(layout.group.bit_length() - 1))
            within = builder.and_(slot, _i64(layout.group - 1))
            yield slot, builder.add(_number(builder, layout, turn, thread), within)

    return loop()


def _number(builder: ir.IRBuilder, layout: Layout, turn: ir.Value, thread: ir.Value) -> ir.Value:
    """Return the number of the first element that a thread has in a round."""
    group = builder.add(builder.mul(turn, _i64(layout.threads)), thread)
    return builder.mul(group, _i64(layout.group))


def load_elements(
    target: ArrayElements,
    array: ArrayElements,
    other: ir.Value,
    first: ir.Value,
    thread: ir.Value,
    layout: Layout,
) -> None:
    """Load a thread's elements of a tile that begins at an index; `other` are those outside."""
    builder, context = array.builder, array.context

    def each() -> None:
        with _slots(builder, layout, thread) as (slot, number):
            index = builder.add(first, number)
            place = target.place(slot)
            with builder.if_else(_is_inside(builder, array, layout, index, number)) as (yes, no):
                with yes:
                    value = array.value_at(array.place(index))
                    cast = context.cast(builder, value, array.kind.dtype, target.kind.dtype)
                    target.put_at(place, cast)
                with no:
                    target.put_at(place, other)

    _moved(array, target, first, thread, layout, each, is_load=True)


def store_elements(
    array: ArrayElements,
    source: ArrayElements,
    first: ir.Value,
    thread: ir.Value,
    layout: Layout,
) -> None:
    """Store a thread's elements of a tile that begins at an index."""
    builder, context = array.builder, array.context

    def each() -> None:
        with _slots(builder, layout, thread) as (slot, number):
            index = builder.add(first, number)
            with builder.if_then(_is_inside(builder, array, layout, index, number)):
                value = source.value_at(source.place(slot))
                cast = context.cast(builder, value, source.kind.dtype, array.kind.dtype)
                array.put_at(array.place(index), cast)

    _moved(array, source, first, thread, layout, each, is_load=False)


def _moved(
    array: ArrayElements,
    own: ArrayElements,
    first: ir.Value,
    thread: ir.Value,
    layout: Layout,
    each: Callable[[], None],
    *,
    is_load: bool,
) -> None:
    """Move all elements, group by group if possible."""
    builder = array.builder
    if layout.group == 1 or not (array.may_be_wide and own.may_be_wide):
        each()
        return
    with builder.if_else(array.is_wide(first, layout)) as (wide, narrow):
        with wide, unrolled(builder, layout.rounds) as turn:
            index = builder.add(first, _number(builder, layout, turn, thread))
            outside = array, index
            inside = own, builder.mul(turn, _i64(layout.group))
            target, source = (inside, outside) if is_load else (outside, inside)
            _copy_group(*target, *source, layout.group)
        with narrow:
            each()


def _is_inside(
    builder: ir.IRBuilder, array: ArrayElements, layout: Layout, index: ir.Value, number: ir.Value
) -> ir.Value:
    inside = builder.and_(
        builder.icmp_signed(">=", index, _i64(0)), builder.icmp_signed("<", index, array.shape[0])
    )
    if layout.is_even:
        return inside
    return builder.and_(inside, builder.icmp_unsigned("<", number, _i64(layout.count)))


def _copy_group(
    target: ArrayElements,
    place: ir.Value,
    source: ArrayElements,
    start: ir.Value,
    group: int,
) -> None:
    """Copy neighbours by wide instructions."""
    builder, context = target.builder, target.context
    stored = [each.stored for each in (target, source)]
    models = [context.data_model_manager[each.kind.dtype] for each in (target, source)]
    sizes = [context.get_abi_sizeof(kind) for kind in stored]
    lanes = [_lanes(kind) for kind in stored]
    taken: list[ir.Value] = []
    width = min(group, max(1, _MAX_BYTES // sizes[1]))
    for offset in range(0, group, width):
        at = builder.gep(source.data, [builder.add(start, _i64(offset))])
        vector = ir.VectorType(lanes[1], width)
        loaded = builder.load(_as_vector(builder, at, vector))
        loaded.align = width * sizes[1]
        taken += [builder.extract_element(loaded, _i32(i)) for i in range(width)]
    values = []
    for value in taken:
        given = models[1].from_data(builder, builder.bitcast(value, stored[1]))
        cast = context.cast(builder, given, source.kind.dtype, target.kind.dtype)
        values.append(builder.bitcast(models[0].as_data(builder, cast), lanes[0]))
    width = min(group, max(1, _MAX_BYTES // sizes[0]))
    for offset in range(0, group, width):
        vector = ir.VectorType(lanes[0], width)
        whole: ir.Value = ir.Constant(vector, ir.Undefined)
        for i in range(width):
            whole = builder.insert_element(whole, values[offset + i], _i32(i))
        at = builder.gep(target.data, [builder.add(place, _i64(offset))])
        saved = builder.store(whole, _as_vector(builder, at, vector))
        saved.align = width * sizes[0]


def _as_vector(builder: ir.IRBuilder, place: ir.Value, kind: ir.Type) -> ir.Value:
    return builder.bitcast(place, kind.as_pointer(place.type.addrspace))


def _lanes(kind: ir.Type) -> ir.Type:
    """Return the type of a vector's elements for a type in memory."""
    return ir.IntType(16) if isinstance(kind, ir.HalfType) else kind
