"""Every conformance kernel, by topic, each with a launch, inputs and what must come out."""

from __future__ import annotations

from tests.conformance.kernels import (
    arrays,
    atomics,
    barrier_functions,
    barrier_shapes,
    barrier_values,
    barriers,
    between_blocks,
    chains,
    compile_time,
    control,
    conversions,
    evaluation,
    floats,
    functions,
    grid_barriers,
    groups,
    guards,
    helpers,
    hinted,
    ids,
    integers,
    joined_lanes,
    lanes,
    libdevice,
    linked,
    loops,
    mathematics,
    memory,
    narrow_floats,
    neighbours,
    nested_records,
    numpy_functions,
    packed,
    packed_tiles,
    products,
    ptx_words,
    random_numbers,
    records,
    rows,
    scalar_sweep,
    special_values,
    synchronization,
    tile_axes,
    tile_order,
    tile_scans,
    tile_sorts,
    tile_transposes,
    tile_tuples,
    tiles,
    tiles_and_threads,
    times,
    values,
    vector_atomics,
    vectors,
    warp_loops,
    warp_rows,
    warps,
    widened,
)
from tests.support.cases import Case

__all__ = ["CASES", "DEBUG_CASES", "QUICK_CASES"]

#: Every case of every topic.
CASES: list[Case] = [
    *ids.CASES,
    *arrays.CASES,
    *integers.CASES,
    *joined_lanes.CASES,
    *floats.CASES,
    *conversions.CASES,
    *narrow_floats.CASES,
    *mathematics.CASES,
    *libdevice.CASES,
    *special_values.CASES,
    *scalar_sweep.CASES,
    *numpy_functions.CASES,
    *control.CASES,
    *loops.CASES,
    *functions.CASES,
    *rows.CASES,
    *compile_time.CASES,
    *helpers.CASES,
    *memory.CASES,
    *barriers.CASES,
    *barrier_shapes.CASES,
    *barrier_values.CASES,
    *barrier_functions.CASES,
    *synchronization.CASES,
    *neighbours.CASES,
    *values.CASES,
    *ptx_words.CASES,
    *linked.CASES,
    *warps.CASES,
    *groups.CASES,
    *widened.CASES,
    *chains.CASES,
    *grid_barriers.CASES,
    *lanes.CASES,
    *warp_loops.CASES,
    *tiles.CASES,
    *tile_axes.CASES,
    *tile_scans.CASES,
    *tiles_and_threads.CASES,
    *tile_order.CASES,
    *tile_sorts.CASES,
    *tile_transposes.CASES,
    *tile_tuples.CASES,
    *atomics.CASES,
    *between_blocks.CASES,
    *evaluation.CASES,
    *guards.CASES,
    *random_numbers.CASES,
    *records.CASES,
    *nested_records.CASES,
    *times.CASES,
    *packed.CASES,
    *packed_tiles.CASES,
    *products.CASES,
    *vectors.CASES,
    *hinted.CASES,
    *vector_atomics.CASES,
    *warp_rows.CASES,
]


def _quick() -> list[Case]:
    """The first case of each topic, and every ninety-sixth one."""
    topics: dict[str, list[Case]] = {}
    for case in CASES:
        topics.setdefault(case.name.partition(".")[0], []).append(case)
    return [
        case for cases in topics.values() for number, case in enumerate(cases) if number % 96 == 0
    ]


#: Those of a quick run.
QUICK_CASES = _quick()
#: Topics whose kernels index tuples that are not written out: what calls return, and arguments.
_TUPLE_TOPICS = ("random_numbers", "packed", "tile_tuples", "functions", "warps", "vectors")
#: Those that a quick run launches in debug mode, which must tell arrays from tuples.
DEBUG_CASES = [case for case in QUICK_CASES if case.name.partition(".")[0] in _TUPLE_TOPICS]
