"""Views of shared memory as vectors: one access of memory for each vector."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import ArrayPromises, Promises
from tests.ptx.helpers import body_of, compile_ptx

_ALIGNED = Promises((ArrayPromises(16), ArrayPromises(16)), is_disjoint=True)


def rows_turned_over(x: Any, out: Any) -> None:
    tile = kd.shared.array((16, 132), np.float32)
    tiles, xs, outs = (
        kd.view(tile, kd.float32x4),
        kd.view(x, kd.float32x4),
        kd.view(out, kd.float32x4),
    )
    row, column = kd.threadIdx.y, kd.threadIdx.x
    tiles[row, column] = xs[row, column]
    kd.syncthreads()
    outs[row, column] = tiles[15 - row, column]


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_vectors_of_shared_memory_are_one_access(arch: str) -> None:
    signature = "float32[:, ::1], float32[:, ::1]"
    found = compile_ptx(rows_turned_over, signature, arch, promises=_ALIGNED)
    accesses = re.findall(r"\b(?:ld|st)\.shared\S*", body_of(found))
    assert [each.split(".")[:3] for each in accesses] == [
        ["st", "shared", "v4"],
        ["ld", "shared", "v4"],
    ]
