"""Steps by which native code reads arguments: one for each kind, with its words in the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from enum import IntEnum
from typing import ClassVar, Self

from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "BLOCK_FLAGS",
    "BLOCK_HEAD",
    "STEP_WORDS",
    "ArgumentStep",
    "AttributesStep",
    "DescribedStep",
    "DeviceArrayStep",
    "IntegerStep",
    "NumpyStep",
    "ScalarStep",
    "StepKind",
    "TupleStep",
]


class StepKind(IntEnum):
    """Way to read an argument."""

    COPY_1 = 0
    COPY_2 = 1
    COPY_4 = 2
    COPY_8 = 3
    COPY_16 = 4
    BOOL = 5
    INT = 6
    INT_TO_FLOAT32 = 7
    INT_TO_FLOAT64 = 8
    FLOAT_TO_FLOAT32 = 9
    DEVICE_ARRAY = 10
    NDARRAY = 11
    DESCRIBED = 12
    ATTRIBUTES = 13
    TUPLE = 14


#: Kind, type, offset, and up to five numbers that depend on the kind.
STEP_WORDS = 8
#: Offsets in a device array's block of its flags and of the passed words, in bytes.
BLOCK_FLAGS, BLOCK_HEAD = 16, 24
#: The address of no object.
_NO_BLOCK = 1


@dataclass(frozen=True, slots=True)
class ArgumentStep:
    """One argument."""

    #: The exact type of the argument.
    type: type
    #: Offset of its first parameter, in bytes from the start of the buffer.
    offset: int

    kind: ClassVar[StepKind]

    def moved(self, nbytes: int) -> Self:
        """Return the step with its parameters so many bytes further on."""
        return replace(self, offset=self.offset + nbytes)

    def fill_in(self, buffer: bytearray) -> None:
        """Write what is known before the argument is."""

    def words(self, put: Callable[[Sequence[ArgumentStep]], int]) -> tuple[int, ...]:
        """Return the step as native code reads it; `put` writes down steps, and says where."""
        found = (self.kind, id(self.type), self.offset, *self._numbers(put))
        return (*found, *(0,) * (STEP_WORDS - len(found)))

    def _numbers(self, put: Callable[[Sequence[ArgumentStep]], int]) -> tuple[int, ...]:
        """Return what depends on the kind: here the fields that it adds, in their order."""
        return tuple(getattr(self, each.name) for each in fields(self)[2:])


@dataclass(frozen=True, slots=True)
class ScalarStep(ArgumentStep):
    """A number that is copied, or converted to another type, whatever it is."""

    #: The conversion.
    kind: StepKind  # type: ignore[misc]  # of others it belongs to the class

    def _numbers(self, put: Callable[[Sequence[ArgumentStep]], int]) -> tuple[int, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class IntegerStep(ArgumentStep):
    """An int of Python that is passed as an integer."""

    #: The smallest and the largest value.
    low: int
    high: int
    #: Bytes of the parameter.
    nbytes: int

    kind = StepKind.INT


@dataclass(frozen=True, slots=True)
class DeviceArrayStep(ArgumentStep):
    """A device array, by its block."""

    #: Code of the array's kind.
    code: int
    #: Flags that must not be set.
    refused: int
    #: Words to copy.
    word_count: int
    #: The block of an array that fulfils all conditions. If an argument has that very block again,
    #: the buffer already contains what it passes.
    block: bytes | None

    kind = StepKind.DEVICE_ARRAY

    def fill_in(self, buffer: bytearray) -> None:
        """Write what the array of the block passes."""
        if self.block is not None:
            passed = self.block[BLOCK_HEAD : BLOCK_HEAD + 8 * self.word_count]
            buffer[self.offset : self.offset + len(passed)] = passed

    def _numbers(self, put: Callable[[Sequence[ArgumentStep]], int]) -> tuple[int, ...]:
        block = _NO_BLOCK if self.block is None else id(self.block)
        return self.code, self.refused, self.word_count, block


@dataclass(frozen=True, slots=True)
class NumpyStep(ArgumentStep):
    """A NumPy array."""

    #: Address of the dtype.
    dtype: int
    #: Mask of the checked flags, and their required values.
    flags_looked_at: int
    flags: int
    #: Rank of the array, with 256 added if strides are passed.
    rank: int

    kind = StepKind.NDARRAY


@dataclass(frozen=True, slots=True)
class DescribedStep(ArgumentStep):
    """A tensor that a C function describes (:mod:`~kerneldsl.launch.native.exchange`)."""

    #: Address of that function.
    describe: int
    #: Index of the device of the tensor.
    device: int
    #: Rank and dtype.
    dtype: int
    #: Code of the required layout. The second byte has the bytes of an element. The bytes above it
    #: are a mask of the bits of an address that must be 0.
    layout: int
    #: Address of the further checks.
    checks: int

    kind = StepKind.DESCRIBED


@dataclass(frozen=True, slots=True)
class AttributesStep(ArgumentStep):
    """An array that is read by attributes (:mod:`~kerneldsl.launch.native.steps`)."""

    #: Address of the dtype.
    dtype: int
    #: Index of the device.
    device: int
    #: Rank.
    ndim: int
    #: Code of the required layout, as in a `DescribedStep`.
    layout: int
    #: Address of the attributes' names.
    names: int

    kind = StepKind.ATTRIBUTES


@dataclass(frozen=True, slots=True)
class TupleStep(ArgumentStep):
    """A tuple of arguments."""

    #: Steps of the elements.
    elements: tuple[ArgumentStep, ...]

    kind = StepKind.TUPLE

    def moved(self, nbytes: int) -> Self:
        """Return the step with the parameters of all elements so many bytes further on."""
        elements = tuple(element.moved(nbytes) for element in self.elements)
        return replace(self, offset=self.offset + nbytes, elements=elements)

    def fill_in(self, buffer: bytearray) -> None:
        """Write what is known of the elements."""
        for element in self.elements:
            element.fill_in(buffer)

    def _numbers(self, put: Callable[[Sequence[ArgumentStep]], int]) -> tuple[int, ...]:
        return put(self.elements), len(self.elements)
