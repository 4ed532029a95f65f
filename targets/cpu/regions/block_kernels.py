"""The rewrites of a kernel that has blocks, and the code that one worker runs for each of them.

Loops over the threads of a block become rows: x in y, and y in z.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.contract import Dim3, Specialization
from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.nonnegative import mark_indices
from kerneldsl.ir.operations import Function, Operation, Region, Value
from kerneldsl.ir.ranges import Interval, ranges_of_region
from kerneldsl.ir.rewriter import replace_operations, rewrite
from kerneldsl.ir.simplify import simplify
from kerneldsl.ir.tiles.elements import write_start
from kerneldsl.ir.typing import Typing
from kerneldsl.lowering.calls import join
from targets.cpu.math.workarounds import divide_unsigned
from targets.cpu.regions import exchanges, ids, memory
from targets.cpu.regions.control import GRID_BARRIER
from targets.cpu.regions.emitter import CountedLoop, CpuEmitter
from targets.cpu.regions.fission import split_at_barriers
from targets.cpu.regions.ids import WARP, guard_extent, id_patterns, runs_by_warps
from targets.cpu.regions.lanes.halves import in_halves
from targets.cpu.regions.lanes.merging import merge_rows
from targets.cpu.regions.lanes.rows import in_strips, runs_as_one
from targets.cpu.regions.loop_writer import LoopWriter
from targets.cpu.regions.row_parts import as_a_whole
from targets.cpu.regions.row_regions import (
    hoist_shared_loads,
    hoist_shared_values,
    make_row,
    narrow_bounds,
    replace_rows,
    version_nonnegative_starts,
)
from targets.cpu.regions.tiles import elements, folds, products, sorts
from targets.cpu.regions.tiles.place import place_tiles
from targets.cpu.runtime.native_tables import ALIGNMENT, FINISHED, LaunchWord

__all__ = ["block_region", "refuse_chains", "write_blocks"]


def block_region(function: Function, spec: Specialization, typing: Typing) -> Region:
    """Return the region of a function, which is rewritten in place."""
    assert spec.block_dim is not None
    place_tiles(function, spec, typing)
    if spec.mode.forall_ndim and not spec.traits.uses_block:
        guard_extent(function, typing, spec.mode.forall_ndim)
    by_warps = runs_by_warps(function, spec)
    rewrite(function.body, id_patterns(typing, spec, by_warps=by_warps))
    simplify(function.body)
    mark_indices(function, wraparound=spec.options.wraparound)
    region = split_at_barriers(function, spec, typing, by_warps=by_warps)
    if spec.options.debug:
        thread_rows(region, spec.block_dim)
    else:
        _write_rows(region, WARP if by_warps else spec.block_dim, function.body.arguments)
    return region


_AXES = "xyz"
Writer = Callable[[Operation], list[Operation]]


def _write_rows(region: Region, extents: Dim3, parameters: list[Value]) -> None:
    """Write loops over threads as rows with bounds, in place; the kernel has some parameters."""
    thread_rows(region, extents)
    known = ranges_of_region(region)
    replace_rows(region, _from_inside(partial(narrow_bounds, known=known)))
    merge_rows(region, known, parameters)
    replace_rows(region, _innermost(in_halves))
    replace_rows(region, _innermost(partial(_as_a_whole, known=known)))
    replace_rows(region, _innermost(partial(_in_whole_strips, known=known)))
    version_nonnegative_starts(region)
    replace_rows(region, _innermost(hoist_shared_loads))
    simplify(region)


def _as_a_whole(row: Operation, known: Mapping[Value, Interval]) -> list[Operation]:
    """Return a row with a version for rows that pass all guards, or as it is.

    A row that is one long strip gets none. The rows of its lanes do: their guards often do not
    hold together.
    """
    return [row] if runs_as_one(row) else as_a_whole(row, known)


def _in_whole_strips(row: Operation, known: Mapping[Value, Interval]) -> list[Operation]:
    """Return a row in strips, with versions of the rows of lanes."""
    found = in_strips(row)
    if row in found:
        return found
    region = Region((), found)
    replace_rows(region, partial(as_a_whole, known=known))
    return region.operations


def thread_rows(region: Region, extents: Dim3) -> None:
    """Write each loop over threads as rows, in place."""

    def write(operation: Operation) -> list[Operation] | None:
        return _rows(operation.regions[0], extents) if operation.name == "threads" else None

    replace_operations(region, write)


def _rows(body: Region, extents: Dim3) -> list[Operation]:
    """Return the rows of threads that run a body."""
    before: list[Operation] = []
    make = LoopWriter(before)
    zero = make.constant(0)
    axes = [axis for axis, extent in zip(_AXES, extents, strict=True) if extent > 1]
    regions = {axis: Region((types.int64,)) for axis in axes}
    threads: dict[str, Value] = dict.fromkeys(_AXES, zero)
    for axis, region in regions.items():
        threads[axis] = region.arguments[0]
        threads[axis].name = f"t{axis}"
    _number_threads(body, extents)
    rewrite(body, {f"threadIdx.{axis}": _replacing(thread) for axis, thread in threads.items()})
    operations = body.operations
    for axis, region in regions.items():
        region.operations = [*operations, Operation("yield", [])]
        if operations and operations[-1].name == "yield":
            region.operations = operations
        high = make.constant(extents[_AXES.index(axis)])
        row = make_row(zero, high, region)
        row.attributes["axis"] = axis
        operations = [*hoist_shared_values(row), row]
    if not regions:
        operations = operations[:-1]
    return [*before, *operations]


def _replacing(thread: Value) -> Callable[[Operation], tuple[list[Operation], list[Value]]]:
    return lambda operation: ([], [thread])


def _number_threads(body: Region, extents: Dim3) -> None:
    """Give the operations on slots the number of the thread, in place."""
    accesses = [each for each in body.walk() if each.name in ("slot.load", "slot.store")]
    if accesses:
        make = LoopWriter()
        number = ids.position_of(make, extents)
        body.operations[:0] = make.operations
        for each in accesses:
            each.operands.append(number)


def _from_inside(write: Writer) -> Writer:
    """Return what rewrites a row after those in it."""

    def visit(row: Operation) -> list[Operation]:
        replace_rows(row.regions[0], visit)
        return write(row)

    return visit


def _innermost(write: Writer) -> Writer:
    """Return what rewrites the innermost rows of a row."""

    def visit(row: Operation) -> list[Operation]:
        (region,) = row.regions
        if not any(each.name == "row" for each in region.walk()):
            return write(row)
        replace_rows(region, visit)
        return [row]

    return visit


# -- the loop over the blocks of a call -----------------------------------------------------------


_I64 = ir.IntType(64)
#: Rows of blocks that are visited column by column.
_TOP_ROWS = 4
#: Operations that reserve memory once for all blocks of a call.
_MEMORY = {"cell": memory.cell, "exchange.room": exchanges.room, "slot": memory.slot}


def write_blocks(emitter: CpuEmitter, region: Region) -> None:
    """Write the loop over the blocks of a call."""
    emitter.register(_HANDLERS)
    builder = emitter.builder
    for number, axis in enumerate("xyz"):
        emitter.ids[f"extent.{axis}"] = emitter.word(LaunchWord.SPACE + 3 + number)
        emitter.ids[f"threadIdx.{axis}"] = ir.Constant(ir.IntType(64), 0)  # without a row along it
    waits = emitter.spec.traits.syncs_grid
    if not waits:
        _reserve(emitter, region)
    with CountedLoop(builder, emitter.first, emitter.last) as block:
        # Read for each block, so that LLVM does not write the loop twice, for grids with and
        # without rows.
        gx, gy, gz = (emitter.word(LaunchWord.SPACE + axis) for axis in range(3))
        for axis, found in zip("xyz", _block_place(emitter, block, gx, gy, gz), strict=True):
            emitter.ids[f"blockIdx.{axis}"] = found
        emitter.ids |= {"gridDim.x": gx, "gridDim.y": gy, "gridDim.z": gz}
        if not waits:
            emitter.region(region)
        else:
            emitter.passes = _Passes(emitter, block)
            _reserve(emitter, region)
            emitter.region(region)
            emitter.passes.finish()


def _reserve(emitter: CpuEmitter, region: Region) -> None:
    """Reserve the memory that a block has while it runs."""
    for operation in region.operations:
        if operation.name in _MEMORY:
            _MEMORY[operation.name](emitter, operation)
    for operation in region.walk():
        if operation.name == "shared.array":
            memory.shared(emitter, operation)


def _block_place(emitter: CpuEmitter, block: Any, gx: Any, gy: Any, gz: Any) -> list[Any]:
    """Return the place ``x, y, z`` of a block in a grid, by its number.

    Blocks are visited down short columns, not along whole rows of the grid. Neighbours along either
    axis are then in the cache at the same time, as in tiles of a matrix product.
    """
    builder = emitter.builder
    one, zero, top_rows = _I64(1), _I64(0), _I64(_TOP_ROWS)
    has_rows = builder.or_(builder.icmp_signed(">", gy, one), builder.icmp_signed(">", gz, one))
    before = builder.block
    with builder.if_then(has_rows):
        z, plane = divide_unsigned(builder, block, builder.mul(gx, gy))
        strip, below = divide_unsigned(builder, plane, builder.mul(top_rows, gx))
        top = builder.mul(strip, top_rows)
        rows = emitter.smaller(top_rows, builder.sub(gy, top))
        x, row = divide_unsigned(builder, below, rows)
        y = builder.add(row, top)
        placed = builder.block
    both = ((block, x), (zero, y), (zero, z))
    return [join(builder, (in_line, before), (in_plane, placed)) for in_line, in_plane in both]


def _for_each(emitter: CpuEmitter, operation: Operation) -> None:
    """Count through a table of the constants."""
    (body,) = operation.regions
    values = operation.attributes.get("values", ())
    if operation.operands or not values or not any(each.name == "row" for each in body.walk()):
        emitter.for_each(operation)
        return
    builder = emitter.builder
    kind = ir.ArrayType(_I64, len(values))
    module = builder.module
    table = ir.GlobalVariable(module, kind, module.get_unique_name("values"))
    table.linkage, table.global_constant = "internal", True
    table.initializer = ir.Constant(kind, list(values))
    with CountedLoop(builder, _I64(0), _I64(len(values))) as number:
        place = builder.gep(table, [_I64(0), number])
        emitter.values[body.arguments[0]] = builder.load(place)
        emitter.operations(body.operations[:-1])


# -- barriers of the grid --------------------------------------------------------------------------
#
# A barrier of the grid ends a *pass* over the blocks. Each block runs up to the barrier, and stores
# its number. When all blocks have done so, each is called again and continues after that barrier.
# Whatever a block or its threads need in a later pass is in the storage of the block, which is
# kept until the launch ends.


def refuse_chains(unit: FunctionUnit) -> None:
    """Raise for a chain: a block that waits for another one's part may be before it in a pass."""
    for name, use in unit.uses.items():
        if use.intrinsic.is_of_chain:
            raise UnsupportedConstructError(
                f"kd.{use.intrinsic.name} is in a kernel with a barrier of the grid",
                where=unit.locate_use(name),
                limit="On the CPU blocks take turns between such barriers, and their order is not "
                "that of a chain's parts",
                remedy="Use two kernels, or add up over the grid: each block stores its sum, and "
                "reads those before it after kd.grid_group().sync()",
            )


class _Passes:
    """The places at which a block goes on."""

    def __init__(self, emitter: CpuEmitter, block: ir.Value) -> None:
        builder = emitter.builder
        self.emitter = emitter
        emitter.memory = self._part(block)
        offset = emitter.storage.place(8)
        place = builder.gep(emitter.memory, [_I64(offset)], inbounds=True)
        self.state = builder.bitcast(place, _I64.as_pointer())
        emitter.start = builder.block
        first = builder.append_basic_block("first_pass")
        self.end = builder.append_basic_block("end_of_pass")
        self.choice = builder.switch(builder.load(self.state), self.end)
        self.choice.add_case(_I64(0), first)
        builder.position_at_end(first)

    def _part(self, block: ir.Value) -> ir.Value:
        """Return the address of the storage of a block."""
        emitter, builder = self.emitter, self.emitter.builder
        start = builder.inttoptr(emitter.word(LaunchWord.PARTS), ir.IntType(8).as_pointer())
        own = builder.load(emitter.scratch_bytes())
        nbytes = builder.add(own, emitter.word(LaunchWord.SHARED_BYTES))
        nbytes = builder.add(nbytes, _I64(ALIGNMENT - 1))
        each = builder.and_(nbytes, _I64(-ALIGNMENT))
        return builder.gep(start, [builder.mul(block, each)], inbounds=True)

    def wait(self) -> None:
        """End the pass, and go on from here in the next one."""
        builder = self.emitter.builder
        number = len(self.choice.cases)
        following = builder.append_basic_block(f"pass{number}")
        self._end(number)
        self.choice.add_case(_I64(number), following)
        builder.position_at_end(following)

    def finish(self) -> None:
        """End the last pass."""
        self._end(FINISHED)
        self.emitter.builder.position_at_end(self.end)

    def _end(self, state: int) -> None:
        self.emitter.builder.store(_I64(state), self.state)
        self.emitter.builder.branch(self.end)


def _sync(emitter: CpuEmitter, operation: Operation) -> None:
    passes: Any = emitter.passes
    passes.wait()


_HANDLERS = {
    "for_each": _for_each,
    **exchanges.HANDLERS,
    GRID_BARRIER: _sync,
    **memory.HANDLERS,
    "tile.argsort": sorts.write_argsort,
    "tile.copy": elements.write_copy,
    "tile.fold": folds.write_fold,
    "tile.load": elements.write_load,
    "tile.map": elements.write_map,
    "tile.mma": products.write_mma,
    "tile.place": write_start,
    "tile.scan": folds.write_scan,
    "tile.sort": sorts.write_sort,
    "tile.store": elements.write_store,
    "tile.take": elements.write_taken,
    **ids.HANDLERS,
}
