"""Preparing the table by which native code repeats a launch that Python has made.

The dispatcher has just accepted these arguments in this shape, so nothing here is an error. If a
table cannot express a launch, there is no table, and Python makes the launch.

Code is compiled for promises (:class:`~kerneldsl.contract.Promises`). They are fewer than the facts
about the arguments that chose it. A native launch checks only the promises that the code relies on.
It also checks that the arguments are not better aligned than those it was chosen for: for them,
Python chooses code that uses their alignment.
"""

from __future__ import annotations

import builtins
import logging
import struct
import types
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import Device, Executable, LaunchConfig
from kerneldsl.contract.abi import ArrayParameters, ParameterLayout
from kerneldsl.contract.findings import NO_BARRIERS
from kerneldsl.contract.promises import MAX_ALIGNMENT, NARROW, ArrayPromises, Promises
from kerneldsl.errors import KernelError
from kerneldsl.frontend.captured import (
    AttributeReader,
    CellReader,
    GlobalReader,
    ItemReader,
    same_value,
)
from kerneldsl.frontend.frozen import FrozenArrays, WatchedArrays
from kerneldsl.frontend.unit import Captured
from kerneldsl.launch.arguments.binding import kinds_of
from kerneldsl.launch.barrier_checks import chain_state_size
from kerneldsl.launch.dispatch import Dispatcher
from kerneldsl.launch.native.conditions import (
    Aligned,
    Condition,
    Distinct,
    Few,
    Same,
    Within,
    pack_conditions,
)
from kerneldsl.launch.native.launch_table import (
    Guard,
    GuardKind,
    LaunchTable,
    TableParts,
    make_table,
)
from kerneldsl.launch.native.layout import UnknownLayout
from kerneldsl.launch.native.steps import StepMaker
from kerneldsl.launch.request import Request, arrays_overlap
from kerneldsl.launch.shape import LaunchShape
from kerneldsl.placement import devices as placement
from kerneldsl.utilities.environment import TARGET_KEY, logger, stored_variables

if TYPE_CHECKING:
    from kerneldsl.contract.tensor_maps import TensorMap
    from kerneldsl.launch.native.map_records import MapRecord

__all__ = ["capture_guards", "conditions_of", "prepare"]


def prepare(
    dispatcher: Dispatcher, shape: LaunchShape, args: tuple[Any, ...], generation: int
) -> LaunchTable | None:
    """Make the table of a launch that has been made.

    The table is good in a generation. There is none where launches like this one stay with Python.
    """
    if shape.stream is not None or dispatcher.is_debug:
        return None
    try:
        found = dispatcher.find(shape, args)
        return None if found is None else _prepare(*found, args, generation)
    # Something has changed since the launch; or an entry is not made for native code.
    except (KernelError, NameError, UnknownLayout):
        return None


def _prepare(
    request: Request,
    executable: Executable,
    config: LaunchConfig,
    args: tuple[Any, ...],
    generation: int,
) -> LaunchTable | None:
    state, shape, binding, device = request.state, request.shape, request.binding, request.device
    if config.cluster_dim is not None or config.is_cooperative:
        return None  # a driver starts these otherwise
    if state.options.debug:  # on the CPU, of a kernel with code for the GPU
        return None
    if request.fallback is not None or (binding.host and not device.shares_host_memory):
        return None
    guards = capture_guards(state.unit.captured)
    always = log_guards()
    where = device_guards(device, is_named=binding.device is not None)
    if guards is None or always is None or where is None:
        return None
    wanted = request.kinds
    layout = ParameterLayout(state.unit.parameters, wanted, shape.mode)
    written = state.traits.written
    maker = StepMaker(layout, device)
    steps = maker.steps(args, kinds_of(binding.given), wanted, written)
    # Any other kept object or stream belongs to an argument without a step.
    if steps is None or len(binding.keep) != maker.foreign_count:
        return None
    conditions = _conditions(request, executable, config, layout)
    entry = executable.native_entry(config)
    if conditions is None or entry is None:
        return None
    types = tuple(step.type for step in steps)
    has_streams = not device.is_synchronous
    parts = TableParts(
        key=(state, binding.given, device, executable, request.promises, types),
        generation=generation,
        device=device,
        guards=(*guards, *always),
        device_guards=where,
        steps=steps,
        conditions=pack_conditions(conditions, layout),
        asks_numbers=any(isinstance(c, Within) and not c.is_of_array for c in conditions),
        parameters=_image(layout, shape.extent),
        current_stream=maker.exchanges[0].current_stream if has_streams and maker.exchanges else 0,
        stream_getter=maker.attribute_names[0].current_stream if maker.attribute_names else None,
        entry=entry,
        maps=_maps(executable, layout),
        counter=executable.counter,
        keep=(state, executable, maker),
    )
    return make_table(parts)


def _conditions(
    request: Request, executable: Executable, config: LaunchConfig, layout: ParameterLayout
) -> list[Condition] | None:
    """Return what the choice of the code depended on; ``None`` if that cannot be said."""
    state, found, extent = request.state, request.promises, request.shape.extent or ()
    compiled = executable.artifact.specialization.promises
    facts = executable.barriers or NO_BARRIERS
    is_overlapping = facts.overlap_matters and arrays_overlap(state, request.binding)
    if is_overlapping or (found.arrays and not found.is_disjoint):
        return None  # arguments that do not overlap would get better code
    written, arrays = state.traits.written, layout.arrays
    conditions = conditions_of(compiled, found, arrays, layout.integers, extent, written)
    if facts.chain_states:
        least = chain_state_size(config)
        conditions += [
            Within(array.extents.start, low=least, is_of_array=True)
            for array in arrays
            if array.position in facts.chain_states
        ]
    for wanted in executable.artifact.tensor_maps:
        conditions += _of_map(wanted, arrays[wanted.array])
    if facts.overlap_matters:
        conditions += [
            Distinct(first, second)
            for first, second in combinations(arrays, 2)
            if first.position in written or second.position in written
        ]
    return conditions


def _maps(executable: Executable, layout: ParameterLayout) -> tuple[MapRecord, ...]:
    """Return the records of the kernel's tensor maps."""
    if not executable.artifact.tensor_maps:
        return ()
    from kerneldsl.launch.native.map_records import map_records

    return map_records(executable.artifact.tensor_maps, layout)


def _image(layout: ParameterLayout, extent: tuple[int, ...] | None) -> bytes:
    """Return the parameter buffer with the extents alone."""
    image = bytearray(layout.nbytes)
    if extent:
        for parameter, value in zip(layout.parameters[-len(extent) :], extent, strict=True):
            struct.pack_into("=q", image, parameter.offset, value)
    return bytes(image)


def conditions_of(
    compiled: Promises,
    found: Promises,
    arrays: Sequence[ArrayParameters],
    integers: Sequence[int],
    extent: tuple[int, ...],
    written: Collection[int],
) -> list[Condition]:
    """Say under which conditions code may be launched.

    `compiled` has the promises of the code, `found` the facts about the arguments that it was
    chosen for. `written` holds the positions of arguments that the kernel may write. `integers` are
    the parameters that pass int64 scalars. Conditions name parameters by their numbers.
    """
    conditions: list[Condition] = []
    for number, array in enumerate(arrays):
        promised = compiled.array(number)
        conditions += _of_array(promised, array, extent)
        same_as = promised.same_as
        if same_as is None and not compiled.is_disjoint:
            # The promise of disjoint arrays may be missing because two arguments are one array.
            # Different arrays would get better code.
            same_as = found.array(number).same_as
        if same_as is not None:
            conditions += map(Same, array.numbers, arrays[same_as].numbers)
        if compiled.is_narrow and not (promised.is_extent and array.kind.ndim == len(extent)):
            conditions.append(Few(array.extents.start, array.kind.ndim, NARROW - 1))
        if found.arrays and promised.alignment <= found.array(number).alignment < MAX_ALIGNMENT:
            conditions += _no_better(array, found.array(number).alignment)
    if compiled.has_narrow_integers:
        conditions += [Within(number, 0, NARROW - 1) for number in integers]
    if compiled.is_disjoint:
        conditions += _disjoint(compiled, arrays, written)
    return conditions


def _of_array(
    promised: ArrayPromises, array: ArrayParameters, extent: tuple[int, ...]
) -> Iterator[Condition]:
    kind, alignment = array.kind, promised.alignment
    if alignment > 1:
        yield Aligned(array.pointer, alignment)
        if kind.layout == "A":
            for axis, stride in enumerate(array.strides):
                if axis != promised.unit_axis:
                    yield Aligned(stride, alignment)
        elif kind.ndim > 1 and alignment > array.item_bytes:
            # All strides are multiples of that of the longest contiguous runs.
            run = array.extents[-1] if kind.layout == "C" else array.extents[0]
            yield Aligned(run, alignment // array.item_bytes)
    if promised.unit_axis is not None:
        stride = array.strides[promised.unit_axis]
        yield Within(stride, array.item_bytes, array.item_bytes, is_of_array=True)
    if promised.is_extent:
        for parameter, n in zip(array.extents, extent, strict=False):
            yield Within(parameter, n, n, is_of_array=True)


def _of_map(wanted: TensorMap, array: ArrayParameters) -> Iterator[Condition]:
    """Yield what must hold so that a map describes an array, beyond its alignment."""
    from kerneldsl.contract.tensor_maps import MAX_MAP_EXTENT, MAX_MAP_STRIDE

    for extent in array.extents:
        yield Within(extent, 1, MAX_MAP_EXTENT, is_of_array=True)
    for axis in wanted.axes[1:] if array.strides else ():
        yield Within(array.strides[axis], 1, MAX_MAP_STRIDE, is_of_array=True)


def _no_better(array: ArrayParameters, alignment: int) -> Iterator[Condition]:
    """Yield the condition that the address is no better aligned, where no stride limits it."""
    if array.kind.ndim <= 1 and array.kind.layout != "A":
        yield Aligned(array.pointer, 2 * alignment, rest=alignment)


def _disjoint(
    compiled: Promises, arrays: Sequence[ArrayParameters], written: Collection[int]
) -> Iterator[Condition]:
    """Yield conditions that written arrays share no memory with others; equal ones count as one."""
    groups: dict[int, list[ArrayParameters]] = {}
    for number, array in enumerate(arrays):
        same_as = compiled.array(number).same_as
        groups.setdefault(number if same_as is None else same_as, []).append(array)
    for first, second in combinations(groups.values(), 2):
        if any(array.position in written for array in (*first, *second)):
            yield Distinct(first[0], second[0])


# Each condition becomes guards. A guard looks up one name in one dictionary (or one closure cell,
# or an object's type, or an array's flags) and compares by identity. If a condition cannot be
# expressed by guards, Python makes the launches.

#: Is never chosen.
_NOBODY = object()


def _held(names: dict[Any, Any], key: Any, value: Any) -> Guard:
    return Guard(GuardKind.DICT, names, key, value)


def capture_guards(captured: tuple[Captured, ...]) -> list[Guard] | None:
    """Return the guards for captured constants as they are now, which must be the kernel's.

    ``None`` if one of them is not read from globals, closures and attributes, has changed, or has
    arrays with contents that must be compared.
    """
    found: list[Guard] = []
    for each in captured:
        guards = _reader_guards(each.source)
        if guards is None or same_value(each.value, guards[-1].value) is not each.value:
            return None
        if type(each.value) is types.FunctionType:
            if each.read() is not each.value:
                return None
            guards.append(Guard(GuardKind.ATTRIBUTE, each.value, "__code__", each.value.__code__))
        if isinstance(each.arrays, WatchedArrays):
            return None  # what is in them is compared in Python
        if each.arrays is not None:
            guards += _frozen_guards(each.arrays)
        found += [guard for guard in guards if not _is_among(guard, found)]
    return found


def _frozen_guards(frozen: FrozenArrays) -> list[Guard]:
    """Return guards that arrays are read-only, and not found writable since the table was made."""
    cell = frozen.cell
    unchanged = Guard(GuardKind.CELL, cell, None, cell.cell_contents)
    return [unchanged, *(Guard(GuardKind.READ_ONLY, array, None, None) for array in frozen.arrays)]


def _is_among(guard: Guard, others: list[Guard]) -> bool:
    return any(
        guard.owner is other.owner and guard.key == other.key and guard.value is other.value
        for other in others
    )


def _reader_guards(reader: object) -> list[Guard] | None:
    """Return what a reader looks at, outermost first; the last guard's value is what it reads."""
    if isinstance(reader, GlobalReader):
        return _global_guards(reader)
    if isinstance(reader, CellReader):
        try:
            return [Guard(GuardKind.CELL, reader.cell, None, reader.cell.cell_contents)]
        except ValueError:
            return None
    if isinstance(reader, AttributeReader):
        outer = _reader_guards(reader.owner)
        if outer is None:
            return None
        owner, name = outer[-1].value, reader.attribute
        names = vars(owner) if type(owner) is types.ModuleType else {}
        if name in names and not hasattr(types.ModuleType, name):
            # A module's class may be replaced by another one, with a property of that name.
            plain = Guard(GuardKind.TYPE, owner, None, types.ModuleType)
            return [*outer, plain, _held(names, name, names[name])]
        # Attributes of other objects may be computed, inherited or hidden: they are read.
        return [*outer, Guard(GuardKind.ATTRIBUTE, owner, name, reader())]
    if isinstance(reader, ItemReader):
        outer = _reader_guards(reader.owner)
        try:
            item = types.CellType(reader())  # the tuple's own for as long as it is this tuple
        except NameError:
            return None
        return outer and [*outer, Guard(GuardKind.CELL, item, None, item.cell_contents)]
    return None


def _global_guards(reader: GlobalReader) -> list[Guard] | None:
    names, name = reader.namespace, reader.name
    if type(names) is not dict:
        return None
    if name in names:
        return [_held(names, name, names[name])]
    known = vars(builtins)
    if name not in known:
        return None
    hidden_by_none = Guard(GuardKind.DICT, names, name, None, is_missing=True)
    return [hidden_by_none, _held(known, name, known[name])]


def log_guards() -> list[Guard] | None:
    """Return the guards that launches are not logged.

    A logger remembers in a dictionary whether it is enabled for a level, and forgets that whenever
    a level changes anywhere.
    """
    known = getattr(logger, "_cache", None)
    if type(known) is not dict or logger.isEnabledFor(logging.DEBUG) or logging.DEBUG not in known:
        return None
    return [_held(known, logging.DEBUG, False)]


def device_guards(device: Device, *, is_named: bool) -> list[Guard] | None:
    """Return guards that a kernel runs on a device, with no choice of a device in the context.

    `is_named` says that an argument lives there. There are none where something else decides, such
    as the CPU that replaces a device.
    """
    if is_named and not device.is_host:
        return []  # what the argument says; nothing stands in for another device there
    choices = vars(placement._choices)
    guards = _unchosen_guards(choices, device, is_named=is_named)
    if guards is None and placement.context_device.get() is device:
        return [_held(choices, "process_wide", _NOBODY)]  # good inside of such a choice alone
    return guards


def _unchosen_guards(
    choices: dict[str, Any], device: Device, *, is_named: bool
) -> list[Guard] | None:
    chosen = choices["process_wide"]
    if isinstance(chosen, placement.FallbackDevice):
        return None
    if is_named:
        # Only a substitute for another device takes precedence over the device of the arguments.
        return [_held(choices, "process_wide", chosen)]
    if chosen is device:
        return [_held(choices, "process_wide", device)]
    if chosen is not None or not device.is_host:
        return None
    environment = _environment_guard()
    if environment is None:
        return None
    guards = [_held(choices, "process_wide", None), environment]
    if environment.is_missing:
        if placement._detected is not device:
            return None
        guards.append(_held(vars(placement), "_detected", device))
    elif placement.current_device() is not device:
        return None
    return guards


def _environment_guard() -> Guard | None:
    """Return the guard that ``KERNELDSL_TARGET`` is what it is."""
    values = stored_variables()
    if values is None:
        return None
    if TARGET_KEY in values:
        return _held(values, TARGET_KEY, values[TARGET_KEY])
    return Guard(GuardKind.DICT, values, TARGET_KEY, None, is_missing=True)
