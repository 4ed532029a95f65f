"""Products of a few rows by the columns of a panel, with their sums in registers.

A function has all sums of its rows in vectors while it goes along k. In each step it loads a row of
the panel. It multiplies the row by an element of each row of the other factor. An element has one
sum, and its products are added in rising order of k.

References
----------
K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM Transactions
on Mathematical Software 34 (2008); F. Van Zee and R. van de Geijn, "BLIS: A Framework for Rapidly
Instantiating BLAS Functionality", ACM Transactions on Mathematical Software 41 (2015).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.loop_marks import repeat
from kerneldsl.lowering.numba_internals.llvm import BFLOAT
from targets.cpu.codegen.levels import features_in_use

__all__ = [
    "FLIP",
    "Part",
    "Registers",
    "Unit",
    "parts",
    "register_kernel",
    "registers",
    "repeated",
    "size_of",
    "unit_for",
]


# Instructions of the CPU that add several products at a time, in words of 32 bits along k.
#
# A word has two or four neighbours along k. An instruction multiplies the words of two vectors
# element by element, and adds the products to sums of 32 bits. Products of bfloat16 are added in
# pairs, so low bits differ from those of the reference.
#
# See Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 2, "VDPBF16PS",
# "VPDPBUSD", "VPDPWSSD" and "PMADDWD".

_I8, _I16 = ir.IntType(8), ir.IntType(16)
#: The highest bit of each byte of a word.
FLIP = -0x7F7F7F80


class Unit(NamedTuple):
    """A way to add products."""

    #: Of the instruction in LLVM, without its width; empty for one product at a time.
    name: str = ""
    #: Elements of a word.
    group: int = 1
    #: The dtype that factors are converted to; empty if they stay as they are.
    dtype: str = ""
    #: Whether bytes of the first factor have a sign, and become those without one by 128.
    flips: bool = False

    def add(self, builder: ir.IRBuilder, one: ir.Value, two: ir.Value, total: ir.Value) -> ir.Value:
        """Add products of vectors of words."""
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


#: Sums of two products of 16-bit integers, by the lanes of the result.
_PAIRS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
#: Floats that bfloat16 has.
_EXACT_IN_BFLOAT = {"bfloat16", "float8_e4m3fn", "float8_e5m2"}
_VNNI = ({"avx512vnni", "avx512vl"}, {"avxvnni", "avx2"})


def unit_for(one: Any, two: Any, precision: str) -> Unit:
    """Return the fastest way to multiply elements of two types of Numba."""
    features = features_in_use()
    kinds = str(one), str(two)
    if set(kinds) <= _EXACT_IN_BFLOAT:
        has_unit = {"avx512bf16", "avx512vl"} <= features and precision != "reference"
        return Unit("avx512bf16.dpbf16ps", 2, "bfloat16") if has_unit else Unit()
    if not set(kinds) <= {"int8", "uint8"}:
        return Unit()
    has_vnni = any(each <= features for each in _VNNI)
    if has_vnni and kinds[1] == "int8":
        return Unit("avx512.vpdpbusd", 4, flips=kinds[0] == "int8")
    if has_vnni:
        return Unit("avx512.vpdpwssd", 2, "int16")
    if "avx2" in features and ("avx512f" not in features or "avx512bw" in features):
        return Unit("pmadd", 2, "int16")
    return Unit()


_I32, _I64 = ir.IntType(32), ir.IntType(64)


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
    name = f"kerneldsl.product.{unit.name}.{sums}.{rows}x{width}x{depth}.{columns}.{unit.flips:d}"
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
            add = unit.add if unit.group > 1 else _vector_fma
            values.append(add(builder, factor, others[column], total))
    for (row, column), value in zip(places, values, strict=True):
        builder.store(value, at(tile, row * columns + column)).align = size_of(sums)
    builder.ret_void()
    return function


def _vector_fma(builder: ir.IRBuilder, one: ir.Value, two: ir.Value, total: ir.Value) -> ir.Value:
    """Add products of vectors: with one rounding, or exactly."""
    vector = total.type
    if isinstance(vector.element, ir.IntType):
        return builder.add(total, builder.mul(one, two))
    bits = 8 * size_of(vector.element)
    kind = ir.FunctionType(vector, [vector] * 3)
    name = f"llvm.fma.v{vector.count}f{bits}"
    fma = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(fma, [one, two, total])


def repeated(builder: ir.IRBuilder, element: ir.Value, lanes: int) -> ir.Value:
    vector = ir.VectorType(element.type, lanes)
    one = builder.insert_element(vector(ir.Undefined), element, _I32(0))
    zeros = ir.VectorType(_I32, lanes)([0] * lanes)
    return builder.shuffle_vector(one, vector(ir.Undefined), zeros)


def size_of(kind: ir.Type) -> int:
    """Return the bytes of a type of sums."""
    return 8 if isinstance(kind, ir.DoubleType) else 4
