"""Runs a kernel whose tiles are spread over threads, as the CUDA target compiles it, without a GPU.

Each thread of a launch is a Python thread of the slow reference (:mod:`.simt`). What the CUDA
target adds for tiles, such as ``kd_fold_sum``, is NumPy's here. NumPy promotes integers otherwise
than Numba, so kernels say their types where that could be seen.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from kerneldsl.contract import Specialization
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.language.element_types import DTYPE_NAMES
from kerneldsl.language.packed_numbers import PACKED_NUMBERS
from kerneldsl.lowering.build import build_function
from kerneldsl.lowering.tile_plan import Layout, TilePlan
from targets.cuda.compile.lower import type_unit
from targets.cuda.compile.sort_networks import merge_pairs, sort_pairs
from targets.cuda.compile.spread_tiles import spread_tiles
from targets.cuda.compile.tile_lanes import WARP_SIZE, WIDTHS
from tests.support.groups import greatest, least
from tests.support.python_kernels import Language, PausingThread
from tests.support.scalars import packed
from tests.support.simt import STOPS, Launch
from tests.support.tiles import sort_key, sorted_number

__all__ = ["simulate_spread"]


def simulate_spread(
    specialization: Specialization,
    grid: tuple[int, ...],
    args: tuple[Any, ...],
    *,
    is_reversed: bool = False,
) -> None:
    """Run what the CUDA target makes of a kernel with tiles on NumPy arrays, in place.

    With `is_reversed` threads run in the other order between barriers, which a race would show.
    """
    block = specialization.block_dim
    assert block is not None
    typed = type_unit(specialization.unit, specialization.kinds)
    unit, plan = spread_tiles(typed, block, specialization.kinds, specialization.promises)
    language = Language()
    names = {
        **unit.namespace,
        **{name: captured.value for name, captured in unit.constants.items()},
        **{name: callee.function for name, callee in unit.callees.items()},
        **{name: _bound(name, use, language) for name, use in unit.uses.items()},
        **_OPERATIONS,
        **_memory_operations(plan),
        **_fold_operations(plan, language),
    }
    body = build_function(unit.tree, unit.name, names, unit.filename)
    launch = Launch(grid, block, is_reversed=is_reversed)
    launch.run(lambda thread: PausingThread(thread, language, lambda: body(*args)))


def _bound(name: str, use: IntrinsicUse, language: Language) -> Any:
    """Return what stands for one use of an intrinsic."""
    word = use.intrinsic.name

    def call(*args: Any) -> Any:
        turn = language.turn
        thread = turn.thread
        if word in STOPS:
            assert isinstance(turn, PausingThread)
            return turn.wait(((word, name), args))
        if word == "shared.array":
            return thread.shared_array(name, use.static["shape"], use.static["dtype"])
        if word == "local.array":
            return thread.local_array(use.static["shape"], use.static["dtype"])
        if word == "packed":
            return packed(*args, PACKED_NUMBERS[use.static["numbers"]])
        found = functools.reduce(getattr, word.split("."), thread)
        return found(*args, *use.static.values()) if callable(found) else found

    return call


def _converted(dtype: str, value: Any) -> Any:
    return np.asarray(value).astype(dtype)[()]


def _numbers(layout: Layout, thread: int) -> Iterator[tuple[int, int]]:
    """A thread's slots, and the element that belongs to each."""
    for slot in range(layout.rounds * layout.group):
        turn, place = divmod(slot, layout.group)
        number = (turn * layout.threads + thread) * layout.group + place
        if number < layout.count:
            yield slot, number


def _take(layout: Layout, target: Any, array: Any, other: Any, first: int, thread: int) -> None:
    for slot, number in _numbers(layout, thread):
        index = first + number
        target[slot] = array[index] if 0 <= index < array.size else other


def _put(layout: Layout, array: Any, source: Any, first: int, thread: int) -> None:
    for slot, number in _numbers(layout, thread):
        if 0 <= first + number < array.size:
            array[first + number] = source[slot]


def _is_wide(layout: Layout, array: Any, first: int) -> bool:
    is_simple = array.ndim == 1 and array.flags.c_contiguous
    return bool(is_simple and first >= 0 and first + layout.count <= array.size)


def _memory_operations(plan: TilePlan) -> dict[str, Any]:
    words = {"take": _take, "put": _put, "is_wide": _is_wide}
    return {
        f"kd_{word}_{count}": functools.partial(operation, layout)
        for count, layout in plan.moved.items()
        for word, operation in words.items()
    }


def _fold_operations(plan: TilePlan, language: Language) -> dict[str, Any]:
    found: dict[str, Any] = {}
    threads = plan.threads
    for fold, count in plan.folded:
        combine = _OPERATIONS[f"kd_fold_{fold}"]
        layout = Layout(count, threads)

        def part(
            own: Any, nothing: Any, thread: int, combine: Any = combine, layout: Any = layout
        ) -> Any:
            totals = [nothing] * layout.group
            for slot, _ in _numbers(layout, thread):
                place = slot % layout.group
                totals[place] = combine(totals[place], own[slot])
            while len(totals) > 1:
                totals = [combine(a, b) for a, b in zip(totals[::2], totals[1::2], strict=True)]
            return totals[0]

        def met(value: Any, thread: int, fold: str = fold, combine: Any = combine) -> Any:
            turn = language.turn
            assert isinstance(turn, PausingThread)
            lanes = min(WARP_SIZE, threads - thread // WARP_SIZE * WARP_SIZE)
            for width in WIDTHS:
                if width >= threads:
                    break
                word = ("shfl_down_sync", f"met {fold} {width}")
                other = turn.wait((word, ((1 << lanes) - 1, value, width)))
                if thread % WARP_SIZE + width < lanes:
                    value = combine(value, other)
            return value

        def rest(room: Any, combine: Any = combine) -> Any:
            return functools.reduce(combine, room[: -(-threads // WARP_SIZE)])

        found |= {f"kd_part_{fold}_{count}": part, f"kd_met_{fold}": met, f"kd_rest_{fold}": rest}
    return found


def _order_pairs(pairs: list[tuple[int, int]], array: Any) -> None:
    for low, high in pairs:
        array[low], array[high] = sorted((array[low], array[high]))


_OPERATIONS: dict[str, Any] = {
    "kd_range": range,
    "kd_min": min,
    "kd_max": max,
    "kd_complex": complex,
    "kd_unsigned": lambda index: index,
    "kd_place": lambda at: max(-(1 << 62), min(int(at), 1 << 62)),
    "kd_unroll": lambda: None,
    "kd_fold_sum": lambda a, b: a + b,
    "kd_fold_max": greatest,
    "kd_fold_min": least,
    "kd_fold_any": lambda a, b: a or b,
    "kd_fold_all": lambda a, b: a and b,
    "kd_sort_key": sort_key,
    **{f"kd_sort_number_{name}": functools.partial(sorted_number, name) for name in DTYPE_NAMES},
    **{f"kd_sort_{n}": functools.partial(_order_pairs, sort_pairs(n)) for n in (2, 4, 8, 16)},
    **{
        f"kd_merge_{n}_{bit}": functools.partial(_order_pairs, merge_pairs(n, bit))
        for n in (2, 4, 8, 16)
        for bit in range(n.bit_length() - 1)
    },
    **{f"kd_as_{name}": functools.partial(_converted, name) for name in DTYPE_NAMES},
}
