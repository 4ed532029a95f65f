"""What is said of a kernel has a place in the user's files, whichever function it is about."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import KernelError, SourceLocation
from kerneldsl.utilities.tracebacks import OWN_FOLDERS
from tests.support.extent import full_beyond

N = 1 << 10


@kd.kernel
def random_numbers(states, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = kd.random.xoroshiro128p_uniform_float32(states, i) + kd.random.normal_float32(7, i)


@kd.kernel
def random_doubles(states, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = kd.random.normal_float64(7, i) * kd.random.xoroshiro128p_normal_float64(states, i)


@kd.kernel
def reductions(states, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i:].sum() + x[: i + 1].mean() + x[i:].max() + x[i:].min() + x[i:].prod()


@kd.kernel
def places(states, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i:].argmax() + x[i:].argmin() + np.dot(x[i:], x[i:])
        if x[i:].any() and x[:i].all():
            out[i] += np.float32(1)


@kd.kernel
def assigned_rows(states, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i:] = x[i:] * 2


@kd.kernel
def block_operations(states, x, out):
    i = kd.grid(1)
    v = kd.block.sum(x[i]) + kd.block.inclusive_scan(x[i]) + kd.block.max(x[i])
    out[i] = v + kd.warp.sum(v)


@kd.kernel
def tiles(states, x, out):
    a = kd.tile.load(x, (kd.blockIdx.x,), (256,))
    kd.tile.store(out, (kd.blockIdx.x,), a * 2 + a.sum())


KERNELS = [
    random_numbers,
    random_doubles,
    reductions,
    places,
    assigned_rows,
    block_operations,
    tiles,
]


def is_user(where: SourceLocation) -> bool:
    return where.filename == __file__ and not where.filename.startswith(OWN_FOLDERS)


def arguments() -> tuple[Any, ...]:
    states = kd.random.create_xoroshiro128p_states(N, seed=1)
    return states, np.ones(N, np.float32), np.zeros(N, np.float32)


@pytest.fixture
def explanations() -> Iterator[Any]:
    def explain(kernel: Any) -> Any:
        shape = {"block": 256, "grid": N // 256}
        if kernel not in (block_operations, tiles):
            shape = {"forall": N}
        return kernel.explain(*arguments(), **shape)

    with kd.use("cpu"):
        yield explain


@pytest.mark.parametrize(
    "kernel", full_beyond(KERNELS, KERNELS[::6]), ids=lambda kernel: kernel.__name__
)
def test_explanations_are_of_the_users_lines(kernel: Any, explanations: Any) -> None:
    found = explanations(kernel)
    told = [*found.findings, *found.accesses, *found.branches]
    assert told
    assert [each for each in told if not is_user(each.where)] == []
    # A text is what stands there, not a line of ours.
    for each in itertools.chain(found.accesses, found.branches):
        assert "row" not in each.text


def test_findings_of_a_function_of_ours_name_the_call() -> None:
    found = reductions.explain(*arguments(), forall=N)
    texts = {each.text for each in found.accesses if each.array == "x"}
    assert {"x[i:].sum()", "x[: i + 1].mean()", "x[i:].max()", "x[i:].min()"} <= texts


@kd.kernel
def of_text(states, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = kd.random.uniform_float32("states", i)


@kd.kernel
def of_a_number(states, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = kd.random.xoroshiro128p_normal_float32(x, i)


@kd.kernel
def by_a_float(states, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = kd.random.xoroshiro128p_normal_float64(states, x)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("kernel", [of_text, of_a_number, by_a_float], ids=lambda k: k.__name__)
def test_errors_are_at_the_users_lines(kernel: Any, target: str) -> None:
    write = kernel.cpu_source if target == "cpu" else kernel.ptx
    more = {} if target == "cpu" else {"arch": "sm_90"}
    with pytest.raises(KernelError) as caught:
        write(*arguments(), forall=1, **more)
    assert caught.value.where is not None
    assert is_user(caught.value.where), caught.value
    assert not any(folder in str(caught.value) for folder in OWN_FOLDERS)


@kd.kernel(debug=True)
def beyond_the_states(states, x, out):
    i = kd.grid(1)
    out[i] = kd.random.xoroshiro128p_uniform_float32(states, i + states.size)


def test_faults_of_debug_mode_are_at_the_users_lines() -> None:
    with kd.use("cpu"), pytest.raises(IndexError, match="axis 0 of states") as caught:
        beyond_the_states.forall(8)(*arguments())
    where = caught.value.where  # type: ignore[attr-defined]
    assert is_user(where)
    assert "xoroshiro128p_uniform_float32(states" in where.line
