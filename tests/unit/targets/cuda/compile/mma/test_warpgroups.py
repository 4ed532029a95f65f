"""Products of tiles by warpgroups: members assemble as they are meant, others say why not."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract.tensor_maps import TensorMap
from stdlib_kernels.linalg import matmul
from stdlib_kernels.linalg.product import DEVICE_TILES, matmul_mma
from targets.cuda.compile import ptxas, stored
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.compile.lowered import NO_ADDITIONS, LaunchAdditions
from targets.cuda.compile.ptxas import Assembled, assemble, problem_of
from tests.support.extent import sample
from tests.support.launched import null_in_use
from tests.support.products import compile_product, product, shared_product

#: Tile, threads, dtypes of the factors and the result, and what else is said.
_MEMBERS = [
    ((128, 256, 64), 256, "bfloat16", "float32", {}),
    ((128, 256, 64), 256, "float16", "float16", {"is_b_turned": False}),
    ((128, 128, 64), 256, "bfloat16", "bfloat16", {"is_a_turned": True, "is_b_turned": False}),
    ((256, 128, 64), 256, "bfloat16", "float32", {"is_a_turned": True}),
    ((64, 256, 64), 128, "bfloat16", "float32", {}),
    ((64, 256, 64), 256, "bfloat16", "bfloat16", {}),
    ((192, 192, 64), 384, "bfloat16", "float32", {}),
    ((128, 128, 32), 256, "float32", "float32", {"precision": "tf32"}),
    ((128, 128, 128), 256, "float8_e4m3fn", "float32", {}),
    ((128, 256, 128), 256, "float8_e5m2", "float32", {"promote": None}),
    ((128, 256, 128), 256, "int8", "int32", {"sums": kd.int32}),
]


def _signature(factors: str, result: str) -> str:
    return f"{factors}[:, ::1], {factors}[:, ::1], {result}[:, ::1]"


def _reason(artifact: CudaArtifact) -> str:
    assert artifact.additions == NO_ADDITIONS
    return next(each.text for each in artifact.passes if each.name == "multiply-by-warpgroups")


@pytest.mark.parametrize(
    ("tile", "threads", "factors", "result", "others"), sample(_MEMBERS, count=3)
)
def test_members_assemble_without_waits_between_instructions(
    tile, threads, factors, result, others
):
    kernel = shared_product(*tile, **others)
    artifact = compile_product(kernel, _signature(factors, result), threads=threads)
    assert artifact.additions.threads == 128
    assert len(artifact.tensor_maps) == 3
    assert problem_of(assemble(artifact.ptx, "sm_90a"), artifact.entry_name) is None
    assert f".maxntid {threads + 128}" in artifact.ptx
    assert artifact.ptx.count(".param .align 128 .b8") == 3
    depth = {"bfloat16": 16, "float16": 16, "float32": 8}.get(factors, 32)
    assert artifact.ptx.count("wgmma.mma_async") == tile[2] // depth * max(
        1, tile[0] // threads * 2
    )


@pytest.mark.parametrize(
    ("result", "columns", "nbytes"), [("bfloat16", 32, 2), ("float32", 16, 4), ("float64", 128, 0)]
)
def test_a_thread_stores_16_bytes_of_a_row(result, columns, nbytes):
    """Of rows that no box has."""
    artifact = compile_product(shared_product(128, columns, 64), _signature("bfloat16", result))
    assert artifact.ptx.count("st.global.v4") == 128 * columns * nbytes // (256 * 16)


_STORE = "cp.async.bulk.tensor.2d.global.shared::cta"


@pytest.mark.parametrize(
    ("tile", "threads", "result", "boxes"),
    [
        ((128, 256, 64), 256, "bfloat16", 4),
        ((256, 128, 64), 256, "bfloat16", 4),
        ((64, 128, 64), 128, "float32", 4),
        ((128, 192, 64), 256, "float16", 3),
    ],
)
def test_whole_tiles_are_stored_in_boxes(tile, threads, result, boxes):
    artifact = compile_product(
        shared_product(*tile), _signature("bfloat16", result), threads=threads
    )
    assert artifact.ptx.count(_STORE) == boxes
    assert "st.global.v" not in artifact.ptx
    assert artifact.tensor_maps[2].box == (128 // (4 if result == "float32" else 2), 64)


def scaled_sum(v, i, j, scale, bias, n):
    return math.erf(v * scale) + kd.float32(bias[n + j])


@kd.kernel
def with_function(a, b, bias, c, scale):
    for m, n in kd.tiles(c.shape, (128, 256)):
        total = kd.tile.zeros((128, 256), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x, y = kd.tile.load(a, (m, k), (128, 64)), kd.tile.load(b, (n, k), (256, 64))
            total = kd.mma(x, y.T, total)
        kd.tile.store(c, (m, n), total, scaled_sum, scale, bias, n)


def test_functions_of_results_are_stored_in_boxes():
    kind = "bfloat16[:, ::1]"
    artifact = compile_product(with_function, f"{kind}, {kind}, float32[::1], {kind}, float32")
    # Once for each of the thread's elements of the tile, and in a loop for its edges.
    assert artifact.ptx.count("ex2.approx") == 64 * 256 // 128 + 1
    assert artifact.ptx.count(_STORE) == len(artifact.tensor_maps) + 1 == 4
    # What the function reads is loaded by vectors.
    assert artifact.ptx.count("ld.global.v2.b32") == 256 // 8
    assert problem_of(assemble(artifact.ptx, "sm_90a"), artifact.entry_name) is None


@kd.kernel
def added(a, b, c, d):
    for m, n in kd.tiles(c.shape, (128, 64)):
        total = kd.tile.zeros((128, 64), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x, y = kd.tile.load(a, (m, k), (128, 64)), kd.tile.load(b, (n, k), (64, 64))
            total = kd.mma(x, y.T, total)
        kd.tile.store(c, (m, n), total, plus, c, d, m, n)


def plus(v, i, j, c, d, m, n):
    return v + c[m + i, n + j] * d


@kd.kernel
def stored_again(a, b, c, d):
    for m, n in kd.tiles(c.shape, (128, 64)):
        total = kd.tile.zeros((128, 64), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x, y = kd.tile.load(a, (m, k), (128, 64)), kd.tile.load(b, (n, k), (64, 64))
            total = kd.mma(x, y.T, total)
        kd.tile.store(c, (m, n), total)
        if d > 0:
            kd.tile.store(c, (m, n), total * d)


@kd.kernel
def stored_in_turns(a, b, c, d):
    for m, n in kd.tiles(c.shape, (128, 64)):
        total = kd.tile.zeros((128, 64), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x, y = kd.tile.load(a, (m, k), (128, 64)), kd.tile.load(b, (n, k), (64, 64))
            total = kd.mma(x, y.T, total)
        for turn in range(int(d)):
            kd.tile.store(c, (m, n), total + turn)


@pytest.mark.parametrize("kernel", [added, stored_again, stored_in_turns])
def test_arrays_with_other_accesses_are_not_stored_in_boxes(kernel):
    """The copies of boxes have no order among other accesses."""
    artifact = compile_product(kernel, f"{_signature('bfloat16', 'float32')}, float32")
    assert artifact.additions.threads == 128
    assert _STORE not in artifact.ptx


@pytest.mark.parametrize(
    ("tile", "threads", "others", "pending"),
    [
        ((128, 128, 64), 256, {}, ["1", "0"]),
        ((128, 256, 64), 256, {}, ["0"]),  # a ring of four slots, for two warpgroups
        ((64, 256, 64), 128, {}, ["1", "0"]),
        ((64, 128, 64), 128, {"stages": 1}, ["0"]),
    ],
)
def test_products_of_an_iteration_still_run_in_the_next_one(tile, threads, others, pending):
    kernel, signature = product(*tile, **others), _signature("bfloat16", "float32")
    artifact = compile_product(kernel, signature, threads=threads)
    assert re.findall(r"wgmma.wait_group.sync.aligned (\d)", artifact.ptx) == pending


@pytest.mark.parametrize(("promote", "added"), [(64, 2), (128, 1), (None, 0)])
def test_promoted_sums_are_complete_in_their_iteration(promote, added):
    """A thread adds its 64 sums of so many products along k as float32."""
    kernel = product(128, 128, 128, promote=promote)
    artifact = compile_product(kernel, _signature("float8_e4m3fn", "float32"))
    assert artifact.ptx.count("add.rn.f32") + artifact.ptx.count("add.f32") == 64 * added
    waits = set(re.findall(r"wgmma.wait_group.sync.aligned (\d)", artifact.ptx))
    assert waits == {"0"} or promote is None


def test_maps_are_of_boxes_with_rows_of_128_bytes():
    artifact = compile_product(shared_product(128, 256, 128), _signature("bfloat16", "float32"))
    assert artifact.tensor_maps == (
        TensorMap(0, (1, 0), (64, 128), 128),
        TensorMap(1, (1, 0), (64, 256), 128),
        TensorMap(2, (1, 0), (32, 64), 128),
    )
    slot, boxes = 2 * 128 * (128 + 256), 2 * 2 * 64 * 128
    assert artifact.matrix_shared_bytes == 1024 + boxes + 2 * (slot + 16)


def test_stages_say_how_many_iterations_a_copy_is_early():
    found = [
        compile_product(shared_product(128, 128, 64, stages=n), _signature("bfloat16", "float32"))
        for n in (1, 2, None)
    ]
    boxes = 2 * 2 * 64 * 128
    slots = [(each.matrix_shared_bytes - 1024 - boxes) // (2 * 64 * 256 + 16) for each in found]
    assert slots == [2, 3, 6]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"alignment": 8}, "multiples of 16 bytes"),
        ({"is_disjoint": False}, "overlap"),
        ({"threads": 192}, "one to three warpgroups"),
        ({"threads": 512}, "one to three warpgroups"),
    ],
)
def test_launches_that_copies_do_not_fit_have_other_code(options, reason):
    artifact = compile_product(
        shared_product(128, 16, 64), _signature("bfloat16", "float32"), **options
    )
    assert reason in _reason(artifact)
    assert "wgmma" not in artifact.ptx


@pytest.mark.parametrize(
    ("tile", "factors", "others", "reason"),
    [
        ((192, 16, 64), "bfloat16", {}, "192 rows are no multiple of 128"),
        ((128, 16, 32), "bfloat16", {}, "whole boxes"),
        ((128, 16, 32), "float32", {}, "do not multiply float32 by float32"),
        ((128, 16, 64), "float16", {"precision": "reference"}, "the reference"),
        ((128, 32, 32), "float32", {"precision": "tf32", "is_b_turned": False}, "16 bits"),
    ],
)
def test_tiles_that_warpgroups_do_not_multiply_have_other_code(tile, factors, others, reason):
    artifact = compile_product(shared_product(*tile, **others), _signature(factors, "float32"))
    assert reason in _reason(artifact)


def test_other_architectures_have_other_code():
    artifact = compile_product(
        shared_product(128, 64, 64), _signature("bfloat16", "float32"), arch="sm_90"
    )
    assert artifact.additions == NO_ADDITIONS
    assert "wgmma" not in artifact.ptx


@kd.kernel
def scaled(a, b, c, scale):
    for m, n in kd.tiles(c.shape, (128, 128)):
        total = kd.tile.zeros((128, 128), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x = kd.tile.load(a, (m, k), (128, 64))
            y = kd.tile.load(b, (n, k), (128, 64))
            total = kd.mma(x, y.T, total)
        kd.tile.store(c, (m, n), total * scale)


def test_what_follows_the_loop_is_on_the_results():
    artifact = compile_product(
        scaled, "bfloat16[:, ::1], bfloat16[:, ::1], float32[:, ::1], float32"
    )
    assert artifact.additions.threads == 128
    assert problem_of(assemble(artifact.ptx, "sm_90a"), artifact.entry_name) is None


@kd.kernel
def normalized(a, b, c):
    for m in kd.tiles(c.shape[0], 128):
        total = kd.tile.zeros((128, 64), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x = kd.tile.load(a, (m, k), (128, 64))
            y = kd.tile.load(b, (0, k), (64, 64))
            total = kd.mma(x, y.T, total)
        shares = math.exp(total - total.max(axis=1))
        kd.tile.store(c, (m, 0), shares / shares.sum(axis=1))


def test_rows_of_results_are_folded_in_registers():
    artifact = compile_product(normalized, "float16[:, ::1], float16[:, ::1], float32[:, ::1]")
    assert artifact.additions.threads == 128
    assert artifact.static_shared_bytes == 0
    assert problem_of(assemble(artifact.ptx, "sm_90a"), artifact.entry_name) is None


@kd.kernel
def centered(a, b, c):
    for m in kd.tiles(c.shape[0], 128):
        total = kd.tile.zeros((128, 64), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x = kd.tile.load(a, (m, k), (128, 64))
            y = kd.tile.load(b, (0, k), (64, 64))
            total = kd.mma(x, y.T, total)
        if (total > 7).any():
            total = total - total.sum()
        kd.tile.store(c, (m, 0), total)


def test_only_the_declared_threads_wait_for_each_other():
    artifact = compile_product(centered, "float16[:, ::1], float16[:, ::1], float32[:, ::1]")
    assert artifact.additions.threads == 128
    first, *others = re.findall(r"^\s*(bar(?:rier)?[.\w]*\s+[^;]*);", artifact.ptx, re.MULTILINE)
    assert first.split() == ["bar.sync", "0"]  # before the threads part
    assert others
    assert all(re.search(r"\b256\b|, 128$", each) for each in others)


@kd.kernel
def doubled(a, b, c):
    for m, n in kd.tiles(c.shape, (128, 128)):
        total = kd.tile.zeros((128, 128), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x = kd.tile.load(a, (m, k), (128, 64))
            y = kd.tile.load(b, (n, k), (128, 64))
            total = kd.mma(x + x, y.T, total)
        kd.tile.store(c, (m, n), total)


def test_a_factor_that_is_computed_is_not_copied():
    artifact = compile_product(
        doubled, "bfloat16[:, ::1], bfloat16[:, ::1], float32[:, ::1]", threads=256
    )
    assert "factor" in _reason(artifact)


@kd.kernel
def attended(q, k, v, out, scale, *, columns, width):
    first, head = kd.blockIdx.x * 128, kd.blockIdx.y
    x = kd.tile.load(q[head], (first, 0), (128, width))
    acc = kd.tile.zeros((128, width), kd.float32)
    top, total = kd.tile.full((128, 1), -1e30, kd.float32), kd.tile.zeros((128, 1), kd.float32)
    for j in kd.pipelined(range(0, k.shape[1], columns)):
        s = kd.mma(x, kd.tile.load(k[head], (j, 0), (columns, width)).T) * scale
        high = max(top, s.max(axis=1))
        p, fade = math.exp2(s - high), math.exp2(top - high)
        total, top = total * fade + p.sum(axis=1), high
        y = kd.tile.load(v[head], (j, 0), (columns, width))
        acc = kd.mma(p.astype(v.dtype), y, acc * fade)
    kd.tile.store(out[head], (first, 0), acc / total)


@pytest.mark.parametrize(("columns", "width"), [(128, 128), (128, 64)])
def test_attention_has_its_scores_in_registers(columns, width):
    kind = "bfloat16[:, :, ::1]"
    kernel = attended.member(columns=columns, width=width)
    artifact = compile_product(kernel, f"{kind}, {kind}, {kind}, {kind}, float32")
    assert artifact.additions.threads == 128
    assert artifact.static_shared_bytes == 0
    assert artifact.tensor_maps == tuple(
        TensorMap(n, (2, 1, 0), (64, 128, 1), 128) for n in range(3)
    )
    # With wide heads products overlap: they are before the loop, in it, and after it.
    count = 2 if width == 128 else 1
    assert artifact.ptx.count("wgmma.mma_async") == count * (width // 16 + columns // 16)
    registers = r"wgmma.mma_async.* \{%r\d+, %r\d+, %r\d+, %r\d+\}, %rd"
    assert len(re.findall(registers, artifact.ptx)) == count * (columns // 16)
    assert artifact.ptx.count("wgmma.wait_group.sync.aligned 1;") == count - 1
    assert problem_of(assemble(artifact.ptx, "sm_90a"), artifact.entry_name) is None


@kd.kernel
def in_place(a, b, c):
    for m, n in kd.tiles(c.shape, (128, 16)):
        total = kd.tile.zeros((128, 16), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x = kd.tile.load(a, (m, k), (128, 64))
            y = kd.tile.load(b, (n, k), (16, 64))
            total = kd.mma(x, y.T, total)
        kd.tile.store(c, (m, n), total)
        kd.tile.store(a, (m, n), total.astype(a.dtype))


@kd.kernel
def of_pages(a, b, c):
    for m, n in kd.tiles(c.shape, (128, 16)):
        total = kd.tile.zeros((128, 16), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x = kd.tile.load(a, (m, int(c[0, k])), (128, 64))
            y = kd.tile.load(b, (n, k), (16, 64))
            total = kd.mma(x, y.T, total)
        kd.tile.store(c, (m, n), total)


@kd.kernel
def until_large(a, b, c):
    for m, n in kd.tiles(c.shape, (128, 16)):
        total = kd.tile.zeros((128, 16), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x = kd.tile.load(a, (m, k), (128, 64))
            y = kd.tile.load(b, (n, k), (16, 64))
            total = kd.mma(x, y.T, total)
            if total.max() > 100:
                break
        kd.tile.store(c, (m, n), total)


@kd.kernel
def with_a_barrier(a, b, c):
    for m, n in kd.tiles(c.shape, (128, 16)):
        total = kd.tile.zeros((128, 16), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x = kd.tile.load(a, (m, k), (128, 64))
            y = kd.tile.load(b, (n, k), (16, 64))
            total = kd.mma(x, y.T, total)
        kd.syncthreads()
        kd.tile.store(c, (m, n), total)


@kd.kernel
def of_its_size(a, b, c):
    for m, n in kd.tiles(c.shape, (128, 16)):
        total = kd.tile.zeros((128, 16), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x = kd.tile.load(a, (m, k), (128, 64))
            y = kd.tile.load(b, (n, k), (16, 64))
            total = kd.mma(x, y.T, total)
        kd.tile.store(c, (m, n), total * kd.float32(kd.blockDim.x))


@kd.kernel
def with_another_product(a, b, c):
    for m, n in kd.tiles(c.shape, (128, 16)):
        total = kd.tile.zeros((128, 16), kd.float32)
        for k in kd.pipelined(range(0, a.shape[1], 64)):
            x = kd.tile.load(a, (m, k), (128, 64))
            y = kd.tile.load(b, (n, k), (16, 64))
            total = kd.mma(x, y.T, total)
        x = kd.tile.load(a, (m, 0), (128, 64))
        y = kd.tile.load(b, (n, 0), (16, 64))
        kd.tile.store(c, (m, n), kd.mma(x, y.T, total))


@kd.kernel
def sometimes(a, b, c):
    for m in kd.tiles(c.shape[0], 128):
        x = kd.tile.load(a, (m, 0), (128, 64))
        if m == 128:
            continue
        total = kd.tile.zeros((128, 16), kd.float32)
        for k in kd.pipelined(range(0, b.shape[0], 64)):
            total = kd.mma(x, kd.tile.load(b, (k, 0), (16, 64)).T, total)
        kd.tile.store(c, (m, 0), total)


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (sometimes, "not always read"),
        (in_place, "writes an array of factors"),
        (of_pages, "depends on an array"),
        (until_large, "depends on products"),
        (with_a_barrier, "has syncthreads"),
        (of_its_size, "has blockDim.x"),
        (with_another_product, "outside the loop"),
    ],
)
def test_what_early_copies_would_change_has_other_code(kernel, reason):
    artifact = compile_product(kernel, _signature("bfloat16", "float32"))
    assert reason in _reason(artifact)


def test_code_that_an_assembler_makes_slow_is_not_taken(monkeypatch):
    monkeypatch.setattr(ptxas, "find_problem", lambda *args: "it is slow")
    compiled = compile_product.__wrapped__  # not what another test has compiled
    artifact = compiled(shared_product(128, 64, 64), _signature("bfloat16", "float32"))
    assert _reason(artifact) == "1 kernel unchanged: it is slow"


def test_products_that_an_assembler_makes_slow_do_not_overlap(monkeypatch):
    slow = [True, False]
    monkeypatch.setattr(ptxas, "find_problem", lambda *args: "it is slow" if slow.pop(0) else None)
    kind = "bfloat16[:, :, ::1]"
    kernel = attended.member(columns=64, width=128)
    artifact = compile_product(kernel, f"{kind}, {kind}, {kind}, {kind}, float32")
    assert artifact.additions.threads == 128
    assert artifact.ptx.count("wgmma.mma_async") == 12
    texts = {each.name: each.text for each in artifact.passes}
    assert texts["overlap-products"] == "1 kernel unchanged: it is slow"


_LOG = """
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    {stack} bytes stack frame, {stores} bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers
"""
_SERIALIZED = (
    "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
    "serialized due to insufficient register resources for the wgmma pipeline in function 'k'"
)


@pytest.mark.parametrize(
    ("log", "problem"),
    [
        (_LOG.format(stack=0, stores=0), None),
        (_LOG.format(stack=64, stores=64), None),
        (_LOG.format(stack=68, stores=68), "a thread spills 68 bytes"),
        (_SERIALIZED + _LOG.format(stack=0, stores=0), "ptxas serializes the products (C7510)"),
    ],
)
def test_what_ptxas_says_of_code(log, problem):
    from targets.cuda.compile.ptxas import _parse

    assert problem_of(Assembled(b"", log, _parse(log, "sm_90a")), "k") == problem


def test_stored_code_has_what_its_launches_add():
    artifact = compile_product(shared_product(128, 128, 64), _signature("bfloat16", "float32"))
    for sections in (stored.dump(artifact), stored.ship(artifact)):
        restored = stored.restore(artifact.specialization, sections, "sm_90a")
        assert restored.additions == artifact.additions
        assert restored.tensor_maps == artifact.tensor_maps
        assert restored.offsets == artifact.offsets
        assert restored.matrix_shared_bytes == artifact.matrix_shared_bytes


@pytest.mark.parametrize(
    "broken",
    [
        {"maps": [[9, [1, 0], [64, 128], 128]], "threads": 128},
        {"maps": [[0, [1, 1], [64, 128], 128]], "threads": 128},
        {"maps": [[0, [1, 0], [64, 512], 128]], "threads": 128},
        {"maps": [[0, [1, 0], [64, 128], 7]], "threads": 128},
        {"maps": [[0]], "threads": 128},
        {"threads": 128},
        7,
    ],
)
def test_additions_that_are_none_are_refused(broken):
    from kerneldsl.contract import UnusableCodeError
    from targets.cuda.compile.lowered import restore_additions

    with pytest.raises(UnusableCodeError):
        restore_additions({"additions": broken}, 3)
    assert restore_additions({}, 3) == NO_ADDITIONS == LaunchAdditions()


def _arrays(*shapes):
    return [kd.to_device(np.zeros(shape, np.float16)) for shape in shapes]


def test_launches_use_warpgroups_where_arguments_allow_it():
    kernel = product(128, 64, 64)
    with null_in_use() as null:
        (a, b), c = _arrays((256, 64), (128, 64)), kd.to_device(np.zeros((256, 128), np.float32))
        kernel[4, 256](a, b, c)
        kernel.forall(256, 128, block=256)(a, b, c)
        narrow = _arrays((256, 62), (128, 62))  # rows of 124 bytes
        kernel[4, 256](*narrow, c)
        found = [each.artifact for each in kernel._dispatcher.state().loaded.values()]
        assert [each.arch for each in found] == ["sm_90a"] * len(found)
        assert sorted({each.additions.threads for each in found}) == [0, 128]
        # As many blocks as multiprocessors, as one alone has room there.
        count = null.devices()[0].limits.multiprocessor_count
        assert [each.config.grid_dim[0] for each in null.launches] == [4, count, 4]


def test_a_transposed_view_is_copied_as_it_is_stored():
    kernel = product(128, 64, 64, is_b_turned=False)
    with null_in_use():
        (a, b), c = _arrays((256, 64), (128, 64)), kd.to_device(np.zeros((256, 128), np.float32))
        kernel[4, 256](a, b.T, c)
        (found,) = (each.artifact for each in kernel._dispatcher.state().loaded.values())
    assert found.tensor_maps == (
        TensorMap(0, (1, 0), (64, 128), 128),
        TensorMap(1, (0, 1), (64, 64), 128),
        TensorMap(2, (1, 0), (32, 64), 128),
    )


def test_members_of_a_space_have_as_many_blocks_as_run_at_once():
    @kd.kernel(space=kd.mma_space("BM", "BN", "BK"))
    def multiply(a, b, c, *, BM, BN, BK):
        for m, n in kd.tiles(c.shape, (BM, BN)):
            total = kd.tile.zeros((BM, BN), kd.float32)
            for k in kd.pipelined(range(0, a.shape[1], BK)):
                x = kd.tile.load(a, (m, k), (BM, BK))
                y = kd.tile.load(b, (n, k), (BN, BK))
                total = kd.mma(x, y.T, total)
            kd.tile.store(c, (m, n), total)

    with null_in_use() as null:
        for rows, columns in ((4096, 4096), (1024, 1024)):
            a, b = _arrays((rows, 64), (columns, 64))
            multiply.forall(rows, columns)(a, b, *_arrays((rows, columns)))
        grids = [math.prod(each.config.grid_dim) for each in null.launches]
    assert grids == [132, 128]  # of one wave, and of tiles of 128 by 64


def test_arrays_without_elements_have_other_code():
    kernel = product(128, 64, 64)
    with null_in_use():
        c = kd.to_device(np.zeros((256, 128), np.float32))
        kernel[4, 256](*_arrays((256, 0), (128, 0)), c)
        (found,) = (each.artifact for each in kernel._dispatcher.state().loaded.values())
    assert "multiples of 16 bytes" in _reason(found)


def test_the_product_of_the_library_has_as_many_blocks_as_run_at_once():
    with null_in_use() as null:
        a, b = _arrays((4096, 128), (128, 4096))
        matmul(a, b)
        (launch,) = (each for each in null.launches if each.kernel == "matmul_mma")
        count = null.devices()[0].limits.multiprocessor_count
    assert launch.config.grid_dim == (count, 1, 1)
    rows, columns, depth, _ = next(iter(DEVICE_TILES))
    member = matmul_mma.member(rows=rows, columns=columns, depth=depth, parts=1)
    # Others may have called it in this process, with other dtypes.
    found = [each.artifact for each in member._dispatcher.state().loaded.values()]
    assert 128 in {each.additions.threads for each in found if each.additions}
