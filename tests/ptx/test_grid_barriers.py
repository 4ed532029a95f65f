"""The barrier of a grid in PTX: the driver's word, and fences on both sides."""

from __future__ import annotations

import re

import pytest

import kerneldsl as kd
from tests.ptx.helpers import (
    ARCH_PARAMETERS,
    ASSEMBLED_ARCHS,
    assemble_together,
    body_of,
    compile_ptx,
)


@kd.kernel
def exchanged(x, out):
    i = kd.grid(1)
    out[i] = x[0]
    kd.grid_group().sync()
    if i == 0:
        x[0] = 3.0
    kd.grid_group().sync()
    out[i] += x[0]


_SIGNATURE = "float64[::1], float64[::1]"


@pytest.mark.parametrize("arch", ARCH_PARAMETERS)
def test_two_barriers(arch: str) -> None:
    artifact = compile_ptx(exchanged, _SIGNATURE, arch)
    body = body_of(artifact)
    # The address that the driver gives, or an error of a launch that is not cooperative.
    assert re.search(r"%envreg1;", body)
    assert re.search(r"%envreg2;", body)
    assert "trap;" in body
    wait = r"ld\.(?:relaxed\.gpu|volatile)\.global\.b32"
    order = re.findall(rf"bar\.sync|membar\.gl|atom\.global\.add\.u32|{wait}", body)
    order = ["wait" if each.startswith("ld") else each for each in order]
    one = ["bar.sync", "membar.gl", "atom.global.add.u32", "wait", "membar.gl", "bar.sync"]
    assert order == one * 2
    if arch in ASSEMBLED_ARCHS:
        assert assemble_together([artifact], arch) == 1


@kd.kernel
def in_a_loop(x, n):
    i = kd.grid(1)
    for _ in range(n):
        x[i] = x[i] + x[(i + 1) % x.size]
        kd.grid_group().sync()
        x[i] = x[i] * 0.5
        kd.grid_group().sync()


@pytest.mark.parametrize("arch", ARCH_PARAMETERS)
def test_in_a_loop(arch: str) -> None:
    artifact = compile_ptx(in_a_loop, "float32[::1], int64", arch)
    assert len(re.findall(r"atom\.global\.add\.u32", artifact.ptx)) == 2
    assert artifact.ptx.count("bar.sync") == 4
    if arch in ASSEMBLED_ARCHS:
        assert assemble_together([artifact], arch) == 1


def test_a_thread_that_failed_keeps_nobody_waiting() -> None:
    """In debug mode a block that waits looks at the record of faults, too."""
    plain = body_of(compile_ptx(in_a_loop, "float32[::1], int64", "sm_90"))
    debug = body_of(compile_ptx(in_a_loop, "float32[::1], int64", "sm_90", debug=True))
    looks = r"ld\.relaxed\.gpu\.global\.b32"
    assert len(re.findall(looks, plain)) == 2
    assert len(re.findall(looks, debug)) > 2
