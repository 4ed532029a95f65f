"""Products of tiles, by register kernels: each element adds its products along k, in rising order.

Factors are converted to what the processor multiplies. The first one is read row by row, the second
one in panels. A panel of a tile stays in the innermost cache while all rows are multiplied by it.

A register kernel has all sums of a few rows in vectors while it goes along k. In each step it loads
a row of the panel, and multiplies it by an element of each row of the other factor.

References
----------
K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM Transactions
on Mathematical Software 34 (2008); F. Van Zee and R. van de Geijn, "BLIS: A Framework for Rapidly
Instantiating BLAS Functionality", ACM Transactions on Mathematical Software 41 (2015).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kerneldsl.ir.operations import Operation
from kerneldsl.lowering.loop_marks import repeat
from kerneldsl.lowering.numba_internals.llvm import BFLOAT
from kerneldsl.lowering.types import element_type
from targets.cpu.codegen.levels import features_in_use
from targets.cpu.codegen.vector_calls import most_words
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.tiles.elements import Elements, TileCode

__all__ = ["parts", "write_mma"]

_I8, _I16, _I32, _I64 = map(ir.IntType, (8, 16, 32, 64))


# Lay out a factor of a product in panels: some columns at a time, one row after the other.
#
# The register kernels then read a panel from its begin to its end. A factor with its axes
# exchanged is transposed in squares, each in as many registers as it has rows.

#: Rows of the largest square.
_SQUARE = 16


def _write_panels(
    code: TileCode,
    source: Elements,
    made: Elements,
    shape: tuple[int, int],
    groups: Sequence[Part],
    group: int,
    *,
    is_exchanged: bool,
) -> None:
    """Write the panels of a factor (k, n), or (n, k) if its axes are exchanged.

    An element of a panel is a word of `group` neighbours along k.
    """
    depth, columns = shape
    builder, words = code.builder, depth // group
    for first, width, count in groups:
        with code.repeat(first, first + width * count, width) as column:
            start = builder.mul(column, _I64(words))
            if is_exchanged:
                lines = _in_words(code, source, group)
                _write_transposed(code, lines, start, made, start, (width, words), width)
                continue
            with code.repeat(0, words) as row:
                index = builder.add(builder.mul(row, _I64(group * columns)), column)
                rows = [
                    _load(code, source, builder.add(index, _I64(number * columns)), width)
                    for number in range(group)
                ]
                value = _interleaved(builder, rows)
                place = builder.add(start, builder.mul(row, _I64(width)))
                if group > 1:
                    value = builder.bitcast(value, ir.VectorType(_I32, width))
                _store(code, value, made, place)


def _in_words(code: TileCode, source: Elements, group: int) -> Elements:
    """Return elements as words of `group` neighbours."""
    if group == 1:
        return source
    data = code.builder.bitcast(source.data, _I32.as_pointer())
    return Elements(code.emitter, data, types.int32)


def _interleaved(builder: ir.IRBuilder, rows: list[ir.Value]) -> ir.Value:
    """Return the first elements of all vectors, then the second ones, and so on."""
    while len(rows) > 1:
        half = len(rows) // 2
        rows = [_zipped(builder, *pair) for pair in zip(rows[:half], rows[half:], strict=True)]
    return rows[0]


def _zipped(builder: ir.IRBuilder, one: ir.Value, two: ir.Value) -> ir.Value:
    count = one.type.count
    lanes = [lane for number in range(count) for lane in (number, count + number)]
    return builder.shuffle_vector(one, two, ir.VectorType(_I32, 2 * count)(lanes))


def _write_transposed(
    code: TileCode,
    source: Elements,
    begin: ir.Value,
    made: Elements,
    start: ir.Value,
    shape: tuple[int, int],
    stride: int,
) -> None:
    """Write the columns of a part of a matrix with contiguous rows as rows of another matrix.

    The rows of the result are `stride` elements apart.
    """
    (rows, columns), builder = shape, code.builder
    side = math.gcd(rows, columns, _SQUARE)
    with code.repeat(0, rows, side) as row, code.repeat(0, columns, side) as column:
        first = builder.add(begin, builder.add(builder.mul(row, _I64(columns)), column))
        lines = [
            _load(code, source, builder.add(first, _I64(number * columns)), side)
            for number in range(side)
        ]
        first = builder.add(start, builder.add(builder.mul(column, _I64(stride)), row))
        for number, line in enumerate(_exchanged(builder, lines)):
            _store(code, line, made, builder.add(first, _I64(number * stride)))


def _exchanged(builder: ir.IRBuilder, lines: list[ir.Value]) -> list[ir.Value]:
    """Return the columns of a square of vectors: halves change places, then smaller blocks."""
    side = len(lines)
    lanes = ir.VectorType(_I32, side)
    step = side // 2
    while step:
        below = [n if not n & step else side + n - step for n in range(side)]
        above = [n + step if not n & step else side + n for n in range(side)]
        for number in range(side):
            if not number & step:
                one, two = lines[number], lines[number + step]
                lines[number] = builder.shuffle_vector(one, two, lanes(below))
                lines[number + step] = builder.shuffle_vector(one, two, lanes(above))
        step //= 2
    return lines


def _place(code: TileCode, elements: Elements, index: ir.Value, count: int) -> ir.Value:
    place = elements.place(index)
    return code.builder.bitcast(place, ir.VectorType(place.type.pointee, count).as_pointer())


def _load(code: TileCode, source: Elements, index: ir.Value, count: int) -> ir.Value:
    found = code.builder.load(_place(code, source, index, count))
    found.align = 1
    return found


def _store(code: TileCode, value: ir.Value, made: Elements, index: ir.Value) -> None:
    place = _place(code, made, index, value.type.count)
    code.builder.store(value, place).align = 1


#: Columns of the narrowest panel.
_NARROWEST = 8


def write_mma(emitter: CpuEmitter, operation: Operation) -> None:
    """Write a product, with the tile that is added."""
    target, *operands = operation.operands
    code, attributes = TileCode(emitter, operation), operation.attributes
    (rows, columns), depth = code.shape, attributes["depth"]
    result, (one, two, *added) = code.tile(target), map(code.tile, operands)
    builder, exchanged = code.builder, attributes["exchanged"]
    unit = unit_for(one.kind, two.kind, attributes["precision"])
    sums = emitter.context.get_value_type(result.kind)
    one, two = (
        _converted(code, each, _kind_of(unit, each, result), depth * extent)
        for each, extent in ((one, rows), (two, columns))
    )
    if exchanged[0]:
        made = code.buffer(one.kind, rows * depth)
        _write_transposed(code, one, _I64(0), made, _I64(0), (depth, rows), depth)
        one = made
    words = depth // unit.group
    left = _in_words(code, one, unit.group)
    if unit.flips:
        # Bytes with a sign become bytes without one, which are larger by 128.
        left = code.computed(
            left.kind, left, rows * words, lambda each: builder.xor(each, _I32(FLIP))
        )
    panels = _panels(columns, 2 * registers().nbytes // size_of(sums))
    right = code.buffer(left.kind, words * columns)
    shape = depth, columns
    _write_panels(code, two, right, shape, panels, unit.group, is_exchanged=exchanged[1])
    if not added or operands[2] is not target:
        with code.loop(0, code.count) as index:
            result.set(index, added[0].get(index) if added else ir.Constant(sums, 0))
    for panel in panels:
        with code.repeat(
            panel.first, panel.first + panel.size * panel.number, panel.size
        ) as column:
            begin = right.place(builder.mul(column, _I64(words)))
            less = result.data
            if unit.flips:
                less = _of_flips(code, unit, begin, panel.size, words)
            for first, height, count in parts(rows, registers().heights):
                function = register_kernel(
                    builder.module, unit, sums, height, panel.size, words, columns
                )
                with code.repeat(first, first + height * count, height) as row:
                    start = left.place(builder.mul(row, _I64(words)))
                    index = builder.add(builder.mul(row, _I64(columns)), column)
                    builder.call(function, [start, begin, result.place(index), less])


def _kind_of(unit: Unit, factor: Elements, result: Elements) -> Any:
    """Return the type that a factor is converted to."""
    if unit.group == 1:
        return result.kind
    return element_type(unit.dtype) if unit.dtype else factor.kind


def _of_flips(code: TileCode, unit: Unit, panel: ir.Value, width: int, words: int) -> ir.Value:
    """Return the address of what flipped bytes add in the columns of a panel."""
    made = code.buffer(types.int32, width).data
    builder, kind = code.builder, ir.VectorType(_I32, width)
    place = builder.bitcast(made, kind.as_pointer())
    builder.store(kind([0] * width), place).align = 4
    lanes = ir.VectorType(_I32, min(width, registers().nbytes // 4))
    with code.repeat(0, words * width, width) as step, code.repeat(0, width, lanes.count) as column:
        total = builder.bitcast(builder.gep(made, [column]), lanes.as_pointer())
        index = builder.add(step, column)
        two = builder.load(builder.bitcast(builder.gep(panel, [index]), lanes.as_pointer()))
        before = builder.load(total)
        two.align = before.align = 4
        one = lanes([FLIP] * lanes.count)
        builder.store(unit.add(builder, one, two, before), total).align = 4
    return made


def _panels(columns: int, widest: int) -> list[Part]:
    """Divide columns, a multiple of 8, into panels: wide ones, then narrower ones."""
    found, first, width = [], 0, max(widest, _NARROWEST)
    while first < columns:
        count = (columns - first) // width
        if count:
            found.append(Part(first, width, count))
            first += count * width
        width //= 2
    return found


def _converted(code: TileCode, source: Elements, kind: Any, count: int) -> Elements:
    """Return the elements of a factor in another type."""
    if source.kind == kind:
        return source
    return code.computed(
        kind, source, count, lambda each: code.emitter.convert(each, source.kind, kind)
    )


# -- register kernels -----------------------------------------------------------------------------


# Instructions of the CPU that add several products at a time, in words of 32 bits along k.
#
# A word has two or four neighbours along k. An instruction multiplies the words of two vectors
# element by element, and adds the products to sums of 32 bits. Products of bfloat16 are added in
# pairs, so low bits differ from those of the reference.
#
# See Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 2, "VDPBF16PS",
# "VPDPBUSD", "VPDPWSSD" and "PMADDWD".

#: The highest bit of each byte of a word.
FLIP = -0x7F7F7F80


class Unit(NamedTuple):
    """A way to add products."""

    #: Name of the instruction in LLVM, without its width; empty for one product at a time.
    name: str = ""
    #: Elements of a word.
    group: int = 1
    #: Dtype to which factors are converted; empty if they are not.
    dtype: str = ""
    #: Whether the bytes of the first factor are signed, and are made unsigned by adding 128.
    flips: bool = False
    #: Whether a product of floats and its addition have one rounding.
    is_fused: bool = True

    def add(self, builder: ir.IRBuilder, one: ir.Value, two: ir.Value, total: ir.Value) -> ir.Value:
        """Add products of vectors of words."""
        if self.group == 1:
            return self._add_elements(builder, one, two, total)
        lanes = total.type.count
        element = {"avx512bf16.dpbf16ps": BFLOAT, "avx512.vpdpbusd": _I8}.get(self.name, _I16)
        kind = ir.VectorType(element, lanes * self.group)
        factors = [builder.bitcast(each, kind) for each in (one, two)]
        name = f"llvm.x86.{self.name}.{32 * lanes}"
        if self.name == "pmadd":
            name = f"llvm.x86.{_PAIRS[lanes]}"
            call = ir.FunctionType(total.type, [kind, kind])
            pairs = cgutils.get_or_insert_function(builder.module, call, name)
            return builder.add(total, builder.call(pairs, factors))
        call = ir.FunctionType(total.type, [total.type, kind, kind])
        instruction = cgutils.get_or_insert_function(builder.module, call, name)
        return builder.call(instruction, [total, *factors])

    def _add_elements(
        self, builder: ir.IRBuilder, one: ir.Value, two: ir.Value, total: ir.Value
    ) -> ir.Value:
        vector = total.type
        if isinstance(vector.element, ir.IntType):
            return builder.add(total, builder.mul(one, two))
        if not self.is_fused:
            return builder.fadd(total, builder.fmul(one, two))
        bits = 8 * size_of(vector.element)
        kind = ir.FunctionType(vector, [vector] * 3)
        name = f"llvm.fma.v{vector.count}f{bits}"
        fma = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(fma, [one, two, total])


#: Sums of two products of 16-bit integers, by the lanes of the result.
_PAIRS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
#: Floats that bfloat16 has.
_EXACT_IN_BFLOAT = {"bfloat16", "float8_e4m3fn", "float8_e5m2"}


def unit_for(one: Any, two: Any, precision: str) -> Unit:
    """Return the fastest way to multiply elements of two types of Numba."""
    features = features_in_use()
    kinds = str(one), str(two)
    # Without the instruction, LLVM calls a function of C for each product.
    plain = Unit(is_fused=precision == "reference" or not features.isdisjoint({"fma", "neon"}))
    if set(kinds) <= _EXACT_IN_BFLOAT:
        has_unit = {"avx512bf16", "avx512vl"} <= features and precision != "reference"
        return Unit("avx512bf16.dpbf16ps", 2, "bfloat16") if has_unit else plain
    if not set(kinds) <= {"int8", "uint8"}:
        return plain
    has_vnni = most_words() > 0
    if has_vnni and kinds[1] == "int8":
        return Unit("avx512.vpdpbusd", 4, flips=kinds[0] == "int8")
    if has_vnni:
        return Unit("avx512.vpdpwssd", 2, "int16")
    if "avx2" in features and ("avx512f" not in features or "avx512bw" in features):
        return Unit("pmadd", 2, "int16")
    return plain


class Registers(NamedTuple):
    """The vector registers of a processor."""

    #: Bytes of one.
    nbytes: int
    #: Heights of products with sums that fit, highest first. Multiples of 8 are sums of these.
    heights: tuple[int, int]


class Part(NamedTuple):
    """Neighbouring rows or columns in groups of one size."""

    first: int
    size: int
    number: int


def registers() -> Registers:
    """Return the registers of the processor that is compiled for."""
    features = features_in_use()
    if "avx512f" in features:
        return Registers(64, (12, 8))
    if "avx" in features:
        return Registers(32, (6, 4))
    return Registers(16, (6, 4) if "neon" not in features else (12, 8))


def parts(extent: int, sizes: tuple[int, ...]) -> Iterator[Part]:
    """Divide an extent, a multiple of 8, into groups of two sizes, most of the larger one."""
    large, small = sizes
    count = extent // large
    while count and (extent - count * large) % small:
        count -= 1
    if count:
        yield Part(0, large, count)
    if extent > count * large:
        yield Part(count * large, small, (extent - count * large) // small)


def register_kernel(
    module: ir.Module, unit: Unit, sums: ir.Type, rows: int, width: int, depth: int, columns: int
) -> ir.Function:
    """Return the function that adds a product to some rows of a tile.

    It is given four addresses. The rows of the first factor have `depth` words. A panel has a row
    of `width` words for each of these. The tile has `columns` columns of `sums`. What is at the
    last address, for each column of the panel, is subtracted if the unit flips bytes.
    """
    flags = f"{unit.flips:d}{unit.is_fused:d}"
    name = f"kerneldsl.product.{unit.name}.{sums}.{rows}x{width}x{depth}.{columns}.{flags}"
    known = module.globals.get(name)
    if known is not None:
        return known
    word = sums if unit.group == 1 else _I32
    kinds = [each.as_pointer() for each in (word, word, sums, sums)]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    one, panel, tile, subtracted = function.args
    lanes = min(width, registers().nbytes // size_of(sums))
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    starts = range(0, width, lanes)

    def at(base: ir.Value, index: ir.Value | int) -> ir.Value:
        index = _I64(index) if isinstance(index, int) else index
        kind = ir.VectorType(base.type.pointee, lanes)
        return builder.bitcast(builder.gep(base, [index], inbounds=True), kind.as_pointer())

    def load(base: ir.Value, index: ir.Value | int) -> ir.Value:
        found = builder.load(at(base, index))
        found.align = size_of(sums)
        return found

    places = [(row, column) for row in range(rows) for column in starts]
    first = [load(tile, row * columns + column) for row, column in places]
    if unit.flips:
        less = {column: load(subtracted, column) for column in starts}
        pairs = zip(first, places, strict=True)
        first = [builder.sub(value, less[column]) for value, (_, column) in pairs]
    with repeat(builder, depth, first=first) as (step, totals, values):
        line = builder.mul(step, _I64(width))
        others = {column: load(panel, builder.add(line, _I64(column))) for column in starts}
        for (row, column), total in zip(places, totals, strict=True):
            if column == 0:
                index = builder.add(step, _I64(row * depth))
                element = builder.load(builder.gep(one, [index], inbounds=True))
                element.align = 4
                factor = repeated(builder, element, lanes)
            values.append(unit.add(builder, factor, others[column], total))
    for (row, column), value in zip(places, values, strict=True):
        builder.store(value, at(tile, row * columns + column)).align = size_of(sums)
    builder.ret_void()
    return function


def repeated(builder: ir.IRBuilder, element: ir.Value, lanes: int) -> ir.Value:
    vector = ir.VectorType(element.type, lanes)
    one = builder.insert_element(vector(ir.Undefined), element, _I32(0))
    zeros = ir.VectorType(_I32, lanes)([0] * lanes)
    return builder.shuffle_vector(one, vector(ir.Undefined), zeros)


def size_of(kind: ir.Type) -> int:
    """Return the bytes of a type of sums."""
    return 8 if isinstance(kind, ir.DoubleType) else 4
