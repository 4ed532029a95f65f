"""Steps by which native code reads arguments like the ones that Python has accepted."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Collection
from dataclasses import field
from enum import IntEnum
from typing import Any

import numpy as np

from kerneldsl.contract import Device
from kerneldsl.contract.abi import ParameterLayout, parameter_count
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind, TupleKind
from kerneldsl.launch.arguments.binding import code_of
from kerneldsl.launch.native.conditions import rank_word
from kerneldsl.launch.native.exchange import (
    Exchange,
    LayoutCode,
    device_word,
    dtype_word,
    exchange_of,
)
from kerneldsl.launch.native.layout import WRITEABLE
from kerneldsl.launch.native.step_kinds import (
    ArgumentStep,
    AttributesStep,
    DescribedStep,
    DeviceArrayStep,
    IntegerStep,
    NumpyStep,
    ScalarStep,
    StepKind,
    TupleStep,
)
from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.geometry import OTHER_HOME, READ_ONLY
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Attribute", "StepMaker", "attribute_names_of"]

# numpy.ndarray.flags.num (NumPy C API, "Array flags").
_C, _F, _ALIGNED = 0x1, 0x2, 0x100
_INT64 = (-(2**63), 2**63 - 1)
_COPIES = {
    1: StepKind.COPY_1,
    2: StepKind.COPY_2,
    4: StepKind.COPY_4,
    8: StepKind.COPY_8,
    16: StepKind.COPY_16,
}


class StepMaker:
    """Makes the steps of a launch, argument by argument."""

    def __init__(self, layout: ParameterLayout, device: Device) -> None:
        self._parameters = layout.parameters
        self._device = device
        self._next = 0
        #: Arguments that are other libraries' arrays.
        self.foreign_count = 0
        self.exchanges: list[Exchange] = []
        #: Attributes by which foreign arrays are read.
        self.attribute_names: list[_AttributeNames] = []
        #: Data types that steps refer to by address.
        self.dtypes: list[np.dtype[Any]] = []

    def steps(
        self,
        args: tuple[Any, ...],
        found: tuple[Kind, ...],
        wanted: tuple[Kind, ...],
        written: Collection[int],
    ) -> list[ArgumentStep] | None:
        """Return the steps for arguments, or ``None`` where one is read by Python alone.

        `found` and `wanted` are what the arguments are, and what the kernel takes; `written` holds
        the positions of those that it may write.
        """
        steps = []
        for position, value in enumerate(args):
            step = self._step(value, found[position], wanted[position], position in written)
            if step is None:
                return None
            steps.append(step)
        return steps

    def _step(self, value: Any, found: Kind, wanted: Kind, is_written: bool) -> ArgumentStep | None:
        first = self._next
        # A named tuple has the layout of a tuple.
        if isinstance(found, TupleKind) and isinstance(wanted, TupleKind):
            everything = range(len(value)) if is_written else ()
            elements = self.steps(value, found.elements, wanted.elements, everything)
            offset = self._parameters[first].offset if self._next > first else 0
            return None if elements is None else TupleStep(type(value), offset, tuple(elements))
        self._next += parameter_count(wanted)
        offset = self._parameters[first].offset
        if isinstance(found, ScalarKind) and isinstance(wanted, ScalarKind):
            return _scalar_step(value, found, wanted, offset)
        if not (isinstance(found, ArrayKind) and isinstance(wanted, ArrayKind)):
            return None
        if isinstance(value, DeviceArray):
            return self._device_array_step(value, found, wanted, offset, is_written)
        if type(value) is np.ndarray:
            self.dtypes.append(value.dtype)
            return _ndarray_step(value, found, wanted, offset, is_written)
        return self._foreign_step(value, found, wanted, offset)

    def _device_array_step(
        self, value: DeviceArray, found: ArrayKind, wanted: ArrayKind, offset: int, is_written: bool
    ) -> ArgumentStep:
        words = parameter_count(wanted)
        code, refused = code_of(found), OTHER_HOME | (READ_ONLY if is_written else 0)
        block = value._block
        if block is not None:
            device, own_code, flags = struct.unpack_from("=qqq", block)
            if device != id(self._device) or own_code != code or flags & refused:
                block = None
        return DeviceArrayStep(type(value), offset, code, refused, words, block)

    def _foreign_step(
        self, value: Any, found: ArrayKind, wanted: ArrayKind, offset: int
    ) -> ArgumentStep | None:
        """Return the step of an array of torch or CuPy."""
        device = device_word(self._device)
        if device is None or found.layout != wanted.layout:
            return None
        self.foreign_count += 1
        kind = type(value)
        element = found.element
        layout = LayoutCode[found.layout] | element.nbytes << 8 | (element.alignment - 1) << 16
        exchange = exchange_of(kind, found)
        if exchange is not None:
            self.exchanges.append(exchange)
            dtype, checks = dtype_word(found), exchange.checks
            return DescribedStep(kind, offset, exchange.describe, device, dtype, layout, checks)
        names = attribute_names_of(kind)
        if names is None:
            return None
        self.attribute_names.append(names)
        self.dtypes.append(value.dtype)
        dtype, index = id(value.dtype), self._device.index
        return AttributesStep(kind, offset, dtype, index, found.ndim, layout, names.names)


def _ndarray_step(
    value: np.ndarray[Any, Any],
    found: ArrayKind,
    wanted: ArrayKind,
    offset: int,
    is_written: bool,
) -> ArgumentStep:
    looked_at = {"C": _C, "F": _C | _F, "A": _C | _F}[found.layout] | _ALIGNED
    expected = {"C": _C, "F": _F, "A": 0}[found.layout] | _ALIGNED
    if is_written:
        looked_at |= WRITEABLE
        expected |= WRITEABLE
    rank = rank_word(wanted)
    return NumpyStep(np.ndarray, offset, id(value.dtype), looked_at, expected, rank)


def _scalar_step(
    value: Any, found: ScalarKind, wanted: ScalarKind, offset: int
) -> ArgumentStep | None:
    kind = type(value)
    element = wanted.element
    if kind is int:
        if element.is_integer:
            low, high = element.integer_range
            low, high = max(low, _INT64[0]), min(high, _INT64[1])
            return IntegerStep(int, offset, low, high, element.nbytes)
        if wanted.dtype == "float32":
            return ScalarStep(int, offset, StepKind.INT_TO_FLOAT32)
        if wanted.dtype == "float64":
            return ScalarStep(int, offset, StepKind.INT_TO_FLOAT64)
        return None
    if kind is float and wanted.dtype == "float32":
        return ScalarStep(float, offset, StepKind.FLOAT_TO_FLOAT32)
    if found != wanted:
        return None
    if kind is bool:
        return ScalarStep(bool, offset, StepKind.BOOL)
    if kind in (float, complex) or (issubclass(kind, np.generic) and element.is_number):
        # NumPy's scalars keep their value where Python's floats do; a subclass may not.
        return ScalarStep(kind, offset, _COPIES[element.nbytes])
    return None


# Arrays of CuPy, read by the attributes that CuPy documents.
#
# CuPy publishes no C functions. Its attributes are C members that are read by Python's protocol. In
# native code this takes a few hundred nanoseconds for an array: less than making an object of
# kerneldsl, and more than a tensor's description.
#
# See CuPy, ``cupy.ndarray``, ``cupy.cuda.MemoryPointer`` and ``cupy.cuda.get_current_stream``.


class Attribute(IntEnum):
    """Index of a name in the table of names, in words."""

    DATA = 0
    PTR = 1
    DEVICE_ID = 2
    DTYPE = 3
    SHAPE = 4
    STRIDES = 5


@dataclass(frozen=True)
class _AttributeNames:
    """Attributes by which arrays of one class are read."""

    #: Address of the names.
    names: int
    #: Returns the current stream; its ``ptr`` is the handle.
    current_stream: Any
    #: Owners of the memory at these addresses.
    keep: tuple[Any, ...] = field(repr=False)


def attribute_names_of(kind: type) -> _AttributeNames | None:
    """Return the attributes of objects of exactly this class; ``None`` if it is not CuPy's."""
    cupy = sys.modules.get("cupy")
    if cupy is None or kind is not getattr(cupy, "ndarray", None):
        return None
    names = [sys.intern(each.name.lower()) for each in Attribute]
    words = (ctypes.c_int64 * len(names))(*map(id, names))
    get_stream = cupy.cuda.get_current_stream
    return _AttributeNames(ctypes.addressof(words), get_stream, (kind, words, names, get_stream))
