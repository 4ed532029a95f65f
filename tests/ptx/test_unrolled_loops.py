"""Loops over a thread's own arrays: unrolled in full, the arrays are registers."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd

SIGNATURE = "float32[::1], float32[::1]"
TURNS = 40


def _in_registers(kernel: kd.Kernel, **constants: object) -> bool:
    member = kernel.member(**constants) if constants else kernel
    return ".local" not in str(member.ptx(SIGNATURE, arch="sm_90"))


@kd.kernel
def reversed_parts(x, out, *, items):
    own = kd.local.array(items, kd.float32)
    first = kd.threadIdx.x
    for k in range(items):
        own[k] = x[first + k * 32] if first + k * 32 < x.size else kd.float32(0)
    for k in range(items // 2):
        v = own[k]
        own[k] = own[items - 1 - k]
        own[items - 1 - k] = v
    for k in range(items):
        if first + k * 32 < out.size:
            out[first + k * 32] = own[k]


@pytest.mark.parametrize("items", [2, 20, 64])
def test_an_array_is_in_registers(items: int) -> None:
    assert _in_registers(reversed_parts, items=items)


def test_a_longer_loop_stays_one() -> None:
    assert not _in_registers(reversed_parts, items=66)


@kd.kernel
def until_zero(x, out):
    own = kd.local.array(TURNS, kd.float32)
    for k in range(TURNS):
        own[k] = x[kd.threadIdx.x + k]
    for k in range(TURNS):
        if own[k] == 0:
            break
        out[kd.threadIdx.x + k] = own[k]


@kd.kernel
def up_to_an_argument(x, out):
    own = kd.local.array(TURNS, kd.float32)
    for k in range(TURNS):
        own[k] = x[kd.threadIdx.x + k]
    for k in range(x.size % TURNS):
        out[kd.threadIdx.x + k] = own[k]


@kd.kernel
def by_data(x, out):
    own = kd.local.array(TURNS, kd.float32)
    for k in range(TURNS):
        own[k] = x[kd.threadIdx.x * TURNS % (k + 3)]
    out[kd.threadIdx.x] = own[int(x[0])]


def test_an_array_that_data_index_stays_in_memory() -> None:
    ptx = str(by_data.ptx(SIGNATURE, arch="sm_90"))
    assert ".local" in ptx
    assert len(ptx.split("ld.global")) < TURNS // 2


@pytest.mark.parametrize("kernel", [until_zero, up_to_an_argument])
def test_loops_of_unknown_length_compile(kernel: kd.Kernel) -> None:
    assert ".entry" in str(kernel.ptx(SIGNATURE, arch="sm_90"))


def test_what_is_computed_is_the_same(rng) -> None:
    x = rng.random(32 * 20).astype(np.float32)
    out = np.full_like(x, np.nan)
    with kd.use("cpu"):
        reversed_parts[1, 32](x, out, items=20)
    np.testing.assert_array_equal(out.reshape(20, 32), x.reshape(20, 32)[::-1])
