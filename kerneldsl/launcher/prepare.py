"""From a launch that Python has made to a table by which native code repeats it.

The dispatcher has just accepted these arguments in this shape, so nothing here is an error: what a
table cannot express gives none, and such launches stay with Python.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from kerneldsl.abi import ParameterLayout
from kerneldsl.errors import KernelError
from kerneldsl.language.kinds import ArrayKind, Kind, TupleKind
from kerneldsl.launcher.conditions import ArrayAt, Condition, Distinct, pack_conditions
from kerneldsl.launcher.guards import capture_guards, log_guards, place_guards
from kerneldsl.launcher.steps import StepMaker
from kerneldsl.launcher.table import LaunchTable, make_table
from kerneldsl.runtime.binding import flat_count, kinds_of
from kerneldsl.runtime.dispatch import Dispatcher, Launchable, LaunchShape

__all__ = ["prepare"]


def prepare(
    dispatcher: Dispatcher, shape: LaunchShape, args: tuple[Any, ...], generation: int
) -> LaunchTable | None:
    """Make the table of a launch that has been made.

    Parameters
    ----------
    dispatcher : Dispatcher
        Of the kernel.
    shape : LaunchShape
        In which shape it was launched.
    args : tuple
        With which arguments.
    generation : int
        In which the table shall be good.

    Returns
    -------
    LaunchTable or None
        ``None`` where launches like this one stay with Python.
    """
    if shape.stream is not None or dispatcher.options.debug:
        return None
    try:
        launchable = dispatcher.find(shape, args)
        return None if launchable is None else _prepare(launchable, shape, args, generation)
    except (KernelError, NameError):  # something has changed since the launch
        return None


def _prepare(
    launchable: Launchable, shape: LaunchShape, args: tuple[Any, ...], generation: int
) -> LaunchTable | None:
    state, binding, place = launchable.state, launchable.binding, launchable.place
    if place.asked is not None or (binding.host and not place.is_host):
        return None
    guards = capture_guards(state.unit.captured)
    always = log_guards()
    where = place_guards(place, is_named=binding.place is not None)
    if guards is None or always is None or where is None:
        return None
    wanted = kinds_of(binding.codes)
    layout = ParameterLayout(state.unit.parameters, wanted, shape.mode)
    written = state.traits.written
    maker = StepMaker(layout, place)
    steps = maker.steps(args, kinds_of(launchable.given), wanted, written)
    # What else is kept or has a stream is an argument that no step stands for.
    if steps is None or len(binding.keep) != len(maker.exchanges):
        return None
    conditions = _conditions(launchable, wanted, written)
    entry = launchable.loaded.executable.native_entry(launchable.config)
    if conditions is None or entry is None:
        return None
    has_streams = bool(maker.exchanges) and not place.is_host
    return make_table(
        key=(state, launchable.given, place, launchable.loaded, tuple(step.type for step in steps)),
        generation=generation,
        place=place,
        guards=(*guards, *always),
        place_guards=where,
        steps=steps,
        conditions=pack_conditions(conditions, layout),
        parameters=_image(layout, shape.extent),
        current_stream=maker.exchanges[0].current_stream if has_streams else 0,
        entry=entry,
        tally=launchable.loaded.tally,
        keep=(state, launchable.loaded, maker.exchanges, maker.dtypes),
    )


def _conditions(
    launchable: Launchable, kinds: tuple[Kind, ...], written: Collection[int]
) -> list[Condition] | None:
    """What the choice of the code depended on; ``None`` where that cannot be said."""
    if not launchable.state.overlap_matters:
        return []
    if launchable.is_overlapping:
        return None
    arrays = list(_arrays(kinds))
    return [
        Distinct(first, second)
        for i, (position, second) in enumerate(arrays)
        for other, first in arrays[:i]
        if position in written or other in written
    ]


def _arrays(kinds: tuple[Kind, ...]) -> Iterator[tuple[int, ArrayAt]]:
    """Every array with the position of its argument."""
    parameter = 0
    for position, kind in enumerate(kinds):
        for leaf in _leaves(kind):
            if isinstance(leaf, ArrayKind):
                item_bytes = np.dtype(leaf.dtype).itemsize
                yield position, ArrayAt(parameter, leaf.ndim, item_bytes, leaf.layout == "A")
            parameter += flat_count(leaf)


def _leaves(kind: Kind) -> Iterator[Kind]:
    if isinstance(kind, TupleKind):
        for element in kind.elements:
            yield from _leaves(element)
    else:
        yield kind


def _image(layout: ParameterLayout, extent: tuple[int, ...] | None) -> bytes:
    """The parameter buffer with the extents alone."""
    image = bytearray(layout.nbytes)
    if extent:
        for parameter, value in zip(layout.parameters[-len(extent) :], extent, strict=True):
            struct.pack_into("=q", image, parameter.offset, value)
    return bytes(image)
