"""From a launch that Python has made to a table by which native code repeats it.

The dispatcher has just accepted these arguments in this shape, so nothing here is an error: what a
table cannot express gives none, and such launches stay with Python.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from kerneldsl.abi import ParameterLayout
from kerneldsl.errors import KernelError
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind
from kerneldsl.launcher.guards import capture_guards, log_guards, place_guards
from kerneldsl.launcher.table import Guard, LaunchTable, Step, StepKind, make_table
from kerneldsl.runtime.arguments import bind
from kerneldsl.runtime.arrays import OTHER_HOME, READ_ONLY, DeviceArray
from kerneldsl.runtime.binding import kinds_of
from kerneldsl.runtime.dispatch import Dispatcher, LaunchShape
from kerneldsl.runtime.placement import resolve
from kerneldsl.runtime.signature import conform
from kerneldsl.runtime.state import KernelState, Loaded
from kerneldsl.target import LaunchConfig, NativeEntry

__all__ = ["prepare"]

# numpy.ndarray.flags.num (NumPy C API, "Array flags").
_C, _F, _ALIGNED, _WRITEABLE = 0x1, 0x2, 0x100, 0x400
_INT64 = (-(2**63), 2**63 - 1)


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
        return _prepare(dispatcher, shape, args, generation)
    except (KernelError, NameError):  # something has changed since the launch
        return None


def _prepare(
    dispatcher: Dispatcher, shape: LaunchShape, args: tuple[Any, ...], generation: int
) -> LaunchTable | None:
    state = dispatcher.state()
    guards = capture_guards(state.unit.captured)
    always = log_guards()
    if guards is None or always is None or state.overlap_matters:
        return None
    if len(args) != state.parameter_count:
        return None
    binding = bind(state.unit.parameters, args)
    found = kinds_of(binding.codes)
    place = resolve(binding.place)
    if place.asked is not None or binding.streams or binding.keep:
        return None
    if binding.host and not place.is_host:
        return None
    given = binding.codes
    if dispatcher.signature is not None and dispatcher._signature_codes is not None:
        names = state.unit.parameters
        conform(binding, dispatcher.signature, dispatcher._signature_codes, names)
    wanted = kinds_of(binding.codes)
    launchable = find_entry(state, shape, (binding.codes, shape.mode, place, shape.block_dim, False))
    where = place_guards(place, is_named=binding.place is not None)
    if launchable is None or where is None:
        return None
    loaded, entry = launchable
    layout = ParameterLayout(state.unit.parameters, wanted, shape.mode)
    steps = _steps(layout, args, found, wanted, given, state.traits.written)
    if steps is None:
        return None
    return make_table(
        key=(state, given, place),
        generation=generation,
        place=place,
        guards=(*guards, *always),
        place_guards=where,
        steps=steps,
        parameters=_image(layout, shape.extent),
        entry=entry,
        tally=loaded.tally,
        keep=(state, loaded, tuple(step.type for step in steps), _dtypes(args)),
    )


def find_entry(
    state: KernelState, shape: LaunchShape, key: tuple[Any, ...]
) -> tuple[Loaded, NativeEntry] | None:
    """What was loaded for a launch, and how native code starts it."""
    loaded = state.loaded.get(key)
    config: LaunchConfig | None = loaded.configs.get(shape.key) if loaded is not None else None
    if loaded is None or config is None:
        return None
    entry = loaded.executable.native_entry(config)
    return None if entry is None else (loaded, entry)


def _dtypes(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(each.dtype for each in args if isinstance(each, np.ndarray))


def _image(layout: ParameterLayout, extent: tuple[int, ...] | None) -> bytes:
    """The parameter buffer with the extents alone."""
    image = bytearray(layout.nbytes)
    if extent:
        for parameter, value in zip(layout.parameters[-len(extent) :], extent, strict=True):
            struct.pack_into("=q", image, parameter.offset, value)
    return bytes(image)


def _steps(
    layout: ParameterLayout,
    args: tuple[Any, ...],
    found: tuple[Kind, ...],
    wanted: tuple[Kind, ...],
    codes: tuple[int, ...],
    written: frozenset[int],
) -> list[Step] | None:
    steps: list[Step] = []
    first = 0
    for position, value in enumerate(args):
        offset = layout.parameters[first].offset
        pair = found[position], wanted[position]
        is_written = position in written
        if type(value) is DeviceArray:
            step = _device_array_step(value, *pair, offset, codes[position], is_written)
        elif type(value) is np.ndarray:
            step = _ndarray_step(value, *pair, offset, is_written)
        else:
            step = _scalar_step(value, *pair, offset)
        if step is None:
            return None
        steps.append(step)
        first += _flat_count(wanted[position])
    return steps


def _flat_count(kind: Kind) -> int:
    return len(ParameterLayout(("",), (kind,)).parameters)


def _device_array_step(
    value: DeviceArray, found: Kind, wanted: Kind, offset: int, code: int, is_written: bool
) -> Step | None:
    if not isinstance(wanted, ArrayKind):
        return None
    words = 1 + wanted.ndim * (2 if wanted.layout == "A" else 1)
    flags = OTHER_HOME | (READ_ONLY if is_written else 0)
    return Step(StepKind.DEVICE_ARRAY, DeviceArray, offset, code, flags, words)


def _ndarray_step(
    value: np.ndarray[Any, Any], found: Kind, wanted: Kind, offset: int, is_written: bool
) -> Step | None:
    if not (isinstance(found, ArrayKind) and isinstance(wanted, ArrayKind)):
        return None
    looked_at = {"C": _C, "F": _C | _F, "A": _C | _F}[found.layout] | _ALIGNED
    expected = {"C": _C, "F": _F, "A": 0}[found.layout] | _ALIGNED
    if is_written:
        looked_at |= _WRITEABLE
        expected |= _WRITEABLE
    rank = wanted.ndim + (256 if wanted.layout == "A" else 0)
    return Step(
        StepKind.NDARRAY, np.ndarray, offset, id(value.dtype), looked_at, expected, rank
    )


_COPIES = {
    1: StepKind.COPY_1,
    2: StepKind.COPY_2,
    4: StepKind.COPY_4,
    8: StepKind.COPY_8,
    16: StepKind.COPY_16,
}


def _scalar_step(value: Any, found: Kind, wanted: Kind, offset: int) -> Step | None:
    kind = type(value)
    if not (isinstance(found, ScalarKind) and isinstance(wanted, ScalarKind)):
        return None
    dtype = np.dtype(wanted.dtype)
    if kind is int:
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            low, high = max(int(limits.min), _INT64[0]), min(int(limits.max), _INT64[1])
            return Step(StepKind.INT, int, offset, low, high, dtype.itemsize)
        if wanted.dtype == "float32":
            return Step(StepKind.INT_TO_FLOAT32, int, offset)
        if wanted.dtype == "float64":
            return Step(StepKind.INT_TO_FLOAT64, int, offset)
        return None
    if kind is float and wanted.dtype == "float32":
        return Step(StepKind.FLOAT_TO_FLOAT32, float, offset)
    if found != wanted:
        return None
    if kind is bool:
        return Step(StepKind.BOOL, bool, offset)
    if kind in (float, complex) or issubclass(kind, np.generic):
        # NumPy's scalars keep their value where Python's floats do; a subclass may not.
        if kind in (float, complex) or kind is dtype.type or _is_scalar_type(kind, dtype):
            return Step(_COPIES[dtype.itemsize], kind, offset)
    return None


def _is_scalar_type(kind: type, dtype: np.dtype[Any]) -> bool:
    """Whether a class is NumPy's own for a dtype; two C types may have one size."""
    return kind in {np.dtype(char).type for char in "qQlL"} and np.dtype(kind) == dtype


