"""Products with quantized numbers on a GPU: they assemble, without spills on sm_90a."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import ToolMissingError
from stdlib_kernels import quantized
from stdlib_kernels.quantized import vectors, weights
from stdlib_kernels.quantized.formats import FORMATS
from targets import null
from targets.cuda.compile import ptxas
from tests.support.extent import full_beyond

WORDS, FLOATS, ZEROS, OUT = (
    f"{each}[:, ::1]" for each in ("uint32", "float32", "uint8", "bfloat16")
)
ROWS = {
    **{
        "rows": vectors.DEVICE_ROWS,
        "threads": vectors.DEVICE_THREADS,
        "is_whole": True,
        "height": 1,
    },
    **{"group": 16, "has_zeros": False},
}
TERNARY, FOUR_BITS = (
    {"bits": 2, "apart": 1, "flip": 0, "bias": 1},
    {"bits": 4, "flip": 0, "bias": 0},
)
BYTES = f"{WORDS}, int32[:, :, ::1], int32[:, ::1], {FLOATS}, {FLOATS}, {FLOATS}, {OUT}"
CASES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "ternary rows": (
        vectors.rows_by_bytes,
        {**ROWS, **TERNARY, "is_grouped": False, "has_groups": False},
        BYTES,
    ),
    "groups of rows": (
        vectors.rows_by_bytes,
        {**ROWS, **TERNARY, "is_grouped": True, "has_groups": True},
        BYTES,
    ),
    "float rows": (
        vectors.rows_by_floats,
        {**ROWS, **FOUR_BITS, "has_zeros": True},
        f"{WORDS}, float32[:, :, ::1], {FLOATS}, {ZEROS}, {OUT}",
    ),
}
#: Compute capabilities with and without instructions for the products.
DEVICES = {
    "sm_61": null.SMALL_OLD_CARD,
    "sm_80": replace(null.H100, arch="sm_80", extra={**null.H100.extra, "cluster_launch": 0}),
    "sm_90": null.H100,
}
PAIRS = [
    *itertools.product(("int8", "int4", "uint4", "ternary"), ("int8", *weights.FLOATS)),
    *itertools.product(("float8_e4m3fn", "float8_e5m2"), repeat=2),
]
GROUPS = [(1, 256), (1, 32), (128, 128)]
#: Device, format and dtype, rows and columns of a group, and rows.
LAUNCHES = [*itertools.product(DEVICES, PAIRS, GROUPS, (1, 5, 16, 64, 300, 4096))]
QUICK = [
    *((arch, ("ternary", "float32"), (1, 256), 4096) for arch in DEVICES),
    ("sm_80", ("uint4", "float16"), (1, 32), 300),
    ("sm_90", ("int4", "bfloat16"), (1, 256), 64),
    ("sm_90", ("uint4", "float16"), (128, 128), 40),
    ("sm_90", ("float8_e4m3fn", "float8_e4m3fn"), (128, 128), 4096),
]
PARAMETERS = full_beyond(
    itertools.starmap(pytest.param, LAUNCHES), [*itertools.starmap(pytest.param, QUICK)]
)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", full_beyond(CASES, ["ternary rows"]))
def test_it_assembles(name: str, arch: str) -> None:
    kernel, constants, signature = CASES[name]
    text = str(kernel.member(**constants).ptx(signature, arch=arch, block=128))
    try:
        (found,) = ptxas.assemble(text, arch).resources.values()
    except ToolMissingError as error:
        pytest.skip(str(error))
    assert found.spill_bytes == 0


@pytest.mark.parametrize(("arch", "pair", "group", "rows"), PARAMETERS)
def test_each_launch_is_possible(
    arch: str, pair: tuple[str, str], group: tuple[int, int], rows: int
) -> None:
    """Shared memory, registers and threads of each kernel are within those of the device."""
    inner, columns, chosen = 256, 8192, FORMATS[pair[0]]
    with null.described_as(DEVICES[arch]), kd.use("null"):
        words = kd.zeros((columns, chosen.elements(inner)), chosen.stored)
        x = kd.zeros((rows, inner), getattr(kd, pair[1]))
        scales = kd.zeros((columns // group[0], inner // group[1]), np.float32)
        zeros = kd.zeros(scales.shape, np.uint8) if chosen.has_zeros else None
        got = quantized.matmul(x, words, scales, zeros, format=pair[0])
        assert got.shape == (rows, columns)
