"""Numba's values of an entry's parameters, with the promises about them.

A promise becomes something that LLVM cannot lose: an attribute of a pointer, a mask for the bits of
a length that are known to be zero, or one value instead of two equal ones. Otherwise it becomes an
assumption.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import count, islice
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.contract import ArrayPromises, Specialization
from kerneldsl.contract.abi import ParameterLayout, parameter_count
from kerneldsl.contract.tensor_maps import TENSOR_MAP_BYTES
from kerneldsl.language.intrinsics.intrinsic import Effect
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind, array_kinds
from kerneldsl.language.reserved import RESERVED_PREFIX
from kerneldsl.lowering.numba_internals.arrays import array_value
from kerneldsl.lowering.numba_internals.llvm import assume_aligned, assumption, mark_only_read
from kerneldsl.lowering.records import record_value
from kerneldsl.lowering.types import element_type
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.compile.pipeline import Pipeline, Stage

__all__ = ["ParameterReader", "assume", "natural_alignment", "parameter_types"]

_i64 = ir.IntType(64)
_GLOBAL_SPACE = 1
_BELOW_2_31 = 2**31 - 1


def assume(builder: ir.IRBuilder, condition: ir.Value) -> None:
    """Let LLVM count on a condition."""
    builder.call(assumption(builder), [condition])


def parameter_types(context: Any, layout: ParameterLayout) -> Iterator[ir.Type]:
    """Return LLVM types of an entry's parameters."""
    elements = {array.pointer: array.kind.dtype for array in layout.arrays}
    for number, parameter in enumerate(layout.parameters):
        if parameter.dtype == "pointer":
            # The fault record's pointer is the only one that is no array's.
            element = _data_type(context, elements.get(number, "uint8"))
            yield element.as_pointer(_GLOBAL_SPACE)
        else:
            yield _data_type(context, parameter.dtype)


@cache
def natural_alignment(context: Any, element: ir.Type) -> int:
    """Return the alignment of an element in bytes. Numba has LLVM read a module to find it."""
    return int(context.get_abi_alignment(element))


#: A tensor map: one copy for all threads.
TENSOR_MAP = ir.ArrayType(ir.IntType(8), TENSOR_MAP_BYTES)


def mark_tensor_maps(arguments: Sequence[ir.Argument]) -> list[ir.Value]:
    """Say of parameters that they are tensor maps in place of addresses; return addresses of them.

    :func:`targets.cuda.compile.ptx.link` says that the kernel only reads them.
    """
    for number, argument in enumerate(arguments):
        argument.name = f"{RESERVED_PREFIX}map{number}"
        argument.attributes.add("byval")
        argument.attributes.align = TENSOR_MAP_BYTES
    return list(arguments)


def _data_type(context: Any, dtype: str) -> ir.Type:
    return context.get_data_type(element_type(dtype))


def _only_read(specialization: Specialization) -> frozenset[int]:
    """Return the numbers of arrays with pointers that are only read."""
    positions = [
        position for position, kind in enumerate(specialization.kinds) for _ in array_kinds((kind,))
    ]
    written = set()
    for number, position in enumerate(positions):
        if position in specialization.traits.written:
            same = specialization.promises.array(number).same_as
            written.add(number if same is None else same)
    return frozenset(range(len(positions))) - written


def _sees_others(specialization: Specialization) -> bool:
    """Return whether a thread may see what others write while it runs.

    It does after barriers, fences and atomic operations. In between, LLVM assumes that memory with
    one pointer alone is unchanged, since calls that do not get the pointer cannot write it.
    """
    meeting = Effect.BARRIER | Effect.FENCE | Effect.ATOMIC
    uses = specialization.unit.all_uses()
    return any(use.intrinsic.effect & meeting for use in uses)


class ParameterReader:
    """Reads the parameters of an entry one after the other."""

    def __init__(
        self,
        context: Any,
        builder: ir.IRBuilder,
        specialization: Specialization,
        pipeline: Pipeline,
        parameters: Sequence[ir.Argument],
    ) -> None:
        self._context = context
        self._builder = builder
        self._promises = specialization.promises
        #: Numbers of the arrays that have the lengths of the extent.
        self._are_extent = pipeline.run(Stage.PARAMETERS, frozenset[int](), self._promises)
        self._is_wide = specialization.traits.views_vectors
        self._numbers = count()
        #: Numbers of the arrays that are only read, by that name or another.
        self._only_read = _only_read(specialization)
        self._sees_others = _sees_others(specialization)
        #: Each array so far.
        self._arrays: list[_Array] = []
        arguments = list(parameters)
        #: Debug mode: where the fault record is.
        self.fault = arguments.pop() if specialization.options.debug else None
        ndim = specialization.mode.forall_ndim or 0
        at = len(arguments) - ndim
        self._parameters = iter(arguments[:at])
        #: The extent of ``forall``, with the facts about it.
        self.extent = [self._length(each) for each in arguments[at:]]
        for number, kind in enumerate(array_kinds(specialization.kinds)):
            if number in self._are_extent and kind.ndim == ndim:
                self.extent = self._shape(kind, self.extent, self._promises.array(number))

    def value(self, kind: Kind, numba_type: Any) -> ir.Value:
        """Return Numba's value of the next argument."""
        context, builder = self._context, self._builder
        if isinstance(kind, ArrayKind):
            array = self._next_array(kind)
            data = builder.addrspacecast(array.pointer, array.pointer.type.pointee.as_pointer())
            if array.alignment > 1:
                self._assume_aligned(data, array.alignment)
            return array_value(
                context, builder, numba_type, data, array.shape, strides=array.strides
            )
        if isinstance(kind, ScalarKind):
            if isinstance(numba_type, types.Complex):
                number = context.make_complex(builder, numba_type)
                number.real, number.imag = next(self._parameters), next(self._parameters)
                return number._getvalue()
            if isinstance(numba_type, types.Record):
                words = list(islice(self._parameters, parameter_count(kind)))
                return record_value(context, builder, numba_type, words)
            number = context.get_data_as_value(builder, numba_type, next(self._parameters))
            if kind.dtype == "int64" and self._promises.has_narrow_integers:
                return self._narrow(number)
            return number
        members = [
            self.value(element, element_type)
            for element, element_type in zip(kind.elements, numba_type.types, strict=True)
        ]
        return context.make_tuple(builder, numba_type, members)

    def _assume_aligned(self, data: ir.Value, alignment: int) -> None:
        """Let LLVM count on the alignment of an array, also where vectors of it are read.

        It drops an assumption about an address alone when it moves the address to a branch, such as
        after the test of an index. It keeps an assumption about a comparison.
        """
        builder = self._builder
        if not self._is_wide:
            assume_aligned(builder, data, alignment)
            return
        low = builder.and_(builder.ptrtoint(data, _i64), _i64(alignment - 1))
        assume(builder, builder.icmp_unsigned("==", low, _i64(0)))

    def array(self, kind: ArrayKind) -> _Array:
        """Return the parts of the next argument, an array."""
        array = self._next_array(kind)
        if self._is_wide:
            # LLVM follows alignment through generic addresses, which views are made of.
            data = self._builder.addrspacecast(
                array.pointer, array.pointer.type.pointee.as_pointer()
            )
            if array.alignment > 1:
                self._assume_aligned(data, array.alignment)
            return replace(array, pointer=data)
        return array

    def _next_array(self, kind: ArrayKind) -> _Array:
        number = next(self._numbers)
        promises = self._promises.array(number)
        pointer, *rest = islice(self._parameters, parameter_count(kind))
        shape, strides = rest[: kind.ndim], rest[kind.ndim :] or None
        if promises.same_as is not None:
            array = self._arrays[promises.same_as]
        else:
            self._mark_pointer(pointer, number)
            lengths = [self._length(each) for each in shape]
            if number in self._are_extent:
                lengths[: len(self.extent)] = self.extent
            shape = self._shape(kind, lengths, promises)
            if strides is not None:
                strides = self._strides(kind, strides, promises)
            array = _Array(pointer, shape, strides, promises.alignment)
        self._arrays.append(array)
        return array

    def _mark_pointer(self, pointer: ir.Argument, number: int) -> None:
        promises = self._promises.array(number)
        natural = natural_alignment(self._context, pointer.type.pointee)
        pointer.attributes.align = max(natural, promises.alignment)
        is_only_read = number in self._only_read
        if self._promises.is_disjoint and (is_only_read or not self._sees_others):
            pointer.attributes.add("noalias")
            if is_only_read:
                # LLVM finds it for itself, except for a pointer with an address that is used.
                mark_only_read(pointer)

    def _shape(
        self, kind: ArrayKind, shape: Sequence[ir.Value], promises: ArrayPromises
    ) -> list[ir.Value]:
        """Return a shape with rows of the promised length."""
        known = list(shape)
        if kind.ndim > 1 and kind.layout != "A":
            # Rows follow each other without gaps, so that the distance of two is their length.
            axis = 0 if kind.layout == "F" else kind.ndim - 1
            multiple = max(1, promises.alignment // self._itemsize(kind))
            known[axis] = _multiple(self._builder, known[axis], multiple)
        return known

    def _strides(
        self, kind: ArrayKind, strides: Sequence[ir.Value], promises: ArrayPromises
    ) -> list[ir.Value]:
        return [
            _i64(self._itemsize(kind))
            if axis == promises.unit_axis
            else _multiple(self._builder, stride, promises.alignment)
            for axis, stride in enumerate(strides)
        ]

    def _length(self, parameter: ir.Value) -> ir.Value:
        """Return a length, cut to 31 bits if it is known to fit them."""
        if not self._promises.is_narrow:
            return parameter
        return self._narrow(parameter)

    def _narrow(self, integer: ir.Value) -> ir.Value:
        return self._builder.and_(integer, _i64(_BELOW_2_31))

    def _itemsize(self, kind: ArrayKind) -> int:
        return kind.element.nbytes


@dataclass(frozen=True)
class _Array:
    """One array's values; no strides if they follow from the shape."""

    pointer: ir.Value
    shape: list[ir.Value]
    strides: list[ir.Value] | None
    #: Promised alignment of the address, in bytes.
    alignment: int


def _multiple(builder: ir.IRBuilder, value: ir.Value, factor: int) -> ir.Value:
    """Return a multiple of a power of two, with low bits that LLVM sees to be zero."""
    return value if factor == 1 else builder.and_(value, _i64(-factor))
