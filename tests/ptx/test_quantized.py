"""Products with quantized numbers on a GPU: they assemble, without spills on sm_90a."""

from __future__ import annotations

from typing import Any

import pytest

import kerneldsl as kd
from kerneldsl.errors import ToolMissingError
from stdlib_kernels.quantized import tiles, vectors
from targets.cuda.compile import ptxas
from tests.support.extent import full_beyond

WORDS, FLOATS, ZEROS, OUT = (
    f"{each}[:, ::1]" for each in ("uint32", "float32", "uint8", "bfloat16")
)
ROWS = {
    **{"rows": vectors.ROWS, "threads": vectors.DEVICE_THREADS, "is_whole": True, "height": 1},
    **{"group": 16, "has_zeros": False},
}
TERNARY, FOUR_BITS = {"bits": 2, "flip": 0, "bias": 1}, {"bits": 4, "flip": 0, "bias": 0}
BYTES = f"{WORDS}, int32[:, :, ::1], int32[:, ::1], {FLOATS}, {FLOATS}, {FLOATS}, {OUT}, int64"
TILE = dict(zip(("rows", "columns", "depth"), tiles.DEVICE_TILES[-1], strict=False))
PACKED = {**TILE, "numbers": kd.ternary, "is_packed": True}
PLAIN = {**TILE, "numbers": kd.int4, "is_packed": False}
GROUPS = {"group": 128, "height": 1, "share": TILE["columns"], "has_zeros": False}
HALVES = "float16[:, ::1]"
FLOAT8 = "float8_e4m3fn[:, ::1]"
CASES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "ternary rows": (vectors.rows_by_bytes, {**ROWS, **TERNARY, "is_grouped": False}, BYTES),
    "groups of rows": (vectors.rows_by_bytes, {**ROWS, **TERNARY, "is_grouped": True}, BYTES),
    "float rows": (
        vectors.rows_by_floats,
        {**ROWS, **FOUR_BITS, "has_zeros": True},
        f"{WORDS}, float32[:, :, ::1], {FLOATS}, {ZEROS}, {OUT}",
    ),
    "ternary tiles": (
        tiles.rows_of_codes,
        {**PACKED, "sums": kd.int32},
        f"int8[:, ::1], {WORDS}, {FLOATS}, {FLOATS}, {OUT}",
    ),
    "tiles of 8-bit floats": (
        tiles.rows_of_codes,
        {**PLAIN, "sums": kd.float32},
        f"{FLOAT8}, {FLOAT8}, {FLOATS}, {FLOATS}, {OUT}",
    ),
    "blocks of 8-bit floats": (
        tiles.groups_of_codes,
        {**PLAIN, **GROUPS, "height": 128, "share": 1},
        f"{FLOAT8}, {FLOAT8}, {FLOATS}, {FLOATS}, {FLOATS}, {OUT}, int64",
    ),
    "tiles of floats": (
        tiles.rows_of_floats,
        {**PACKED, **GROUPS, "numbers": kd.uint4, "has_zeros": True, "scales_sums": False},
        f"{OUT}, {WORDS}, {FLOATS}, {ZEROS}, {OUT}",
    ),
    "tiles of halves": (
        tiles.rows_of_floats,
        {**PACKED, **GROUPS, "numbers": kd.uint4, "has_zeros": True, "scales_sums": True},
        f"{HALVES}, {WORDS}, {FLOATS}, {ZEROS}, {HALVES}",
    ),
}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", full_beyond(CASES, ["ternary rows", "ternary tiles"]))
def test_it_assembles(name: str, arch: str) -> None:
    kernel, constants, signature = CASES[name]
    text = str(kernel.member(**constants).ptx(signature, arch=arch, block=128))
    try:
        (found,) = ptxas.assemble(text, arch).resources.values()
    except ToolMissingError as error:
        pytest.skip(str(error))
    # Two kernels with tiles spill 24 and 48 bytes on sm_80.
    assert found.spill_bytes <= (48 if arch == "sm_80" and "of" in name else 0)
    assert ("mma" in text) == ("tiles" in name or "blocks" in name)


@pytest.mark.parametrize("name", full_beyond(["tiles of floats", "tiles of halves"], []))
def test_the_largest_tile_spills_little(name: str) -> None:
    kernel, constants, signature = CASES[name]
    rows, columns, depth, threads = tiles.DEVICE_TILES[0]
    chosen = {"rows": rows, "columns": columns, "depth": depth, "share": columns}
    text = str(kernel.member(**constants | chosen).ptx(signature, arch="sm_90a", block=threads))
    try:
        (found,) = ptxas.assemble(text, "sm_90a").resources.values()
    except ToolMissingError as error:
        pytest.skip(str(error))
    assert found.spill_bytes <= 96  # stores and loads of a dozen registers
