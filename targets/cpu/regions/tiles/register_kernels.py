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
from typing import NamedTuple

from llvmlite import ir
from numba.core import cgutils

from targets.cpu.codegen.levels import features_in_use

__all__ = ["Part", "Registers", "parts", "register_kernel", "registers", "vector_fma"]

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
    module: ir.Module, kind: ir.Type, rows: int, width: int, depth: int, columns: int
) -> ir.Function:
    """Return the function that adds a product to some rows of a tile.

    It is given three addresses. The rows of the first factor have `depth` elements. A panel has a
    row of `width` elements for each of these. The tile has `columns` columns.
    """
    name = f"kerneldsl.product.{kind}.{rows}x{width}x{depth}.{columns}"
    known = module.globals.get(name)
    if known is not None:
        return known
    place = kind.as_pointer()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [place] * 3), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    one, panel, tile = function.args
    lanes = min(width, registers().nbytes // _size_of(kind))
    vector = ir.VectorType(kind, lanes)
    builder = ir.IRBuilder(function.append_basic_block("entry"))

    def at(base: ir.Value, index: ir.Value | int) -> ir.Value:
        index = _I64(index) if isinstance(index, int) else index
        return builder.bitcast(builder.gep(base, [index], inbounds=True), vector.as_pointer())

    def load(base: ir.Value, index: ir.Value | int) -> ir.Value:
        found = builder.load(at(base, index))
        found.align = _size_of(kind)
        return found

    places = [(row, column) for row in range(rows) for column in range(0, width, lanes)]
    first = [load(tile, row * columns + column) for row, column in places]
    before, body, end = (
        builder.block,
        function.append_basic_block("along"),
        function.append_basic_block("end"),
    )
    builder.branch(body)
    builder.position_at_end(body)
    step = builder.phi(_I64)
    step.add_incoming(_I64(0), before)
    sums = [builder.phi(vector) for _ in places]
    line = builder.mul(step, _I64(width))
    others = {
        column: load(panel, builder.add(line, _I64(column))) for column in range(0, width, lanes)
    }
    values = []
    for (row, column), total, given in zip(places, sums, first, strict=True):
        total.add_incoming(given, before)
        if column == 0:
            index = builder.add(step, _I64(row * depth))
            element = builder.load(builder.gep(one, [index], inbounds=True))
            factor = _repeated(builder, element, vector)
        values.append(vector_fma(builder, factor, others[column], total))
    following = builder.add(step, _I64(1), flags=("nuw", "nsw"))
    step.add_incoming(following, body)
    for total, value in zip(sums, values, strict=True):
        total.add_incoming(value, body)
    builder.cbranch(builder.icmp_unsigned("<", following, _I64(depth)), body, end)
    builder.position_at_end(end)
    for (row, column), value in zip(places, values, strict=True):
        builder.store(value, at(tile, row * columns + column)).align = _size_of(kind)
    builder.ret_void()
    return function


def vector_fma(builder: ir.IRBuilder, one: ir.Value, two: ir.Value, total: ir.Value) -> ir.Value:
    """Add products of vectors: with one rounding, or exactly."""
    vector = total.type
    if isinstance(vector.element, ir.IntType):
        return builder.add(total, builder.mul(one, two))
    bits = 8 * _size_of(vector.element)
    kind = ir.FunctionType(vector, [vector] * 3)
    name = f"llvm.fma.v{vector.count}f{bits}"
    fma = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(fma, [one, two, total])


def _repeated(builder: ir.IRBuilder, element: ir.Value, vector: ir.VectorType) -> ir.Value:
    one = builder.insert_element(vector(ir.Undefined), element, _I32(0))
    lanes = ir.VectorType(_I32, vector.count)([0] * vector.count)
    return builder.shuffle_vector(one, vector(ir.Undefined), lanes)


def _size_of(kind: ir.Type) -> int:
    """Return the bytes of a type of sums."""
    return 8 if isinstance(kind, ir.DoubleType) else 4
