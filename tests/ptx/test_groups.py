"""What operations of warps and blocks become: instructions, and shared memory that is counted."""

from __future__ import annotations

import re

import pytest

import kerneldsl as kd
from kerneldsl.errors import KernelTypingError
from tests.ptx.helpers import body_of, compile_ptx
from tests.support.extent import full_beyond

ONE_ARRAY = "float32[::1], float32[::1]"


def warp_total(x, out):
    i = kd.grid(1)
    out[i] = kd.warp.sum(x[i] * x[i])


def block_total(x, out):
    i = kd.grid(1)
    out[i] = kd.block.sum(x[i] * x[i])


def called_total(x, out):
    i = kd.grid(1)
    out[i] = kd.block.reduce(x[i] * x[i], lambda a, b: a + b)


def largest(x, out):
    i = kd.grid(1)
    out[i] = kd.warp.max(x[i])


def many(x, out):
    i = kd.grid(1)
    y = kd.block.sum(x[i])
    y += kd.block.inclusive_scan(y)
    y += kd.block.max(y)
    out[i] = kd.block.exclusive_scan(y)


def with_words(x, out):
    i = kd.grid(1)
    out[i] = kd.block.exchange(kd.block.sort(x[i]), 3)


def votes(x, out):
    i = kd.grid(1)
    out[i] = kd.block.count(x[i] > 0)
    if kd.block.any(x[i] > 1) and kd.block.all(x[i] > 2):
        out[i] = 0


def test_a_whole_warp_adds_in_five_shuffles_and_a_part_in_five_more() -> None:
    body = body_of(compile_ptx(warp_total, ONE_ARRAY))
    assert body.count("shfl.sync.idx.b32") == 10
    assert "bar." not in body
    assert "shared" not in body


def test_nothing_is_contracted_into_a_sum() -> None:
    for kernel in (warp_total, block_total):
        body = body_of(compile_ptx(kernel, ONE_ARRAY, "sm_90"))
        assert "fma" not in body
        # Without a rounding ptxas may contract.
        assert not re.search(r"\badd(\.ftz)?\.f32", body)
        assert "add.rn.f32" in body


def test_what_a_function_adds_comes_from_a_shuffle() -> None:
    body = body_of(compile_ptx(called_total, ONE_ARRAY, "sm_90"))
    product = re.search(r"mul\.(?:rn\.)?f32 \t(%r\d+)", body)
    assert product
    users = [line for line in body.splitlines() if re.search(rf", {product[1]}[,;]", line)]
    assert len(users) == 1
    assert "shfl.sync.idx.b32" in users[0]


def test_extremes_are_the_hardwares() -> None:
    assert "max.f32" in body_of(compile_ptx(largest, ONE_ARRAY))


def test_a_vote_of_a_block_is_its_barrier() -> None:
    artifact = compile_ptx(votes, ONE_ARRAY)
    body = body_of(artifact)
    assert [body.count(f"bar.red.{mode}") for mode in ("popc", "or", "and")] == [1, 1, 1]
    assert artifact.specialization.traits.static_shared_bytes == 0


@pytest.mark.parametrize("arch", full_beyond(("sm_75", "sm_90", "sm_120"), ("sm_90",)))
@pytest.mark.parametrize("kernel", [warp_total, block_total, many, with_words, called_total])
def test_shared_memory_is_what_the_planner_counts(kernel, arch: str) -> None:
    artifact = compile_ptx(kernel, ONE_ARRAY, arch)
    declared = re.findall(r"\.shared \.align \d+ \.b8 \w+\[(\d+)\]", artifact.ptx)
    assert sum(map(int, declared)) == artifact.specialization.traits.static_shared_bytes


@kd.func
def pair(a, b):
    return a, b


def test_an_operation_must_give_what_it_takes() -> None:
    def kernel(x, out):
        out[0] = kd.block.reduce(x[0], pair)

    with pytest.raises(KernelTypingError) as raised:
        compile_ptx(kernel, ONE_ARRAY)
    assert "must give a number that can be converted to float32" in str(raised.value.__cause__)


def test_a_scan_with_an_operation_needs_a_beginning() -> None:
    def kernel(x, out):
        out[0] = kd.warp.exclusive_scan(x[0], lambda a, b: a * b)

    with pytest.raises(KernelTypingError) as raised:
        compile_ptx(kernel, ONE_ARRAY)
    assert "give initial" in str(raised.value.__cause__)
