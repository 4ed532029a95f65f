"""Arrays in code from the region IR: an address, extents, and strides unless it is contiguous.

LLVM has no structures to split then. Numba's structure of seven fields is made only for an
implementation of Numba's or an emitter that takes one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from kerneldsl.lowering.numba_internals.arrays import array_value, contiguous_strides, index_array
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["ArrayParts", "generic"]

_I8, _I64 = ir.IntType(8), ir.IntType(64)


@dataclass
class ArrayParts:
    """An array. Without strides it has no gaps, in the order that its type says."""

    #: Address of the first element, in any address space.
    data: ir.Value
    shape: list[ir.Value]
    #: Numba's type.
    kind: Any
    #: Bytes from an element to the next along each axis.
    strides: list[ir.Value] | None = None

    @classmethod
    def of_structure(
        cls, context: Any, builder: ir.IRBuilder, kind: Any, value: ir.Value
    ) -> ArrayParts:
        model = context.data_model_manager[kind]

        def field(name: str) -> ir.Value:
            return builder.extract_value(value, model.get_field_position(name))

        def each(name: str) -> list[ir.Value]:
            packed = field(name)
            return [builder.extract_value(packed, axis) for axis in range(kind.ndim)]

        strides = each("strides") if kind.layout == "A" else None
        return cls(field("data"), each("shape"), kind, strides)

    def structure(self, context: Any, builder: ir.IRBuilder) -> ir.Value:
        return array_value(
            context,
            builder,
            self.kind,
            generic(builder, self.data),
            self.shape,
            strides=self.byte_strides(context, builder),
        )

    def as_kind(self, context: Any, builder: ir.IRBuilder, kind: Any) -> ArrayParts:
        """Return it as an array of another type of the same elements."""
        strides = self.strides
        if self.kind.layout == "F" and kind.layout != "F":
            strides = self.byte_strides(context, builder)
        return ArrayParts(self.data, self.shape, kind, strides)

    def byte_strides(self, context: Any, builder: ir.IRBuilder) -> list[ir.Value]:
        """Return its strides, computed if it has no gaps."""
        if self.strides is not None:
            return self.strides
        itemsize = _I64(context.get_abi_sizeof(context.get_data_type(self.kind.dtype)))
        return contiguous_strides(builder, self.shape, itemsize, self.kind.layout)

    def element(self, builder: ir.IRBuilder, indices: Sequence[ir.Value]) -> ir.Value:
        """Return the address of an element, or of the first one of a part.

        There is an index for each axis, or for the first ones. None of them is negative.
        """
        if self.strides is not None:
            return self._at_bytes(builder, indices)
        if self.kind.layout == "F":
            pairs = list(zip(indices, self.shape, strict=False))[::-1]
        else:
            rest = [_I64(0)] * (len(self.shape) - len(indices))
            pairs = list(zip([*indices, *rest], self.shape, strict=True))
        if not pairs:
            return self.data
        (index, _), *others = pairs
        for each, extent in others:
            scaled = builder.mul(index, extent)
            is_zero = isinstance(each, ir.Constant) and each.constant == 0
            index = scaled if is_zero else builder.add(scaled, each)
        return builder.gep(self.data, [index])

    def _at_bytes(self, builder: ir.IRBuilder, indices: Sequence[ir.Value]) -> ir.Value:
        assert self.strides is not None
        offset = None
        for index, stride in zip(indices, self.strides, strict=False):
            each = builder.mul(index, stride)
            offset = each if offset is None else builder.add(offset, each)
        if offset is None:
            return self.data
        memory = builder.bitcast(self.data, ir.PointerType(_I8, self.data.type.addrspace))
        return builder.bitcast(builder.gep(memory, [offset]), self.data.type)

    def part(
        self, context: Any, builder: ir.IRBuilder, indices: Sequence[ir.Value], kind: Any
    ) -> ArrayParts:
        """Return what the first indices select: an array of the other axes."""
        data, count = self.element(builder, indices), len(indices)
        strides = None
        if kind.layout != "C" or self.strides is not None:
            strides = self.byte_strides(context, builder)[count:]
        return ArrayParts(data, self.shape[count:], kind, strides)

    def transposed(self, context: Any, builder: ir.IRBuilder, kind: Any) -> ArrayParts:
        """Return it with its axes in reverse order."""
        strides = self.strides
        if strides is None and kind.layout == "A":
            strides = self.byte_strides(context, builder)
        return ArrayParts(self.data, self.shape[::-1], kind, strides and strides[::-1])

    def view(
        self,
        context: Any,
        builder: ir.IRBuilder,
        kinds: Sequence[Any],
        values: Sequence[ir.Value],
        kind: Any,
    ) -> ArrayParts:
        """Return what an index with slices selects."""
        strides = self.byte_strides(context, builder)
        # Numba computes with bytes if there are gaps, by pointers of the generic address space.
        data = generic(builder, self.data) if self.kind.layout == "A" else self.data
        data, shape, strides = index_array(
            context, builder, self.kind, (data, self.shape, strides), kinds, values
        )
        return ArrayParts(data, shape, kind, strides if kind.layout == "A" else None)


def generic(builder: ir.IRBuilder, data: ir.Value) -> ir.Value:
    """Return an address of any address space as a generic one."""
    if not data.type.addrspace:
        return data
    return builder.addrspacecast(data, data.type.pointee.as_pointer())
