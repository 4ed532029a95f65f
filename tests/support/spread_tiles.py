"""Runs a kernel whose tiles are spread over threads, as the CUDA target compiles it, without a GPU.

Each thread of a launch is a Python thread of the slow reference (:mod:`.simt`). What the CUDA
target adds for tiles, such as ``kd_fold_sum``, is NumPy's here. NumPy promotes integers otherwise
than Numba, so kernels say their types where that could be seen.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from kerneldsl.contract import Specialization
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.language.element_types import DTYPE_NAMES
from kerneldsl.lowering.build import build_function
from targets.cuda.compile.lower import type_unit
from targets.cuda.compile.sort_networks import merge_pairs, sort_pairs
from targets.cuda.compile.spread_tiles import spread_tiles
from tests.support.groups import greatest, least
from tests.support.python_kernels import Language, PausingThread
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
    unit, _ = spread_tiles(typed, block)
    language = Language()
    names = {
        **unit.namespace,
        **{name: captured.value for name, captured in unit.constants.items()},
        **{name: callee.function for name, callee in unit.callees.items()},
        **{name: _bound(name, use, language) for name, use in unit.uses.items()},
        **_OPERATIONS,
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
        found = functools.reduce(getattr, word.split("."), thread)
        return found(*args, *use.static.values()) if callable(found) else found

    return call


def _converted(dtype: str, value: Any) -> Any:
    return np.asarray(value).astype(dtype)[()]


def _transfer(target: Any, place: Any, source: Any, start: Any, *, group: int) -> None:
    target[place : place + group] = source[start : start + group]


def _is_wide(array: Any, first: int, count: int, group: int) -> bool:
    is_simple = array.ndim == 1 and array.flags.c_contiguous
    return bool(is_simple and first >= 0 and first + count <= array.size)


def _order_pairs(pairs: list[tuple[int, int]], array: Any) -> None:
    for low, high in pairs:
        array[low], array[high] = sorted((array[low], array[high]))


_OPERATIONS: dict[str, Any] = {
    "kd_range": range,
    "kd_complex": complex,
    "kd_unsigned": lambda index: index,
    "kd_place": int,
    "kd_unroll": lambda: None,
    "kd_is_wide": _is_wide,
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
    **{f"kd_transfer_{group}": functools.partial(_transfer, group=group) for group in (2, 4)},
    **{f"kd_as_{name}": functools.partial(_converted, name) for name in DTYPE_NAMES},
}
