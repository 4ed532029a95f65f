"""The optimizing passes of kernels with products of tiles.

They are listed in :mod:`targets.cuda.compile.pipeline`. It does not import this module, because it
also lists the passes for programs that compile nothing.
"""

from __future__ import annotations

from kerneldsl.contract import Specialization
from kerneldsl.ir.accesses import Accesses
from kerneldsl.ir.operations import Function, Operation, Value
from kerneldsl.ir.ranges import Interval
from kerneldsl.ir.tiles.handing_on import drop_casts
from targets.cuda.architectures import Architecture
from targets.cuda.compile.mma.await_late import await_late
from targets.cuda.compile.mma.exchanged_axes import read_as_stored
from targets.cuda.compile.mma.layouts import TileLayouts
from targets.cuda.compile.mma.mapped_loads import NotPlanned
from targets.cuda.compile.mma.overlap_products import overlap_products
from targets.cuda.compile.mma.rings import Ring, plan_rings
from targets.cuda.compile.mma.split_pipeline import split_pipeline
from targets.cuda.compile.mma.warpgroup_plan import WarpgroupPlan, plan_warpgroups
from targets.cuda.compile.pipeline import MULTIPLY_BY_WARPGROUPS, OVERLAP_PRODUCTS, Pipeline
from targets.cuda.compile.regions.walks import location

__all__ = ["lay_out_products", "plan_early_loads", "split_roles"]


def split_roles(
    pipeline: Pipeline,
    function: Function,
    specialization: Specialization,
    intervals: dict[Value, Interval],
) -> WarpgroupPlan | None:
    """Let warpgroups multiply the tiles of a function, in place; return their plan if they can."""
    plan = None
    if (report := pipeline.begin(MULTIPLY_BY_WARPGROUPS)) is not None:
        read_as_stored(function)
        drop_casts(function)
        try:
            planned = plan_warpgroups(function, specialization, intervals)
            split_pipeline(function, planned, specialization, intervals)
        except NotPlanned as reason:
            report("kernel", f"unchanged: {reason}", is_missed=True)
        else:
            plan = planned
            report("product", f"in a ring of {plan.slots} slots", len(plan.forms))
    if (report := pipeline.begin(OVERLAP_PRODUCTS)) is not None and plan is not None:
        count = overlap_products(function.body)
        report("loop", "with two products at the same time", count)
        report("product", "awaited after the next one begins", await_late(function.body))
    return plan


#: Sums of a thread beyond which they are in local memory: half of the 255 registers of a thread
#: (CUDA C++ Programming Guide, "Technical Specifications"). Factors and addresses need the others.
_MAX_SUMS = 128


def lay_out_products(
    pipeline: Pipeline, function: Function, threads: int, arch: Architecture
) -> TileLayouts:
    """Return the layouts of tiles for a block of `threads`, with instructions for products."""
    report = pipeline.begin("multiply-by-warps")
    if report is None:
        return TileLayouts(function, threads)
    layouts = TileLayouts(function, threads, arch)
    for product, instruction, sums in layouts.instructions():
        where = [location(function, product)]
        report("product", f"computed by {instruction}", where=where)
        if sums > _MAX_SUMS:
            slow = f"with {sums} sums in each thread, which are not in registers"
            report("product", slow, where=where, is_missed=True)
    for product, reason in layouts.reasons.items():
        where = [location(function, product)]
        report("product", f"computed element by element: {reason}", where=where, is_missed=True)
    return layouts


def plan_early_loads(
    pipeline: Pipeline,
    function: Function,
    layouts: TileLayouts,
    accesses: Accesses,
    shared_bytes: int,
) -> dict[Operation, Ring]:
    """Return the rings of pipelined loops, which fit in so many bytes of shared memory."""
    report = pipeline.begin("load-factors-early")
    return {} if report is None else plan_rings(function, layouts, accesses, shared_bytes, report)
