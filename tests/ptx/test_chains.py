"""Chains of blocks: what a block does before it looks at what others have published."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import kerneldsl as kd
from tests.ptx.helpers import (
    ARCHS,
    ASSEMBLED_ARCHS,
    QUICK_ARCHS,
    assemble_together,
    body_of,
    compile_ptx,
)
from tests.support.extent import full_beyond

_SIGNATURE = "float32[::1], float32[::1], uint64[::1]"


def _scan(x, out, state):
    part = kd.chain.next(state)
    kd.atomic.add(out, 0, 1)
    out[part] = kd.chain.before(state, part, x[part])


def _published(x, out, state):
    part = kd.chain.next(state)
    kd.chain.publish(state, part, x[part])
    kd.atomic.add(out, 0, 1)
    out[part] = kd.chain.before(state, part, x[part])


@pytest.mark.parametrize("kernel", [_scan, _published])
@pytest.mark.parametrize(("arch", "sleeps"), [("sm_60", 0), ("sm_70", 1), ("sm_90", 1)])
def test_a_block_of_a_long_chain_sleeps_before_it_looks(
    kernel: Callable[..., None], arch: str, sleeps: int
) -> None:
    body = body_of(compile_ptx(kernel, _SIGNATURE, arch))
    assert body.count("nanosleep.u32") == sleeps


def test_a_block_that_has_published_sleeps_for_less() -> None:
    body = body_of(compile_ptx(_published, _SIGNATURE))
    (time,) = re.findall(r"nanosleep\.u32\s+(\S+);", body)
    assert re.search(rf"selp\.b32\s+{re.escape(time)}, 700, 1500,", body)


@pytest.mark.parametrize(("kernel", "is_before"), [(_scan, False), (_published, True)])
def test_a_value_is_published_before_what_follows(
    kernel: Callable[..., None], is_before: bool
) -> None:
    body = body_of(compile_ptx(kernel, _SIGNATURE))
    first = re.search(r"st\.relaxed\.gpu\S*\.b64", body)
    other = re.search(r"(?:atom|red)\S*\.add\.f32", body)
    assert first is not None
    assert other is not None
    assert (first.start() < other.start()) == is_before


@pytest.mark.parametrize("arch", full_beyond(ARCHS, QUICK_ARCHS[1:2]))
def test_what_is_published_assembles(arch: str) -> None:
    made = [
        compile_ptx(_published, f"{dtype}[::1], {dtype}[::1], int64[::1]", arch)
        for dtype in ("float32", "float64")
    ]
    assert all(f".target {arch}\n" in artifact.ptx for artifact in made)
    if arch in ASSEMBLED_ARCHS:
        assert assemble_together(made, arch) == len(made)
