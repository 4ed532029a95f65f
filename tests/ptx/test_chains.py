"""Chains of blocks: what a block does before it looks at what others have published."""

from __future__ import annotations

import pytest

import kerneldsl as kd
from tests.ptx.helpers import body_of, compile_ptx


def _scan(x, out, state):
    part = kd.chain.next(state)
    out[part] = kd.chain.before(state, part, x[part])


@pytest.mark.parametrize(("arch", "sleeps"), [("sm_60", 0), ("sm_70", 1), ("sm_90", 1)])
def test_a_block_of_a_long_chain_sleeps_before_it_looks(arch: str, sleeps: int) -> None:
    signature = "float32[::1], float32[::1], uint64[::1]"
    body = body_of(compile_ptx(_scan, signature, arch))
    assert body.count("nanosleep.u32") == sleeps
