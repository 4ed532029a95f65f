"""The library's kernels on a GPU: they assemble, without a register spilled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import ToolMissingError
from stdlib_kernels import histogram, operations, rows, stencil
from stdlib_kernels import sort as sorting
from stdlib_kernels.compact import chosen
from stdlib_kernels.copying import itself
from stdlib_kernels.histogram import counting
from stdlib_kernels.linalg import batches, blocks
from stdlib_kernels.movement import permuting
from stdlib_kernels.reduce import folding, moments, places
from stdlib_kernels.rows import exponentials, normalization
from stdlib_kernels.scan import calls as scans
from stdlib_kernels.sort import onesweep, searching
from stdlib_kernels.sort import rows as tiles
from stdlib_kernels.sort.onesweep import order_of
from stdlib_kernels.stencil import lines
from targets.cuda.compile import ptxas
from targets.null.executable import NullExecutable
from tests.support.extent import full_beyond

X, PLACES, ROW, FACTORS = (
    "float32[:, :, ::1]",
    "int64[:, :, ::1]",
    "float32[:, ::1]",
    "float32[::1]",
)
ZERO = np.float32(0)
F32 = np.float32


FOLD = {
    **{"strip": 8, "number": F32, "op": operations.add, "identity": ZERO},
    **{"lift": lambda v, w, p: v * w, "finish": lambda total, p: total / p},
}
MOMENTS = {"number": F32, "zero": ZERO, "size": F32, "finish": lambda v: v, "is_whole": False}
PLACE = {"number": F32, "better": lambda v, found: v > found, "is_first": False, "is_last": False}
ROW_PLACE = {**PLACE, "strip": folding.STRIP}
COUNT = {
    **{"number": F32, "bin_of": counting.evenly, "span_of": counting._span},
    **{"is_weighted": False, "are_pairs": False},
}
COUNTED = f"{FACTORS}, {FACTORS}, {FACTORS}, {FACTORS}, {FACTORS}, int64[::1]"
SCAN = {"number": F32, "op": operations.larger, "identity": ZERO, "is_exclusive": True}
SOFTMAX = {"number": F32, "is_log": False}
WORDS = "uint32[:, ::1]"
FLOATS, LONG = (order_of(np.dtype(each), descending=False) for each in (F32, np.float64))
NORM = {
    **{"number": F32, "is_centred": True, "centre": lambda v, i, mean, n: v - mean},
    "form": lambda v, i, scale, w, b, at: v * scale * w[i],
}
VECTORS = {"number": F32, "vector": kd.float32x4}
NO_REPEATS = {"repeats_a": False, "repeats_b": False}
WEIGHTS = {"width": 4, "store": itself, "divides": False, **VECTORS}
CASES = {
    "fold rows": (folding.fold_rows, FOLD, f"{X}, {X}, {X}, int64, float64"),
    "fold columns": (folding.fold_columns, FOLD, f"{X}, {X}, {X}, int64, float64"),
    "moments of rows": (moments.moments_of_rows, MOMENTS, f"{X}, {X}, {X}, int64, float32"),
    "moments of columns": (
        moments.moments_of_columns,
        MOMENTS,
        f"{X}, {X}, {X}, int64, float32",
    ),
    "moments of whole rows": (
        moments.moments_of_rows,
        {**MOMENTS, "is_whole": True},
        f"{X}, {X}, {X}, int64, float32",
    ),
    "moments combined": (
        moments.combine_moments,
        {"zero": ZERO, "size": F32, "finish": lambda v: v},
        f"{X}, {X}, {ROW}, int64, int64, float32",
    ),
    "places in rows": (places.places_in_rows, ROW_PLACE, f"{X}, {PLACES}, {X}, {PLACES}, int64"),
    "places in columns": (places.places_in_columns, PLACE, f"{X}, {PLACES}, {X}, {PLACES}, int64"),
    "places in whole rows": (
        places.places_in_rows,
        {**ROW_PLACE, "is_first": True, "is_last": True},
        f"{X}, {X}, {PLACES}, {PLACES}, int64",
    ),
    "chosen elements": (
        chosen.move_chosen,
        {
            "block": 256,
            "items": 16,
            "number": np.int32,
            "element": F32,
            "is_chosen": chosen.is_not_zero,
            "holds": "elements",
            "gives": "elements",
        },
        f"bool[::1], {FACTORS}, {FACTORS}, int64[::1], uint64[::1]",
    ),
    "chosen places": (
        chosen.move_chosen,
        {
            "block": 256,
            "items": 20,
            "number": np.int32,
            "element": np.uint16,
            "is_chosen": chosen.begins_run,
            "holds": "places",
            "gives": "places",
        },
        f"{FACTORS}, {FACTORS}, int64[::1], int64[::1], uint64[::1]",
    ),
    "sorted tiles": (
        tiles.sort_tile,
        {
            **{"count": 1, "width": 1024, "rank": LONG.rank, "last": LONG.last},
            **{"gives": "values", "is_cut": False},
        },
        ", ".join([WORDS.replace("32", "64")] * 4) + ", uint64, int64",
    ),
    "counted digits": (
        onesweep.count_digits,
        {"block": 256, "chunk": 16384, "digits": 4, "digit": FLOATS.digit},
        f"{WORDS}, int64[:, :, ::1], uint32, int64",
    ),
    "elements moved by a digit": (
        onesweep.move_by_digit,
        {
            **{
                "block": onesweep.BLOCK,
                "items": onesweep.MAX_PAIRS,
                "digit": FLOATS.digit,
                "gives": "values",
            },
            **{"key": np.uint32, "value": np.uint32, "place": np.int32, "flag": 30},
            "bytes_held": onesweep.MAX_PAIRS * 4 * onesweep.BLOCK,
        },
        f"{WORDS}, {WORDS}, {WORDS}, {WORDS}, int64[:, ::1], uint32[::1], int64[::1], uint32, "
        "int64, int64",
    ),
    "tiles that are copied": (
        permuting.copy_tiles,
        {"height": 512, "width": 8, "items": 16, "number": F32},
        f"{X}, float32[:, :, :], int64, int64",
    ),
    "products of small matrices": (
        batches.matmul_small,
        {"rows": 8, "depth": 8, "parts": 2, "own": 4, "width": 4, **VECTORS, **NO_REPEATS},
        f"{ROW}, {ROW}, {ROW}, {ROW}, {ROW}, int64",
    ),
    "blocks of a product": (
        blocks.matmul_blocks,
        {"whole": True, "halves": 1, **VECTORS},
        f"{ROW}, {ROW}, {ROW}",
    ),
    "wide blocks of a product": (
        blocks.matmul_blocks,
        {"whole": False, "halves": 2, **VECTORS},
        f"{ROW}, {ROW}, {ROW}",
    ),
    "a filter of rows": (
        lines.along_rows,
        {"taps": 17, "reach": 32, "items": lines.ROW_ITEMS, **WEIGHTS},
        f"{ROW}, {FACTORS}, {ROW}, int64, float32, int64, float32",
    ),
    "a filter of columns": (
        lines.along_columns,
        {"taps": 17, "items": lines.COLUMN_ITEMS, **WEIGHTS},
        f"{X}, {FACTORS}, {X}, int64, float32, int64, float32",
    ),
    "merged arrays": (
        searching.merge_two,
        {"number": F32, "rank": searching._rank_of(np.dtype(F32))},
        f"{FACTORS}, {FACTORS}, {FACTORS}",
    ),
    "counters of a block": (
        counting.count_apart,
        {
            **COUNT,
            "width": 256,
            "copies": 32,
            "items": counting.ITEMS,
            "block": counting.BLOCK,
            "counter": np.int32,
            "nothing": F32(np.nan),
        },
        f"{COUNTED}, int64",
    ),
    "common counters": (counting.count_together, {**COUNT, "counter": np.int64}, COUNTED),
    "sum by a chain": (
        scans.sum_chain,
        {
            "width": scans.TILE_BYTES // 4,
            "number": F32,
            "identity": ZERO,
            "is_exclusive": False,
        },
        f"{FACTORS}, {FACTORS}, uint64[::1]",
    ),
    "scan by a chain": (
        scans.scan_chain,
        {**SCAN, "block": 256, "items": 16},
        f"{FACTORS}, {FACTORS}, uint64[::1]",
    ),
    "scan of rows": (scans.scan_rows, {**SCAN, "block": 256}, f"{ROW}, {ROW}"),
    "scan of columns": (scans.scan_columns, SCAN, f"{X}, {X}"),
    "softmax": (exponentials.softmax_short, {**SOFTMAX, "width": 4096}, f"{ROW}, {ROW}"),
    "softmax of long rows": (
        exponentials.softmax_long,
        {**SOFTMAX, "width": 4096},
        f"{ROW}, {ROW}",
    ),
    "softmax of columns": (exponentials.softmax_columns, SOFTMAX, f"{X}, {X}"),
    "norm": (
        normalization.normalize_short,
        {**NORM, "width": 4096},
        f"{ROW}, {ROW}, {FACTORS}, {FACTORS}, float32, float32",
    ),
    "norm of long rows": (
        normalization.normalize_long,
        {**NORM, "width": 4096},
        f"{ROW}, {ROW}, {FACTORS}, {FACTORS}, float32, float32",
    ),
    "norm of columns": (
        normalization.normalize_columns,
        NORM,
        f"{X}, {X}, {FACTORS}, {FACTORS}, float32, float32",
    ),
}


def _resources(kernel: Any, constants: dict[str, Any], signature: str) -> Any:
    member = kernel.member(**constants) if constants else kernel
    text = str(member.ptx(signature, arch="sm_90"))
    try:
        (found,) = ptxas.assemble(text, "sm_90").resources.values()
    except ToolMissingError as error:
        pytest.skip(str(error))
    return found


@pytest.mark.parametrize("name", full_beyond(CASES, ["fold rows", "norm"]))
def test_it_assembles(name: str) -> None:
    found = _resources(*CASES[name])
    assert (found.spill_bytes, found.local_bytes) == (0, 0)


def test_a_sort_of_keys_spills_few_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what a launch promises, which leaves fewer registers to addresses of 64 bits."""
    found: dict[str, Any] = {}
    examine = NullExecutable.examine

    def noted(self: NullExecutable, *launched: Any) -> Any:
        found[self.artifact.entry_name] = self.resources
        return examine(self, *launched)

    monkeypatch.setattr(NullExecutable, "examine", noted)
    with kd.use("null"):
        sorting.sort(kd.empty(1 << 20, np.int32))
    if found["move_by_digit"].spill_bytes is None:
        pytest.skip("there is no ptxas")
    assert found["move_by_digit"].spill_bytes <= 216


@pytest.mark.parametrize(
    ("call", "entry"),
    [
        # Functions that the loops call return early, or have loops.
        (lambda: histogram.histogram(kd.empty(1 << 24, F32), 256, (0, 1)), "count_apart"),
        (lambda: histogram.histogram(kd.empty(1 << 24, F32), kd.empty(9, F32)), "count_apart"),
        (lambda: sorting.argsort(kd.empty(1 << 22, F32)), "move_by_digit"),
        # A loop in a loop.
        (
            lambda: stencil.convolve(kd.empty((4096, 4096), F32), kd.empty((7, 7), F32)),
            "weigh_tiles",
        ),
    ],
    ids=["histogram", "histogram between edges", "argsort", "convolve"],
)
def test_arrays_of_a_thread_are_in_registers(
    call: Any, entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    examine = NullExecutable.examine

    def noted(self: NullExecutable, *launched: Any) -> Any:
        if self.artifact.entry_name == entry:
            found.append(self.artifact.ptx)
        return examine(self, *launched)

    monkeypatch.setattr(NullExecutable, "examine", noted)
    with kd.use("null"):
        call()
    assert found
    assert not any("__local_depot" in text for text in found)


def test_llvm_does_not_warn_of_a_loop_around_unrolled_ones(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with kd.use("null"):
        rows.softmax(kd.empty((64, 1 << 18), F32))
    assert capfd.readouterr().err == ""


def test_argmax_loads_several_elements_before_it_compares_them() -> None:
    kernel, constants, signature = CASES["places in whole rows"]
    text = str(kernel.member(**constants).ptx(signature, arch="sm_90"))
    loads = "".join(
        "L" if "ld.global" in line else "C" * ("setp.gt.f32" in line) for line in text.splitlines()
    )
    assert "L" * folding.STRIP + "C" * folding.STRIP in loads


def test_two_blocks_that_sort_keys_alone_have_their_registers() -> None:
    kernel, constants, signature = CASES["elements moved by a digit"]
    items = {"items": onesweep.MAX_KEYS, "bytes_held": onesweep.MAX_KEYS * 4 * onesweep.BLOCK}
    found = _resources(kernel, {**constants, **items, "gives": "keys"}, signature)
    assert 2 * onesweep.BLOCK * found.registers <= 1 << 16
    assert found.spill_bytes <= 48
