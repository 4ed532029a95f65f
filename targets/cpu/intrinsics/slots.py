"""Slots: private values that outlive a barrier, one for each thread of a block.

The type of a slot is known before the code is typed, or it is open. An open slot takes the type of
the first value that is stored in it, in the order in which Numba types the code.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.numba_internals.bound import BoundIntrinsic
from kerneldsl.lowering.numba_internals.host_code import size_of
from kerneldsl.lowering.numba_internals.settled_types import NotTypedYetError
from targets.cpu.codegen.storage import Storage
from targets.cpu.intrinsics.memory import reserve_or_place

__all__ = [
    "OpenSlotError",
    "SlotType",
    "load_slot",
    "open_slot_maker",
    "open_slot_operations",
    "slot_bytes",
    "slot_maker",
    "store_slot",
]

_I32, _I64 = ir.IntType(32), ir.IntType(64)


class SlotType(types.Type):
    """One value of a Numba type for each thread along the last 1, 2 or 3 axes of a block.

    What `is_narrow` is an int64 that 32 bits hold, and is kept in as many: as many lanes then serve
    it as serve a float32.
    """

    def __init__(self, element: Any, dims: tuple[int, ...], *, is_narrow: bool = False) -> None:
        self.element = element
        self.dims = dims
        self.is_narrow = is_narrow
        super().__init__(name=f"Slot({element}, {dims}, {is_narrow})")

    def storage(self, context: Any) -> Any:
        """Return LLVM's type of all values."""
        storage: Any = _I32 if self.is_narrow else context.get_data_type(self.element)
        for n in reversed(self.dims):
            storage = ir.ArrayType(storage, n)
        return storage


register_model(SlotType)(models.OpaqueModel)


def slot_bytes(element: Any, dims: tuple[int, ...], *, is_narrow: bool) -> int:
    """Return the bytes of a slot."""
    return (4 if is_narrow else size_of(element)) * math.prod(dims)


def _slot_place(
    context: Any, builder: Any, slot: SlotType, pointer: Any, index: Any, value: Any
) -> Any:
    if isinstance(index, types.BaseTuple):
        indices = cgutils.unpack_tuple(builder, value, len(index))
    else:
        indices = [context.cast(builder, value, index, types.int64)]
    typed = builder.bitcast(pointer, slot.storage(context).as_pointer())
    return builder.gep(typed, [_I64(0), *indices], inbounds=True)


def _emit_load(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    slot, index = signature.args
    stored = builder.load(_slot_place(context, builder, slot, args[0], index, args[1]))
    if slot.is_narrow:
        return builder.sext(stored, _I64)
    return context.data_model_manager[slot.element].from_data(builder, stored)


def _emit_store(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    slot, index, value = signature.args
    if context.typing_context.can_convert(value, slot.element) is not None:
        place = _slot_place(context, builder, slot, args[0], index, args[1])
        converted = context.cast(builder, args[2], value, slot.element)
        if slot.is_narrow:
            stored = builder.trunc(converted, _I32)
        else:
            stored = context.data_model_manager[slot.element].as_data(builder, converted)
        builder.store(stored, place)
    return context.get_dummy_value()


# -- slots of known types -------------------------------------------------------------------------


@cache
def slot_maker(
    element: Any, dims: tuple[int, ...], offset: int | None, *, is_narrow: bool = False
) -> Callable[..., Any]:
    """Make the intrinsic ``make(scratch) -> slot`` that reserves one value a thread.

    `dims` counts threads along z, y, x, or along x alone; without an offset into scratch memory the
    slot is on the stack.
    """
    slot = SlotType(element, dims, is_narrow=is_narrow)

    @intrinsic
    def make(typingctx: Any, scratch: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _place(context, builder, slot, args[0], offset)

        return slot(types.voidptr), generate

    return make  # type: ignore[no-any-return]


def _place(context: Any, builder: Any, slot: SlotType, scratch: Any, offset: int | None) -> Any:
    memory = reserve_or_place(builder, scratch, slot.storage(context), offset)
    return builder.bitcast(memory, cgutils.voidptr_t)


@intrinsic
def load_slot(typingctx: Any, slot: Any, index: Any) -> Any:
    """Read this thread's value; `index` is an int64, or a tuple of one for each axis."""
    return slot.element(slot, index), _emit_load


@intrinsic
def store_slot(typingctx: Any, slot: Any, index: Any, value: Any) -> Any:
    """Write this thread's value, converted as Numba converts where two assignments meet.

    A value that cannot be converted is not written. It belongs to a version of the variable with
    another type and another slot.
    """
    return types.none(slot, index, value), _emit_store


# -- slots of open types --------------------------------------------------------------------------


class OpenSlotError(Exception):
    """A slot cannot have an open type: probes must infer its types before."""


class _OpenSlotType(SlotType):
    """A slot of the type of what is stored first; everything else must have that type, too.

    `kept` gives the type in which a value is kept, and whether it is narrow.
    """

    _numbers = itertools.count()

    def __init__(self, dims: tuple[int, ...], kept: Callable[[Any], tuple[Any, bool]]) -> None:
        super().__init__(f"open {next(self._numbers)}", dims)
        self.element = None
        self._stored: Any = None
        self._kept = kept

    def settle(self, value: Any) -> None:
        """Let the slot hold such values."""
        plain = types.unliteral(value)
        if self._stored is None:
            self._stored = plain
            self.element, self.is_narrow = self._kept(plain)
        elif plain not in (self._stored, self.element):
            raise OpenSlotError(f"a slot of {self._stored} is to hold {plain}, too")


register_model(_OpenSlotType)(models.OpaqueModel)


def open_slot_maker(
    name: str,
    dims: tuple[int, ...],
    storage: Storage,
    kept: Callable[[Any], tuple[Any, bool]],
) -> BoundIntrinsic:
    """Make the intrinsic ``make(scratch) -> slot`` of a slot with an open type.

    The slot is on the stack. `kept` gives, for the type of the values that are stored, the type in
    which they are kept and whether they are narrow. Lowering raises :class:`OpenSlotError` where
    nothing is stored, or `storage` has no more room on the stack.
    """
    slot = _OpenSlotType(dims, kept)

    def rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
        return slot(types.voidptr)

    def emit(call: Call) -> Any:
        if slot.element is None:
            raise OpenSlotError(f"{name}: nothing is stored")
        nbytes = slot_bytes(slot.element, dims, is_narrow=slot.is_narrow)
        if storage.place(nbytes) is not None:
            raise OpenSlotError(f"{name}: the stack is full")
        return _place(call.context, call.builder, slot, call.args[0], None)

    return BoundIntrinsic(name, rule, emit, {})


def open_slot_operations() -> dict[str, BoundIntrinsic]:
    """Return ``kd_load`` and ``kd_store`` for open slots.

    Numba keeps what it found of an intrinsic as long as that lives, so each kernel has its own.
    """

    def type_load(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
        slot, index = args
        if slot.element is None:
            raise NotTypedYetError("nothing is stored in the slot so far")
        return slot.element(slot, index)

    def type_store(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
        slot, index, value = args
        slot.settle(value)
        return types.none(slot, index, value)

    def emitting(emit: Callable[..., Any]) -> Callable[[Call], Any]:
        return lambda call: emit(call.context, call.builder, call.signature, call.args)

    return {
        "kd_load": BoundIntrinsic("load_slot", type_load, emitting(_emit_load), {}),
        "kd_store": BoundIntrinsic("store_slot", type_store, emitting(_emit_store), {}),
    }
