"""From a launch that Python has made to a table by which native code repeats it.

The dispatcher has just accepted these arguments in this shape, so nothing here is an error: what a
table cannot express gives none, and such launches stay with Python.
"""

from __future__ import annotations

import struct
from itertools import combinations
from typing import Any

from kerneldsl.contract.abi import ParameterLayout
from kerneldsl.errors import KernelError
from kerneldsl.launch.arguments.binding import kinds_of
from kerneldsl.launch.chain_states import chain_state_size
from kerneldsl.launch.dispatch import Dispatcher, Launchable
from kerneldsl.launch.native.conditions import Condition, Distinct, Within, pack_conditions
from kerneldsl.launch.native.guards import capture_guards, device_guards, log_guards
from kerneldsl.launch.native.launch_table import LaunchTable, TableParts, make_table
from kerneldsl.launch.native.layout import UnknownLayout
from kerneldsl.launch.native.promised import conditions_of
from kerneldsl.launch.native.steps import StepMaker
from kerneldsl.launch.shape import LaunchShape

__all__ = ["prepare"]


def prepare(
    dispatcher: Dispatcher, shape: LaunchShape, args: tuple[Any, ...], generation: int
) -> LaunchTable | None:
    """Make the table of a launch that has been made.

    The table is good in a generation. There is none where launches like this one stay with Python.
    """
    if shape.stream is not None or dispatcher.is_debug:
        return None
    try:
        launchable = dispatcher.find(shape, args)
        return None if launchable is None else _prepare(launchable, shape, args, generation)
    # Something has changed since the launch; or an entry is not made for native code.
    except (KernelError, NameError, UnknownLayout):
        return None


def _prepare(
    launchable: Launchable, shape: LaunchShape, args: tuple[Any, ...], generation: int
) -> LaunchTable | None:
    request, loaded = launchable.request, launchable.loaded
    state, binding, device = request.state, request.binding, request.device
    if launchable.config.cluster_dim is not None or launchable.config.is_cooperative:
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
    # What else is kept or has a stream is an argument that no step stands for.
    if steps is None or len(binding.keep) != maker.foreign_count:
        return None
    conditions = _conditions(launchable, layout, shape.extent or ())
    entry = loaded.executable.native_entry(launchable.config)
    if conditions is None or entry is None:
        return None
    types = tuple(step.type for step in steps)
    has_streams = not device.is_synchronous
    parts = TableParts(
        key=(state, binding.given, device, loaded, request.promises, types),
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
        counter=loaded.counter,
        keep=(state, loaded, maker),
    )
    return make_table(parts)


def _conditions(
    launchable: Launchable, layout: ParameterLayout, extent: tuple[int, ...]
) -> list[Condition] | None:
    """Return what the choice of the code depended on; ``None`` where that cannot be said."""
    state, found = launchable.request.state, launchable.request.promises
    compiled = launchable.loaded.executable.artifact.specialization.promises
    if launchable.request.is_overlapping or (found.arrays and not found.is_disjoint):
        return None  # arguments that do not overlap would get better code
    written, arrays = state.traits.written, layout.arrays
    conditions = conditions_of(compiled, found, arrays, layout.integers, extent, written)
    if state.traits.chain_states:
        least = chain_state_size(launchable.config)
        conditions += [
            Within(array.extents.start, low=least, is_of_array=True)
            for array in arrays
            if array.position in state.traits.chain_states
        ]
    if state.overlap_matters:
        conditions += [
            Distinct(first, second)
            for first, second in combinations(arrays, 2)
            if first.position in written or second.position in written
        ]
    return conditions


def _image(layout: ParameterLayout, extent: tuple[int, ...] | None) -> bytes:
    """Return the parameter buffer with the extents alone."""
    image = bytearray(layout.nbytes)
    if extent:
        for parameter, value in zip(layout.parameters[-len(extent) :], extent, strict=True):
            struct.pack_into("=q", image, parameter.offset, value)
    return bytes(image)
